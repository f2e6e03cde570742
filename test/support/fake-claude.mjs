#!/usr/bin/env node
// Plays the Claude Code CLI's part of its stream-json protocol. FAKE_CLAUDE_SCRIPT names a JSON file with the steps to play: a list,
// or { start, resume } with one list each; without it fake-claude-demo.mjs answers. FAKE_CLAUDE_RECORD names a file that gets what
// it received, one JSON object a line. fake-claude.ts has the types of both. Plain ESM without dependencies, for any Node from 20 on.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { appendFileSync, closeSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { playDemo } from './fake-claude-demo.mjs'

const argv = process.argv.slice(2)
const valueOf = (name) => {
  const at = argv.findIndex((arg) => arg === name || arg.startsWith(`${name}=`))
  return at === -1 ? undefined : argv[at].includes('=') ? argv[at].slice(name.length + 1) : argv[at + 1]
}
const { FAKE_CLAUDE_SCRIPT: scriptFile, FAKE_CLAUDE_RECORD: recordFile } = process.env

const record = (entry) => { if (recordFile) appendFileSync(recordFile, `${JSON.stringify(entry)}\n`) }

/** What the host wrote, by kind, for whoever waits for it. Once the input has ended it gives `undefined`. */
function createInbox () {
  const kept = []
  const waiting = []
  const all = { users: [], requests: [] }
  let ended = false
  const serve = () => {
    for (let i = 0; i < waiting.length;) {
      const { matches, resolve } = waiting[i]
      const at = kept.findIndex(matches)
      if (at === -1 && !ended) { i++; continue }
      waiting.splice(i, 1)
      resolve(at === -1 ? undefined : kept.splice(at, 1)[0])
    }
  }
  return {
    all,
    add (frame) {
      if (frame.type === 'user') all.users.push(frame)
      if (frame.type === 'control_request') all.requests.push(frame)
      kept.push(frame)
      serve()
    },
    end () { ended = true; serve() },
    take (matches) { return new Promise((resolve) => { waiting.push({ matches, resolve }); serve() }) }
  }
}

const session = { id: valueOf('--resume') ?? randomUUID(), model: valueOf('--model') ?? 'claude-fake', tools: valueOf('--tools'), cwd: process.cwd() }
const inbox = createInbox()
const ignored = new Set()

/** Resolves once the text is on its way: a reader that does not read holds the script back. */
const write = (text) => new Promise((resolve) => { process.stdout.write(text, resolve) })
/** An ordinary end, after all that was written. */
const exit = async (code) => {
  await write('')
  process.exit(code)
}
const emit = (frame) => write(`${JSON.stringify({ session_id: session.id, uuid: randomUUID(), ...frame })}\n`)
const answer = (request, response = {}) =>
  emit({ type: 'control_response', response: { subtype: 'success', request_id: request.request_id, response } })

const textOf = (user) => {
  const content = user?.message?.content
  return typeof content === 'string' ? content : (content ?? []).map((block) => block.text ?? '').join('')
}

/** `{{session}}`, `{{uuid}}`, `{{cwd}}`, `{{pid}}`, and of the n-th user line or control request `{{user:n}}`, `{{text:n}}`, `{{request:n}}`. */
function fill (value) {
  if (Array.isArray(value)) return value.map(fill)
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item)]))
  if (typeof value !== 'string') return value
  return value.replaceAll(/\{\{(\w+)(?::(\d+))?\}\}/g, (whole, name, n) => {
    switch (name) {
      case 'session': return session.id
      case 'uuid': return randomUUID()
      case 'cwd': return session.cwd
      case 'pid': return String(process.pid)
      case 'user': return inbox.all.users[n - 1]?.uuid ?? whole
      case 'text': return textOf(inbox.all.users[n - 1])
      case 'request': return inbox.all.requests[n - 1]?.request_id ?? whole
      default: return whole
    }
  })
}

const GRANDCHILD = (ignoresTerm) => `${ignoresTerm ? "process.on('SIGTERM', () => {});" : ''} setInterval(() => {}, 60000); process.send('ready')`

/** A process that lives on; it is told of once it can heed, or ignore, a signal. */
async function startGrandchild ({ ignoresTerm = false, holdsOutput = false, leavesGroup = false }) {
  const child = spawn(process.execPath, ['-e', GRANDCHILD(ignoresTerm)], {
    detached: leavesGroup, stdio: ['ignore', holdsOutput ? 'inherit' : 'ignore', 'ignore', 'ipc']
  })
  await new Promise((resolve) => { child.once('message', resolve) })
  child.disconnect()
  child.unref()
  record({ kind: 'grandchild', pid: child.pid })
}

/** The input's end is an ordinary end, unless it is ignored: then nothing but a signal ends the process. */
async function atInputEnd () {
  if (!ignored.has('end')) await exit(0)
  await new Promise(() => { setInterval(() => {}, 60_000) })
}
const takeOrEnd = async (matches) => await inbox.take(matches) ?? atInputEnd()

async function playStep (step) {
  if ('user' in step) await takeOrEnd(({ type }) => type === 'user')
  else if ('request' in step) {
    const request = await takeOrEnd((frame) => frame.type === 'control_request' && frame.request?.subtype === step.request)
    if (step.answer !== false) await answer(request, fill(step.answer))
  } else if ('response' in step) await takeOrEnd(({ type }) => type === 'control_response')
  else if ('emit' in step) for (const frame of [step.emit].flat()) await emit(fill(frame))
  else if ('write' in step) await write(fill(step.write))
  else if ('stderr' in step) process.stderr.write(fill(step.stderr))
  else if ('delay' in step) await delay(step.delay)
  else if ('silent' in step) await takeOrEnd(() => false)
  else if ('ignore' in step) ignored.add(step.ignore)
  else if ('grandchild' in step) await startGrandchild(step.grandchild)
  else if ('pauseInput' in step) process.stdin.pause()
  else if ('closeOutput' in step) {
    await write('')
    closeSync(1)
    record({ kind: 'closed' })
  } else if ('exit' in step) await exit(step.exit)
  else if ('kill' in step) {
    await write('')
    process.kill(process.pid, step.kill)
    await delay(60_000)
  } else if ('repeat' in step) for (let i = 0; i < step.repeat; i++) await play(step.steps)
  else if ('demo' in step) await playDemo({ inbox, session, emit, answer, textOf })
  else throw new Error(`fake-claude: unknown step ${JSON.stringify(step)}`)
}

async function play (steps) {
  for (const step of steps) await playStep(step)
}

function readInput () {
  let rest = ''
  process.stdin.setEncoding('utf8')
  process.stdin.on('data', (chunk) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const frame = JSON.parse(line)
      record({ kind: 'in', frame, ...(frame.type === 'control_response' ? { line } : {}) })
      inbox.add(frame)
    }
  })
  process.stdin.on('end', () => {
    record({ kind: 'end' })
    inbox.end()
  })
}

/** `-p '<prompt>'` without an input format: the prompt is an argument, and nothing is read. */
const promptOf = (args) => {
  if (valueOf('--input-format') === 'stream-json') return undefined
  const at = args.findIndex((arg) => arg === '-p' || arg === '--print')
  const next = at === -1 ? undefined : args[at + 1]
  return next === undefined || next.startsWith('-') ? undefined : next
}

/** One turn, as for a person at a terminal: no line has a uuid, none is replayed. */
async function answerOnce (text) {
  const format = valueOf('--output-format') ?? 'text'
  if (format === 'stream-json' && !argv.includes('--verbose')) {
    process.stderr.write('with stream-json output --verbose is needed too\n')
    await exit(1)
  }
  const withStream = argv.includes('--include-partial-messages')
  const shown = async (frame) => {
    if (format !== 'stream-json') return frame.type === 'result' ? write(`${frame.result}\n`) : undefined
    return frame.type === 'stream_event' && !withStream ? undefined : emit(frame)
  }
  inbox.add({ type: 'user', message: { role: 'user', content: text }, parent_tool_use_id: null })
  inbox.end()
  await playDemo({ inbox, session, emit: shown, answer, textOf })
  await exit(0)
}

process.stdout.on('error', () => process.exit(1))
process.on('SIGTERM', () => {
  record({ kind: 'signal', signal: 'SIGTERM' })
  if (!ignored.has('SIGTERM')) process.exit(143)
})
record({ kind: 'start', pid: process.pid, argv, env: process.env, cwd: session.cwd })
const script = scriptFile ? JSON.parse(readFileSync(scriptFile, 'utf8')) : [{ demo: true }]
const steps = Array.isArray(script) ? script : valueOf('--resume') === undefined ? script.start : script.resume
// From the first step on, so that what it says it ignores is ignored before any of it can come.
for (const step of steps) if ('ignore' in step) ignored.add(step.ignore)
const prompt = promptOf(argv)
if (prompt === undefined) {
  readInput()
  await play(steps)
  await takeOrEnd(() => false)
} else await answerOnce(prompt)
