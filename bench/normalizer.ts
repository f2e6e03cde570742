import { createLineReader } from '../src/providers/claude-code/lines.ts'
import { normalize } from '../src/providers/claude-code/normalizer.ts'
import { createState, type State } from '../src/providers/claude-code/state.ts'
import type { Frame } from '../src/providers/claude-code/vocabulary.ts'
import type { Bench, Row } from './bench.ts'
import { turn } from './chat-frames.ts'
import { megabytes, rate, within } from './figures.ts'

const BAR = { least: 50_000 }
const lines = (value: number): string => rate(value, 'lines')

/** Lines through the line reader and the normalizer, without a service: as the CLI writes them, and as nobody but an enemy does. */
export async function normalizer (bench: Bench): Promise<Row[]> {
  const count = bench.quick ? 100_000 : 1_000_000
  run(turn, 50_000)
  const before = heap()
  const plain = run(turn, count)
  const grown = heap() - before
  run(hostile, 50_000)
  const enemy = run(hostile, count / 5)
  return [
    within(`${count / 1000}k lines of a chat's turns: normalized`, plain.rate, lines, BAR),
    within('the same: memory over before', grown, megabytes, { most: 20e6 }),
    within(`${count / 5000}k lines of a hostile mix: normalized`, enemy.rate, lines, BAR),
    within('the slowest thousand of them', enemy.slowest, lines, { least: BAR.least / 5 })
  ]
}

interface Run { rate: number, slowest: number, state: State }

/** Plays rounds until `count` lines are through. `slowest`: the rate of the thousand lines that took longest. */
function run (round: (n: number) => Iterable<Frame>, count: number): Run {
  const reader = createLineReader()
  let state = createState('ingest')
  let [played, spent, slowest, n] = [0, 0, 0, 0]
  while (played < count) {
    const bytes: Buffer[] = []
    while (bytes.length < 1000) for (const frame of round(n++)) bytes.push(Buffer.from(`${JSON.stringify(frame)}\n`))
    const from = performance.now()
    for (const line of bytes) for (const { input } of reader.push(line)) [state] = normalize(state, input)
    const took = performance.now() - from
    spent += took
    slowest = Math.max(slowest, took / bytes.length)
    played += bytes.length
  }
  return { rate: 1000 * played / spent, slowest: 1000 / slowest, state }
}

/** What a stream could do to a state that keeps too much: each round a little of everything that once was dear. */
function * hostile (n: number): Generator<Frame> {
  const call = (id: string, name: string, at = id): Frame => ({ type: 'assistant', message: { id: at, content: [{ type: 'tool_use', id, name, input: { prompt: 'p' } }] } })
  const task = (id: string, more: Frame): Frame => ({ type: 'system', subtype: 'task_started', task_id: id, ...more })
  if (n % 500 === 0) yield * [call(`a-${n}`, 'Agent', 'w'), task(`t-${n}`, { tool_use_id: `a-${n}`, is_backgrounded: true })]
  const known = n - n % 500
  yield { type: 'command_lifecycle', command_uuid: `u-${n}`, state: 'started' }
  yield { type: 'command_lifecycle', command_uuid: `q-${n}`, state: 'queued' }
  yield { type: 'user', message: { content: `words ${n}` } }
  yield call(`c-${n}`, 'Read', 'w')
  yield call(`r-${n}`, 'Agent')
  yield call(`s-${n}`, 'Skill')
  yield task(`t-${known}`, { tool_use_id: `m-${n}` })
  yield task(`t-${known}`, { tool_use_id: `p-${n}`, prompt: `p ${n}` })
  if (n % 7 === 0) yield { type: 'system', subtype: 'task_notification', task_id: `t-${known}`, status: 'completed' }
  yield task(`f-${n}`, { description: '/fork it', prompt: 'Fork.' })
  yield { type: 'stream_event', event: { type: 'content_block_start', index: n, content_block: { type: 'tool_use', id: `d-${n}`, name: 'Read' } } }
  yield { type: 'stream_event', event: { type: 'content_block_delta', index: n, delta: { type: 'text_delta', text: 'word' } } }
  yield { type: 'user', parent_tool_use_id: `a-${known}`, message: { content: `words ${n}` } }
  if (n % 1000 === 0) yield { type: 'result', subtype: 'success', uuid: `e-${n}` }
}

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}
