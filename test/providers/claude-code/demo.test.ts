import { execFileSync } from 'node:child_process'
import { expect, onTestFinished, test } from 'vitest'
import { approve, environmentOf, interruptRequest, stopTaskRequest, userLine } from '../../../src/providers/claude-code/command.ts'
import { createLineReader } from '../../../src/providers/claude-code/lines.ts'
import { normalize } from '../../../src/providers/claude-code/normalizer.ts'
import { startCli, type CliProcess } from '../../../src/providers/claude-code/process.ts'
import { createState } from '../../../src/providers/claude-code/state.ts'
import type { Emitted } from '../../../src/providers/claude-code/vocabulary.ts'
import { fakeClaude, fakeClaudeFolder } from '../../support/fake-claude.ts'
import { makeFolder } from '../../support/service.ts'

interface Played { events: Emitted[], of<T extends Emitted['type']> (type: T): Extract<Emitted, { type: T }>[] }

/** The fake CLI without a script, through the normalizer, until its input is closed and it has ended. */
async function play (texts: string[], react: (event: Emitted, cli: CliProcess) => void = () => {}, env: Record<string, string> = {}): Promise<Played> {
  const { command } = fakeClaude(onTestFinished)
  const cli = await startCli({
    command, args: [], cwd: makeFolder(onTestFinished), onStderr: () => {},
    env: environmentOf({ inherited: { PATH: process.env['PATH'] ?? '' }, env, runId: 'run-1' })
  })
  onTestFinished(() => cli.end(0))
  let state = createState('drive')
  const events: Emitted[] = []
  const feed = (input: Parameters<typeof normalize>[1]): void => {
    const [next, made] = normalize(state, input)
    state = next
    events.push(...made)
    for (const event of made) {
      react(event, cli)
      if (event.type === 'turn/ended' && event.turn === texts.length) cli.closeInput()
    }
  }
  const send = (n: number): void => {
    const content = [{ type: 'text' as const, text: texts[n] ?? '' }]
    feed({ type: 'sent', uuid: `u-${n}`, content })
    cli.write(userLine({ uuid: `u-${n}`, content }))
  }
  const reader = createLineReader()
  let sent = 0
  send(sent++)
  for await (const chunk of cli.output) {
    for (const { input } of reader.push(chunk)) {
      const ended = events.filter(({ type }) => type === 'turn/ended').length
      feed(input)
      if (events.filter(({ type }) => type === 'turn/ended').length > ended && sent < texts.length) send(sent++)
    }
  }
  feed({ type: 'exit', ...await cli.exited })
  return { events, of: (type) => events.filter((event): event is Extract<Emitted, { type: typeof type }> => event.type === type) }
}

test('the fake CLI answers a prompt, runs agents and typed forks, and the normalizer reads it all', async () => {
  const { of } = await play(['hello you', 'agent: read it\nagent: write it', '/probe two words'])
  expect(of('turn/ended').map(({ reason, text, answers }) => ({ reason, text, answers }))).toEqual([
    { reason: 'completed', text: 'You said: hello you', answers: true }, { reason: 'completed', text: 'The helpers are done.', answers: true },
    { reason: 'completed', text: 'Report of probe.', answers: true }
  ])
  expect(of('child/started').map(({ label, prompt }) => ({ label, prompt }))).toEqual([
    { label: 'Agent: read it', prompt: 'read it' }, { label: 'Agent: write it', prompt: 'write it' },
    { label: 'Agent: /probe', prompt: 'The skill probe.\nARGUMENTS: two words' }
  ])
  expect(of('child/settled').map(({ reason }) => reason)).toEqual(['completed', 'completed', 'completed'])
})

test('the fake CLI asks for permissions, and heeds an interrupt and a stopped task', async () => {
  const asked = await play(['ask: Bash'], (event, cli) => {
    if (event.type === 'approval/asked') cli.write(approve(event.requestId, event.input))
  })
  expect(asked.of('log').map(({ event }) => event).find(({ type }) => type === 'tool/result')).toMatchObject({ data: { name: 'Bash', isError: false, content: [{ text: 'Bash ran' }] } })
  const pace = { FAKE_CLAUDE_PACE_MS: '100' }
  const interrupted = await play(['/probe'], (event, cli) => { if (event.type === 'child/started') cli.write(interruptRequest('r-1')) }, pace)
  expect(interrupted.of('turn/ended').map(({ reason }) => reason)).toEqual(['aborted'])
  expect(interrupted.of('child/settled').map(({ reason }) => reason)).toEqual(['aborted'])
  const stopped = await play(['agent: read'], (event, cli) => {
    if (event.type === 'journal' && typeof event.frame !== 'string' && event.frame['subtype'] === 'task_started') cli.write(stopTaskRequest('r-1', String(event.frame['task_id'])))
  }, { FAKE_CLAUDE_PACE_MS: '30' })
  expect(stopped.of('turn/ended').map(({ reason }) => reason)).toEqual(['completed'])
  expect(stopped.of('child/settled').map(({ reason }) => reason)).toEqual(['aborted'])
})

test('the fake CLI stands in PATH as claude, and takes a prompt as its argument: one turn, no uuids, live text only where it is asked for', () => {
  const PATH = `${fakeClaudeFolder(onTestFinished)}:${process.env['PATH'] ?? ''}`
  const run = (...args: string[]): string => execFileSync('claude', ['-p', 'Have a helper look around', ...args], { env: { PATH }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  expect(run()).toBe('The helper is done.\n')
  expect(() => run('--output-format', 'stream-json')).toThrow('--verbose')
  for (const partial of [true, false]) {
    const lines = run('--output-format', 'stream-json', '--verbose', ...partial ? ['--include-partial-messages'] : []).split('\n').slice(0, -1)
    expect(lines.some((line) => line.includes('stream_event'))).toBe(partial)
    expect(lines.some((line) => /isReplay|command_lifecycle/.test(line))).toBe(false)
    let state = createState('ingest')
    const events: Emitted[] = []
    for (const line of lines) {
      const [next, made] = normalize(state, { type: 'frame', frame: JSON.parse(line) as object as Record<string, unknown> })
      state = next
      events.push(...made)
    }
    expect(events.filter(({ type }) => /^(child|turn)/.test(type))).toMatchObject([
      { type: 'child/started', label: 'Agent: Look around' }, { type: 'child/settled', reason: 'completed' }, { type: 'turn/ended', reason: 'completed', text: 'The helper is done.' }
    ])
  }
})
