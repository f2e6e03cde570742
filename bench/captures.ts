import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { AssistantPart, Block } from '../src/core/events.ts'
import { normalize } from '../src/providers/claude-code/normalizer.ts'
import { createState, standing, type State } from '../src/providers/claude-code/state.ts'
import type { Emitted, Input } from '../src/providers/claude-code/vocabulary.ts'

/**
 * Prints what the normalizer makes of recordings of the CLI: `node bench/captures.ts [folder]`. A recording has a line a frame,
 * `{ms, dir, frame}`; what went in is fed as the driver would.
 */
interface Recorded { ms: number, dir: 'in' | 'out', frame: Record<string, unknown> }

const folder = process.argv[2] ?? join(import.meta.dirname, '../../shared/claude-captures')
if (!existsSync(folder)) {
  console.error(`no recordings: ${folder} does not exist`)
  process.exitCode = 1
}

for (const path of globSync('*.jsonl', { cwd: folder }).toSorted()) {
  const lines = readFileSync(join(folder, path), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Recorded)
  for (const mode of ['drive', 'ingest'] as const) print(basename(path), mode, run(lines, mode))
}

function run (lines: readonly Recorded[], mode: State['mode']): { events: Emitted[], state: State, most: number } {
  let state = createState(mode)
  let most = 0
  const events: Emitted[] = []
  let last = 0
  const feed = (input: Input): void => {
    const [next, made] = normalize(state, input)
    state = next
    events.push(...made)
    most = Math.max(most, standing(state).runningChildren)
  }
  for (const line of lines) {
    if (mode === 'drive') feed({ type: 'tick', ms: line.ms - last })
    last = line.ms
    if (line.dir === 'out') feed({ type: 'frame', frame: line.frame })
    else if (mode === 'drive') for (const input of written(line.frame)) feed(input)
  }
  feed(mode === 'drive' ? { type: 'exit', code: 0 } : { type: 'end' })
  return { events, state, most }
}

function written (frame: Record<string, unknown>): Input[] {
  if (frame['type'] === 'control_request') return [{ type: 'interrupt' }]
  if (frame['type'] !== 'user') return []
  const { content } = frame['message'] as { content: string }
  return [{ type: 'sent', uuid: String(frame['uuid']), content: [{ type: 'text', text: content }] }]
}

function print (name: string, mode: string, { events, state, most }: ReturnType<typeof run>): void {
  const journal = events.filter((event) => event.type === 'journal')
  const { turn, runningChildren, openTools, queued } = standing(state)
  console.log(`\n${name} (${mode}): ${journal.length} frames, ${journal.filter((entry) => entry.fed === null).length} to the journal alone; ` +
    `most running ${most}; at the end ${runningChildren} running, turn open: ${turn}, open tools ${openTools}, queued ${queued}`)
  for (const event of events) {
    const said = told(event)
    if (said !== undefined) console.log(`  ${said}`)
  }
}

function told (event: Emitted): string | undefined {
  switch (event.type) {
    case 'log': {
      const scope = event.scope === 'chat' ? 'chat ' : `  #${event.scope} `
      const { type, data } = event.event
      if (type === 'user/message') return `${scope}user: ${short(data.content)}`
      if (type === 'assistant/message') return `${scope}assistant (${data.usage.inputTokens}/${data.usage.outputTokens}): ${short(data.content)}`
      if (type === 'tool/result') return `${scope}result of ${data.toolCallId}${data.isError ? ' (error)' : ''}: ${short(data.content)}`
      if (type === 'turn/start') return `${scope}turn ${data.turn} (${data.origin})`
      if (type === 'turn/end') return `${scope}turn ${data.turn} ends: ${data.reason}`
      return undefined
    }
    case 'child/started': return `+ #${event.child} ${event.label} [${event.externalId}]`
    case 'child/settled': return `- #${event.child} ${event.reason}`
    case 'turn/ended': return `= turn ${event.turn} ${event.reason}, ${event.answers ? 'answers' : 'a wake turn'}: ${JSON.stringify(event.text ?? null)}, $${event.costUsd ?? '?'}`
    case 'session/opened': return `session ${event.model}, ${event.tools.length} tools, ${event.cwd}`
    case 'steer/confirmed': return `steer ${event.uuid}`
    case 'line/dropped': return `dropped ${event.uuid}`
    default: return undefined
  }
}

function short (content: readonly (Block | AssistantPart)[]): string {
  const words = content.map((part) => part.type === 'text' ? part.text : part.type === 'tool-call' ? `<${part.name}>` : `<${part.type}>`).join(' ')
  return JSON.stringify(words.length > 90 ? `${words.slice(0, 90)}…` : words)
}
