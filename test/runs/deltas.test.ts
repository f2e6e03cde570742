import fc from 'fast-check'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import type { LiveRun } from '../../src/core/live.ts'
import { startService, type Service } from '../support/service.ts'
import { logged, named, readEvents, type SseEvent } from '../support/sse.ts'
import { busy, createGate, playHost, SCRIPT, TOOLS } from './busy-run.ts'

interface Part { kind: string, text: string, toolCallId?: string }

/** What a reader has of the message that is written, as 6.2 tells it to go about it. */
function messageOf (events: readonly SseEvent[]): Part[] {
  let parts: Part[] = []
  for (const { event, data: { data } } of events) {
    if (event === 'assistant/message') parts = []
    if (event === 'snapshot') parts = structuredClone(data.parts as Part[])
    if (event !== 'delta') continue
    const last = parts.at(-1)
    if (last?.kind === data.kind && last?.toolCallId === data.toolCallId) (last as Part).text += data.text
    else parts.push({ kind: data.kind, text: data.text, ...(data.toolCallId === undefined ? {} : { toolCallId: data.toolCallId }) })
  }
  return parts
}

/** What a message of the log would be as its deltas. */
const partsOf = (message: SseEvent | undefined): Part[] =>
  message?.data.data.content.map((part: { type: string, text?: string, arguments?: string, toolCallId?: string }) =>
    part.type === 'tool-call'
      ? { kind: 'tool-arguments', text: part.arguments, toolCallId: part.toolCallId }
      : { kind: part.type, text: part.text })

/** A run whose model hangs: what it writes is the test's. */
async function hangingRun (service: Service, say?: string): Promise<{ id: string, live: LiveRun }> {
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ ...(say === undefined ? {} : { say }), hang: true }] } })
  const live = service.app.registry.live('default', id)
  if (!live) throw new Error('the run is not live')
  return { id, live }
}
const isDelta = ({ event }: SseEvent): boolean => event === 'delta'
const isSnapshot = ({ event }: SseEvent): boolean => event === 'snapshot'

test('6.2 a reader gets an empty snapshot, then every delta with its index, none with an id', async () => {
  const service = await startService(onTestFinished)
  const { id, live } = await hangingRun(service)
  const reader = await readEvents(service, id)
  const events = await reader.until(isSnapshot)
  live.deltas.push('reasoning', 'hm')
  live.deltas.push('text', 'a')
  live.deltas.push('tool-arguments', '{}', 'call_1')
  events.push(...await reader.until(({ data }) => data.data.index === 2))
  const written = events.filter((event) => isDelta(event) || isSnapshot(event))
  const place = { step: 1, attempt: 1 }
  expect(written.map(({ event, id, data }) => ({ event, id, ...data }))).toEqual([
    { event: 'snapshot', id: undefined, runId: live.id, type: 'snapshot', data: { ...place, index: -1, parts: [] } },
    { event: 'delta', id: undefined, runId: live.id, type: 'delta', data: { ...place, index: 0, kind: 'reasoning', text: 'hm' } },
    { event: 'delta', id: undefined, runId: live.id, type: 'delta', data: { ...place, index: 1, kind: 'text', text: 'a' } },
    { event: 'delta', id: undefined, runId: live.id, type: 'delta', data: { ...place, index: 2, kind: 'tool-arguments', toolCallId: 'call_1', text: '{}' } }
  ])
})

test.for([
  ['slowly', { slow: { text: 'a b c d e f', delayMs: 1 } }],
  ['at once', { say: 'a b c d e f' }],
  ['with calls', { say: 'I call ', calls: [{ name: 'read_file', input: { a: 1 } }, { name: 'read_file', input: { b: 2 } }] }]
] as const)('6.2 the deltas make the message that then stands in the log, written %s', async ([, message]) => {
  const gate = createGate()
  const service = await startService(onTestFinished, { tools: [gate.tool] })
  const script = [gate.step, { reasoning: 'let me see', ...message }]
  const { id } = await service.start({ task: 'a', tools: TOOLS, agentOptions: { script } })
  const reader = await readEvents(service, id)
  await reader.until(({ event }) => event === 'tool/call')
  gate.open()
  const events = await reader.until(({ event }) => event === 'assistant/message')
  expect(messageOf(events.slice(0, -1))).toEqual(partsOf(events.at(-1)))
  reader.leave()
})

test('6.2 who joins in mid-message gets one snapshot, then deltas that go on from it', async () => {
  const service = await startService(onTestFinished)
  const { id, live } = await hangingRun(service, 'so far ')
  const first = await readEvents(service, id)
  await first.until((event) => isDelta(event) || isSnapshot(event))
  const joiner = await readEvents(service, id)
  const before = await joiner.until(isSnapshot)
  expect(before.at(-1)?.data.data).toEqual({ step: 1, attempt: 1, index: 1, parts: [{ kind: 'text', text: 'so far ' }] })
  for (const text of ['a', 'b', 'c']) live.deltas.push('text', text)
  const after = await joiner.until(({ data }) => data.data.text === 'c')
  expect(after.map(({ event, data }) => [event, data.data.index])).toEqual([['delta', 2], ['delta', 3], ['delta', 4]])
  expect(messageOf([...before, ...after])).toEqual([{ kind: 'text', text: 'so far abc' }])
})

test('6.2 who comes again in mid-message gets a snapshot too, though its cursor is past the step\'s start', async () => {
  const service = await startService(onTestFinished)
  const { id } = await hangingRun(service, 'so far')
  for (const tree of [false, true]) {
    const first = await readEvents(service, id, { tree })
    const seen = await first.until((event) => isSnapshot(event) && event.data.data.index >= 0)
    first.leave()
    const again = await readEvents(service, id, { tree, lastEventId: logged(seen).at(-1)?.id as string })
    const events = await again.until(isSnapshot)
    expect(events.map(({ event }) => event)).toEqual(['run', 'snapshot'])
    expect(messageOf(events)).toEqual([{ kind: 'text', text: 'so far' }])
  }
})

test('6.2 a new attempt starts with an empty snapshot, after the event that tells of it', async () => {
  const gate = createGate()
  const service = await startService(onTestFinished, { random: () => 0, tools: [gate.tool] })
  const script = [gate.step, { fail: { status: 503, retryAfterMs: 1 } }, { say: 'second try', hang: true }]
  const { id } = await service.start({ task: 'a', agentOptions: { script } })
  const reader = await readEvents(service, id)
  const events = await reader.until(({ event }) => event === 'tool/call')
  gate.open()
  events.push(...await reader.until(({ event, data }) => event === 'delta' && data.data.index === 1))
  const from = events.findIndex(({ event }) => event === 'run/retry')
  const written = events.filter((event) => isDelta(event) || isSnapshot(event))
  expect(from).toBeGreaterThan(0)
  expect(written.filter((event) => events.indexOf(event) > from).map(({ event, data }) => [event, data.data.attempt, data.data.index])).toEqual([
    ['snapshot', 2, -1], ['delta', 2, 0], ['delta', 2, 1]
  ])
  const beforehand = written.filter((event) => events.indexOf(event) < from)
  expect(beforehand.every(({ data }) => data.data.attempt === 1 && data.data.step <= 2)).toBe(true)
})

/** Every delta has its step's start before it, its index next, and no message of that step before it. */
function checkDeltas (events: readonly SseEvent[]): void {
  const open = new Map<string, { step: number, index?: number }>()
  for (const { event, data: { runId, data } } of events) {
    if (event === 'run') open.delete(`${runId} place`)
    if (event === 'step/start') open.set(runId, { step: data.step })
    if (event === 'assistant/message') open.delete(runId)
    if (event !== 'delta' && event !== 'snapshot') continue
    const message = open.get(runId)
    expect(message?.step).toBe(data.step)
    if (event === 'delta') expect(data.index).toBe((message?.index ?? NaN) + 1)
    open.set(runId, { step: data.step, index: data.index })
  }
}

test('6.2 wherever a reader is cut, no delta comes before its step, after its message, or without the one before it', async () => {
  const service = await startService(onTestFinished)
  const script = SCRIPT.map((step) => 'say' in step ? { ...step, delayMs: 2 } : step)
  await fc.assert(fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 8 }), fc.boolean(), async (cuts, tree) => {
    const { id } = await service.start(busy({ agentOptions: { script: [...script.slice(0, 2), { slow: { text: 'a b c d e f g h', delayMs: 1 } }] } }))
    const playing = playHost(service, id)
    const events: SseEvent[] = []
    for (const cut of [...cuts, Infinity]) {
      const last = logged(events).at(-1)?.id
      const reader = await readEvents(service, id, { tree, ...(last === undefined ? {} : { after: last }) })
      if (reader.status === 204) break
      let left = cut
      await reader.until((event) => { events.push(event); return --left === 0 })
      reader.leave()
    }
    await playing
    checkDeltas(events)
    expect(events.at(-1)?.event).toBe('settled')
  }), { numRuns: 12 })
})

test('6.4 a reader that does not read costs no memory while 200,000 deltas pass, and then gets a snapshot', async () => {
  const service = await startService(onTestFinished)
  const { id, live } = await hangingRun(service)
  const reader = await readEvents(service, id)
  const before = await reader.until(({ event }) => event === 'step/start')
  const heap = collected()
  const piece = 'ten bytes '
  for (let i = 0; i < 200_000; i++) {
    live.deltas.push('text', piece)
    if (i % 500 === 0) await turn()
  }
  expect(collected() - heap).toBeLessThan(12e6)
  live.deltas.push('text', 'the end')
  const events = [...before, ...await reader.until(({ event, data }) => event === 'snapshot' ? data.data.index === 200_000 : data.data.index === 200_000)]
  const late = named(events, 'snapshot').at(-1)
  expect(late?.data.data.index).toBeGreaterThan(100_000)
  expect(named(events, 'delta').length).toBeLessThan(100_000)
  expect(messageOf(events)).toEqual([{ kind: 'text', text: `${piece.repeat(200_000)}the end` }])
})

/** Bytes of the heap that are in use. */
function collected (): number {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  gc()
  return process.memoryUsage().heapUsed
}

test('6.4 deltas that nobody watches are not kept', async () => {
  const service = await startService(onTestFinished)
  const { live } = await hangingRun(service)
  const heap = collected()
  for (let i = 0; i < 8000; i++) live.deltas.push('text', 'x')
  expect(collected() - heap).toBeLessThan(300_000)
})

test('6.1 a thousand readers of one run get everything, and stay no longer than it', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', tools: [{ name: 'wait', inputSchema: { type: 'object' } }], agentOptions: { script: [
    { call: { name: 'wait' } }, { slow: { text: 'one two three four', delayMs: 20 } }
  ] } })
  const readers = await Promise.all(Array.from({ length: 1000 }, () => readEvents(service, id)))
  const reading = readers.map((reader) => reader.all())
  await playHost(service, id)
  const all = await Promise.all(reading)
  const [first] = all
  expect(logged(first as SseEvent[]).at(-1)?.event).toBe('settled')
  for (const events of all) {
    expect(logged(events)).toEqual(logged(first as SseEvent[]))
    const message = named(events, 'assistant/message').at(-1) as SseEvent
    expect(messageOf(events.slice(0, events.indexOf(message)))).toEqual([{ kind: 'text', text: 'one two three four' }])
  }
}, 60_000)
