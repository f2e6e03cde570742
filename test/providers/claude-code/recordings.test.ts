import fc from 'fast-check'
import { expect, test } from 'vitest'
import { foldMessages } from '../../../src/core/fold.ts'
import { plainJsonFault } from '../../../src/core/json.ts'
import { repair } from '../../../src/core/repair.ts'
import type { SessionEvent } from '../../../src/core/events.ts'
import { createLineReader } from '../../../src/providers/claude-code/lines.ts'
import { dueIn, normalize } from '../../../src/providers/claude-code/normalizer.ts'
import { createState, standing, type State } from '../../../src/providers/claude-code/state.ts'
import type { Emitted, Input, Scope } from '../../../src/providers/claude-code/vocabulary.ts'
import { play, running } from './play.ts'
import { RECORDINGS } from './recordings.ts'

for (const { name, inputs, children, turns, most } of RECORDINGS) {
  for (const mode of ['drive', 'ingest'] as const) {
    test(`a recording of ${name} gives the children, states, texts and counts that its reader expects (${mode})`, () => {
      const chat = play(mode)
      let peak = 0
      for (const input of inputs) {
        if (mode === 'drive' || input.type === 'frame') chat.feed(input)
        peak = Math.max(peak, running(chat))
      }
      chat.feed({ type: 'end' })
      const settled = new Map(chat.of('child/settled').map((event) => [event.child, event.reason]))
      expect(chat.of('child/started').map(({ child, externalId, label }) => [
        externalId, label, settled.get(child),
        chat.data('assistant/message', child).flatMap(({ content }) => content.flatMap((part) => part.type === 'text' ? part.text : ''))
      ])).toEqual(children)
      expect(chat.of('turn/ended').map((end) => [end.reason, end.answers, end.text ?? ''])).toEqual(turns)
      expect([peak, running(chat)]).toEqual([most, 0])
    })
  }
}

/** Values that no field expects. */
const odd = fc.oneof(
  fc.constantFrom(null, true, 0, -0, 1e308, '', '/', [], {}, [null], { type: 'x' }, 'forked-command-', '<system-reminder>', '__proto__'),
  fc.constantFrom('a-1', 'a-2', 't-1', 'u-1', 'u-2', 's-1'), fc.jsonValue({ maxDepth: 2 })
)

/** Everything a stream can do to a recording: frames lost, doubled, moved, torn, and fields of other types. */
const mutation = fc.record({ at: fc.nat(), how: fc.constantFrom('drop', 'double', 'move', 'tear', 'field', 'inner', 'tick', 'interrupt', 'stop'), to: fc.nat(), value: odd })
type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never

function mutated (inputs: readonly Input[], mutations: readonly Mutation[]): Input[] {
  const list = [...inputs]
  for (const { at, how, to, value } of mutations) {
    const i = at % list.length
    const input = list[i] as Input
    switch (how) {
      case 'drop': if (list.length > 1) list.splice(i, 1); break
      case 'double': list.splice(to % list.length, 0, input); break
      case 'move': list.splice(to % list.length, 0, ...list.splice(i, 1)); break
      case 'tear': list[i] = { type: 'unreadable', line: JSON.stringify(input).slice(0, to % 50) }; break
      case 'tick': list.splice(i, 0, { type: 'tick', ms: to % 6000 }); break
      case 'interrupt': list.splice(i, 0, { type: 'interrupt' }); break
      case 'stop': list.splice(i, 0, { type: 'stop' }); break
      default: if (input.type === 'frame') list[i] = { type: 'frame', frame: withOdd(input.frame, to, value, how === 'inner') as Record<string, unknown> }
    }
  }
  return list
}

/** The value with one field replaced; `inner`: a field of its fields. */
function withOdd (value: unknown, to: number, by: unknown, inner: boolean): unknown {
  if (typeof value !== 'object' || value === null) return by
  const keys = Object.keys(value)
  if (keys.length === 0) return by
  const key = keys[to % keys.length] as string
  const old = (value as Record<string, unknown>)[key]
  const made = inner ? withOdd(old, Math.floor(to / keys.length), by, to % 3 !== 0) : by
  return Array.isArray(value) ? value.with(Number(key), made) : { ...value, [key]: made }
}

const script = fc.tuple(fc.array(fc.constantFrom(...RECORDINGS), { minLength: 1, maxLength: 2 }), fc.array(mutation, { maxLength: 25 }))
  .map(([recordings, mutations]) => mutated(recordings.flatMap((recording) => recording.inputs), mutations))

/** What holds at every instant, whatever came. */
function check (state: State, made: readonly Emitted[], seen: { running: Set<number>, settled: Set<number>, lines: number, logs: Map<Scope, SessionEvent[]> }): void {
  for (const event of made) {
    switch (event.type) {
      case 'fault': throw event.error
      case 'journal': expect(event.line).toBe(seen.lines++); break
      case 'child/started':
        expect(event.child).toBe(seen.running.size + seen.settled.size + 1)
        seen.running.add(event.child)
        break
      case 'child/settled':
        expect(seen.running.delete(event.child)).toBe(true)
        seen.settled.add(event.child)
        break
      case 'log': {
        expect(plainJsonFault(event.event.data)).toBeUndefined()
        if (event.scope !== 'chat') expect(seen.running.has(event.scope)).toBe(true)
        const log = seen.logs.get(event.scope) ?? []
        log.push({ ...event.event, seq: log.length, time: 0 })
        seen.logs.set(event.scope, log)
        break
      }
      case 'delta': if (event.scope !== 'chat') expect(seen.running.has(event.scope)).toBe(true); break
      default:
    }
  }
  expect(standing(state).runningChildren).toBe(seen.running.size)
  expect(dueIn(state) ?? 0).toBeGreaterThanOrEqual(0)
}

/** A log that a reader can use: turns closed, each call answered once and after it was made, messages the model takes. */
function checkLog (log: readonly SessionEvent[]): void {
  expect(repair(log)).toEqual([])
  const open = new Map<string, number>()
  for (const { type, data } of log) {
    if (type === 'tool/call') open.set(data.toolCallId, (open.get(data.toolCallId) ?? 0) + 1)
    if (type !== 'tool/result') continue
    expect(open.get(data.toolCallId)).toBeGreaterThan(0)
    open.set(data.toolCallId, (open.get(data.toolCallId) ?? 0) - 1)
  }
  expect([...open.values()].filter((count) => count !== 0)).toEqual([])
  const turns = log.filter((event) => event.type === 'turn/start').map((event) => event.data.turn)
  expect(turns).toEqual(turns.map((_, i) => i + (turns[0] ?? 1)))
  const messages = foldMessages(log)
  messages.forEach((message, i) => {
    if (message.role === 'tool') expect(['assistant', 'tool']).toContain(messages[i - 1]?.role)
  })
}

test('whatever comes: never a throw, each line journaled, running children are started minus settled, nothing runs after the end', () => {
  fc.assert(fc.property(script, fc.constantFrom('drive' as const, 'ingest' as const), fc.constantFrom<Input>({ type: 'end' }, { type: 'exit', code: null }), (inputs, mode, end) => {
    let state = createState(mode)
    const seen = { running: new Set<number>(), settled: new Set<number>(), lines: 0, logs: new Map<Scope, SessionEvent[]>() }
    for (const input of [...inputs, end, ...inputs.slice(0, 5)]) {
      const [next, made] = normalize(state, input)
      check(next, made, seen)
      state = next
    }
    expect(seen.lines).toBe([...inputs, ...inputs.slice(0, 5)].filter((input) => input.type === 'frame' || input.type === 'unreadable').length)
    expect(seen.running.size).toBe(0)
    expect(standing(state)).toEqual({ turn: false, runningChildren: 0, openTools: 0, queued: 0 })
    for (const log of seen.logs.values()) checkLog(log)
  }), { numRuns: 1500 })
})

test('pure: a state that went on gives the same again, and is not changed', () => {
  fc.assert(fc.property(script, (inputs) => {
    const states = [createState('drive')]
    const made = inputs.map((input) => {
      const [next, events] = normalize(states.at(-1) as State, input)
      states.push(next)
      return structuredClone(events)
    })
    inputs.forEach((input, i) => {
      const [next, events] = normalize(states[i] as State, input)
      expect(events).toEqual(made[i])
      expect(next).toEqual(states[i + 1])
    })
  }), { numRuns: 60 })
})

test('a recording fed in any split gives the same events', () => {
  const run = (pieces: readonly Uint8Array[]): Emitted[] => {
    const reader = createLineReader()
    let state = createState('ingest')
    const lines = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()]
    return [...lines.map(({ input }) => input), { type: 'end' } as const].flatMap((input) => {
      const [next, events] = normalize(state, input)
      state = next
      return events
    })
  }
  for (const { inputs } of RECORDINGS) {
    const bytes = Buffer.from(inputs.flatMap((input) => input.type === 'frame' ? `${JSON.stringify(input.frame)}\n` : []).join(''))
    const whole = run([bytes])
    expect(whole.length).toBeGreaterThan(10)
    fc.assert(fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 40 }), (cuts) => {
      const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
      expect(run(at.slice(1).map((to, i) => bytes.subarray(at[i], to)))).toEqual(whole)
    }), { numRuns: 20 })
  }
})
