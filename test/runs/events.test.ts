import fc from 'fast-check'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, startService, type Service } from '../support/service.ts'
import { logged, named, placeOf, readEvents, type SseEvent } from '../support/sse.ts'
import { busy, createGate, playHost, TOOLS } from './busy-run.ts'

const LOG = [
  'turn/start', 'user/message', 'request/header',
  'step/start', 'assistant/message', 'tool/call', 'tool/result', 'step/end',
  'step/start', 'assistant/message', 'tool/call', 'tool/call', 'tool/result', 'tool/result', 'step/end',
  'step/start', 'assistant/message', 'step/end', 'turn/end', 'settled'
]
const names = (events: readonly SseEvent[]): string[] => events.map(({ event }) => event)
const withoutDeltas = (events: readonly SseEvent[]): SseEvent[] =>
  events.filter(({ event }) => event !== 'delta' && event !== 'snapshot')

async function settledRun (service: Service): Promise<string> {
  const { id } = await service.start(busy())
  await playHost(service, id)
  return id
}

test('6.1, 6.2 a reader from the start gets every event of the log in order, `run` first and `settled` last', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  const reader = await readEvents(service, id)
  const playing = playHost(service, id)
  const events = withoutDeltas(await reader.all())
  await playing
  expect(names(logged(events))).toEqual(LOG)
  expect(logged(events).map(({ data }) => data.seq)).toEqual(LOG.map((_, seq) => seq))
  expect(events[0]?.event).toBe('run')
  expect(events.at(-1)).toMatchObject({ event: 'settled', data: { runId: id, type: 'settled', data: { stopReason: 'completed' } } })
  for (const { event, id: cursor, data } of events) {
    expect(cursor === undefined).toBe(event === 'run')
    expect(data.type).toBe(event)
    if (cursor !== undefined) expect(data.time).toMatch(/^\d{4}-.*Z$/)
  }
})

test('6.1, 6.2 what the stream tells of an event is what the page tells of it', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const streamed = logged(await (await readEvents(service, id)).all()).map(({ data }) => data)
  const { body } = await service.call('GET', `/v1/runs/${id}/events`)
  expect(body.events).toEqual(streamed)
  expect(body.events.find((event: { type: string }) => event.type === 'tool/call')).toMatchObject({ data: { executor: 'host' } })
})

const statusOf = ({ event, data }: SseEvent): string | undefined => event === 'run' ? data.data.status : undefined

test('6.2 `run` comes at each change of status, as the run then is', async () => {
  const [first, second] = [createGate('first'), createGate('second')]
  const service = await startService(onTestFinished, { tools: [first.tool, second.tool] })
  const { id } = await service.start({
    task: 'a', tools: TOOLS, agentOptions: { script: [first.step, { call: { name: 'read_file' } }, second.step, { say: 'done' }] }
  })
  const reader = await readEvents(service, id)
  const events = await reader.until((event) => statusOf(event) === 'running')
  first.open()
  events.push(...await reader.until((event) => statusOf(event) === 'waiting'))
  const [call] = (events.at(-1) as SseEvent).data.data.pendingToolCalls
  expect(call).toMatchObject({ name: 'read_file' })
  await service.call('POST', `/v1/runs/${id}/tool-results`, { results: [{ toolCallId: call.toolCallId, content: 'x' }] })
  events.push(...await reader.until((event) => statusOf(event) === 'running'))
  second.open()
  events.push(...await reader.all())
  expect(named(events, 'run').map(statusOf)).toEqual(['running', 'waiting', 'running', 'settled'])
  expect(events.at(-2)).toMatchObject({ event: 'run', data: { data: { stopReason: 'completed', usage: { steps: 4 } } } })
})

test('6.2 a run that waits for a slot is told as queued, then as running', async () => {
  const gate = createGate()
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1' }, tools: [gate.tool] })
  const first = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const second = await service.start({ task: 'b', agentOptions: { script: [gate.step, { say: 'b' }] } })
  const reader = await readEvents(service, second.id)
  const events = await reader.until((event) => statusOf(event) === 'queued')
  await service.call('POST', `/v1/runs/${first.id}/cancel`, {})
  events.push(...await reader.until((event) => statusOf(event) === 'running'))
  gate.open()
  events.push(...await reader.all())
  expect(named(events, 'run').map(statusOf)).toEqual(['queued', 'running', 'settled'])
})

test('6.1 a reader cut after any event of a settled run gets the rest, by Last-Event-ID as by ?after=', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const whole = logged(await (await readEvents(service, id)).all())
  expect(names(whole)).toEqual(LOG)
  for (const [index, { id: cursor }] of whole.entries()) {
    for (const place of [{ lastEventId: cursor as string }, { after: cursor as string }]) {
      const reader = await readEvents(service, id, place)
      const rest = await reader.all()
      expect(reader.status).toBe(index === whole.length - 1 ? 204 : 200)
      expect(logged(rest)).toEqual(whole.slice(index + 1))
    }
  }
})

/** Reads a run to its end, leaving and coming again after so many log events as each cut says. */
async function readCutUp (service: Pick<Service, 'url'>, id: string, cuts: readonly number[], tree = false): Promise<SseEvent[]> {
  const events: SseEvent[] = []
  for (let n = 0; ; n++) {
    const last = logged(events).at(-1)?.id
    const reader = await readEvents(service, id, { tree, ...(last === undefined ? {} : n % 2 === 0 ? { after: last } : { lastEventId: last }) })
    if (reader.status === 204) return events
    let left = cuts[n] ?? Infinity
    while (left > 0) {
      const event = await reader.next()
      if (!event) break
      events.push(event)
      if (event.id !== undefined) left--
    }
    reader.leave()
  }
}

test('6.1 a reader cut anywhere while the run lives gets every event of the log once and in order', async () => {
  const service = await startService(onTestFinished)
  await fc.assert(fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 12 }), async (cuts) => {
    const { id } = await service.start(busy())
    const reading = readCutUp(service, id, cuts)
    await playHost(service, id)
    const events = logged(await reading)
    expect(names(events)).toEqual(LOG)
    expect(events.map(({ data }) => data.seq)).toEqual(LOG.map((_, seq) => seq))
  }), { numRuns: 15 })
})

test('6.1 a reader goes on where it was after a restart of the service', async () => {
  const folder = makeFolder(onTestFinished)
  const env = { DATABASE_URL: `sqlite:${join(folder, 'runs.db')}` }
  const first = await startService(onTestFinished, { env })
  const { id } = await first.start(busy())
  const reader = await readEvents(first, id)
  const before = await reader.until(({ event }) => event === 'tool/call')
  await first.stop()
  const cut = logged([...before, ...await reader.all()])
  expect(names(cut)).not.toContain('settled')
  const second = await startService(onTestFinished, { env })
  const again = await readEvents(second, id, { lastEventId: cut.at(-1)?.id as string })
  const playing = playHost(second, id)
  const events = [...cut, ...logged(await again.all())]
  await playing
  expect(events.map(({ data }) => data.seq)).toEqual(events.map((_, seq) => seq))
  expect(names(events).filter((name) => name !== 'run/resumed')).toEqual(LOG)
  for (const event of events) {
    const rest = logged(await (await readEvents(second, id, { after: event.id as string })).all())
    expect([...events.slice(0, event.data.seq + 1), ...rest].map(placeOf)).toEqual(events.map(placeOf))
  }
})

test('6.1 a foreign cursor is 400: another run\'s, the tree\'s for an own stream and the reverse, and rubbish', async () => {
  const service = await startService(onTestFinished)
  const [id, other] = [await settledRun(service), await settledRun(service)]
  const cursorOf = async (run: string, tree: boolean): Promise<string> =>
    logged(await (await readEvents(service, run, { tree })).all())[3]?.id as string
  const own = await cursorOf(id, false)
  const foreign = [await cursorOf(other, false), await cursorOf(id, true), 'rubbish', '17', `${own.slice(0, -1)}-1`, '💥', ' ']
  for (const cursor of foreign) {
    for (const accept of ['text/event-stream', 'application/json']) {
      const path = `/v1/runs/${id}/events?after=${encodeURIComponent(cursor)}`
      const answer = await service.call('GET', path, undefined, { accept })
      expect([cursor, answer.status, answer.body?.code]).toEqual([cursor, 400, 'INVALID_REQUEST'])
      expect(answer.body.errors).toMatchObject([{ pointer: '/after' }])
    }
  }
  expect((await service.call('GET', `/v1/runs/${id}/events?tree=true&after=${own}`)).status).toBe(400)
  expect((await readEvents(service, id, { lastEventId: 'rubbish' })).status).toBe(400)
})

test('6.1 Last-Event-ID beats ?after=', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const whole = logged(await (await readEvents(service, id)).all())
  const reader = await readEvents(service, id, { after: 'rubbish', lastEventId: whole[4]?.id as string })
  expect(logged(await reader.all())).toEqual(whole.slice(5))
})

test('6.3 `settled` is last, and coming again after it is 204', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const settled = logged(await (await readEvents(service, id)).all()).at(-1)
  expect(settled?.event).toBe('settled')
  const again = await readEvents(service, id, { lastEventId: settled?.id as string })
  expect([again.status, await again.all()]).toEqual([204, []])
  const page = await service.call('GET', `/v1/runs/${id}/events?after=${settled?.id}`)
  expect(page.body).toEqual({ events: [], after: settled?.id, settled: true })
})

test('6.4 the answer\'s head and first byte come at once, before anything happens', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const whole = await (await readEvents(service, id)).until(({ event }) => event === 'step/start')
  const reader = await readEvents(service, id, { after: whole.at(-1)?.id as string })
  expect(reader.status).toBe(200)
  expect(Object.fromEntries(reader.headers)).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
  expect(reader.headers.has('content-encoding')).toBe(false)
  expect((await reader.chunk())?.startsWith('retry: 1000\n\n')).toBe(true)
})

test('6.4 the stream is not compressed for who asks for it', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const { headers } = await service.call('GET', `/v1/runs/${id}/events`, undefined, { accept: 'text/event-stream', 'accept-encoding': 'gzip, br' })
  expect(headers.get('content-encoding')).toBeNull()
})

test('2.3 a streaming start sends the events of its run from publication to settlement', async () => {
  const service = await startService(onTestFinished)
  const body = { task: 'a', format: 'anthropic', toolCallId: 't1', agentOptions: { script: [{ say: 'hi' }] } }
  const reader = await readEvents(service, '/v1/runs', { method: 'POST', body })
  expect(reader.status).toBe(201)
  const events = withoutDeltas(await reader.all())
  const id = events[0]?.data.runId as string
  expect(reader.headers.get('location')).toBe(`/v1/runs/${id}`)
  expect(names(events)).toEqual([
    'run', 'turn/start', 'user/message', 'request/header', 'step/start', 'assistant/message', 'step/end', 'turn/end', 'run', 'settled'
  ])
  expect(events.at(-1)?.data.data.relayPart).toMatchObject({ type: 'tool_result', tool_use_id: 't1' })
  expect(logged(await (await readEvents(service, id)).all())).toEqual(logged(events))
})

test('6.1 events of a fork are its own only: its seed is not among them', async () => {
  const service = await startService(onTestFinished)
  const parent = await settledRun(service)
  const fork = await service.start({ provider: 'fork', parent: { runId: parent }, task: 'and now?' })
  const events = logged(await (await readEvents(service, fork.id)).all())
  expect(fork.seed.events).toBeGreaterThan(10)
  expect(events[0]).toMatchObject({ event: 'turn/start', data: { seq: fork.seed.events, data: { turn: 2 } } })
  expect(events.every(({ data }) => data.runId === fork.id)).toBe(true)
  const page = await service.call('GET', `/v1/runs/${fork.id}/events`)
  expect(page.body.events).toEqual(events.map(({ data }) => data))
})
