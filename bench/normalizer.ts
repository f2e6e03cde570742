import { availableParallelism } from 'node:os'
import { createLineReader } from '../src/providers/claude-code/lines.ts'
import { normalize } from '../src/providers/claude-code/normalizer.ts'
import { createState, standing, type State } from '../src/providers/claude-code/state.ts'
import type { Frame, Input } from '../src/providers/claude-code/vocabulary.ts'
import { turn } from './chat-frames.ts'

/**
 * Frames a second through the normalizer, and its memory over a million of them: `node --expose-gc bench/normalizer.ts`.
 * A chat that never ends: turns of streamed answers, each with a subagent, every tenth with a typed fork.
 */
const BAR = 50_000
const COUNT = process.argv.includes('--quick') ? 100_000 : 1_000_000

interface Run { seconds: number, frames: number, events: number, children: number, state: State }

/** Plays turns until `count` frames are through; `each` is told of every 100,000th. */
function run (count: number, take: (frame: Frame) => Input[], each: (frames: number) => void): Run {
  let state = createState('ingest')
  let [frames, events, spent, n] = [0, 0, 0, 0]
  while (frames < count) {
    const inputs = [...turn(n++)]
    const from = performance.now()
    for (const frame of inputs) {
      for (const input of take(frame)) {
        const [next, made] = normalize(state, input)
        state = next
        events += made.length
      }
    }
    spent += performance.now() - from
    if (Math.floor((frames + inputs.length) / 100_000) > Math.floor(frames / 100_000)) each(frames + inputs.length)
    frames += inputs.length
  }
  return { seconds: spent / 1000, frames, events, children: state.children, state }
}

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 1024 / 1024
}

const line = (what: string, { seconds, frames, events, children, state }: Run): void => {
  const rate = Math.round(frames / seconds)
  console.log(`${what}: ${rate.toLocaleString('en')} frames/s (bar ${BAR.toLocaleString('en')}: ${rate >= BAR ? 'met' : 'MISSED'}); ` +
    `${frames} frames, ${events} events, ${children} children, ${standing(state).runningChildren} running at the end`)
}

console.log(`node ${process.version}, ${availableParallelism()} cores${globalThis.gc ? '' : '; without --expose-gc the heap figures say little'}`)
run(50_000, (frame) => [{ type: 'frame', frame }], () => {})
const before = heap()
const samples: string[] = []
line('parsed frames', run(COUNT, (frame) => [{ type: 'frame', frame }], (frames) => samples.push(`${frames / 1000 | 0}k ${(heap() - before).toFixed(1)}`)))
console.log(`heap over the start, MB: ${samples.join(', ')}`)
const reader = createLineReader()
line('lines of bytes', run(COUNT / 5, (frame) => reader.push(Buffer.from(`${JSON.stringify(frame)}\n`)).map(({ input }) => input), () => {}))

let state = createState('ingest')
const from = performance.now()
const WIDE = 100_000
for (let i = 0; i < WIDE; i++) {
  const block = { type: 'tool_use', id: `w-${i}`, name: 'Agent', input: { prompt: 'x', run_in_background: true } }
  for (const frame of [{ type: 'assistant', message: { id: `w-${i}`, content: [block] } }, { type: 'assistant', parent_tool_use_id: 'w-0', message: { content: [{ type: 'text', text: 'x' }] } }]) {
    state = normalize(state, { type: 'frame', frame })[0]
  }
}
const wide = Math.round(2 * WIDE / ((performance.now() - from) / 1000))
const grown = heap() - before
console.log(`${standing(state).runningChildren} children running at once: ${wide.toLocaleString('en')} frames/s; heap ${grown.toFixed(1)} MB more`)
