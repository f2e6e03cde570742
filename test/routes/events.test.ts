import { expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import { eventText, frame } from '../../routes/sse.ts'
import type { StreamItem } from '../../src/runs/api.ts'
import { createItemText } from '../../routes/views.ts'
import { createApp, problem } from './app.ts'
import { RUN_ID, result, runView } from './fake-runs.ts'

const events = { accept: 'text/event-stream' }
const streaming = (...batches: StreamItem[][]) => async () =>
  ({ ended: false as const, items: (async function * (): AsyncGenerator<StreamItem[]> { yield * batches })() })

/** The events of an SSE text. */
const parse = (body: string) => body.split('\n\n').filter((block) => block.includes('data: ')).map((block) => {
  const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2))) as Record<string, string>
  return { id: fields['id'], event: fields['event'], data: JSON.parse(fields['data'] as string) as Record<string, unknown> }
})

test('6.1, 6.2 the stream carries each kind of item as its event', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.relay = { format: 'openai-chat', toolCallId: 'c' }
  const at = { seq: 3, time: 1_700_000_000_000 }
  runs.override.stream = streaming([
    { type: 'run', run: runView() },
    {
      type: 'event', runId: RUN_ID, cursor: 'c3',
      event: { ...at, type: 'tool/call', data: { toolCallId: 't', deadline: 1_700_000_000_000 } }
    }
  ], [
    { type: 'snapshot', runId: RUN_ID, snapshot: { step: 1, attempt: 1, index: 0, parts: [{ kind: 'text', text: 'a\nb' }] } },
    { type: 'delta', runId: RUN_ID, delta: { step: 1, attempt: 1, index: 1, kind: 'text', text: 'c' } },
    { type: 'gap', oldest: 'c9' },
    {
      type: 'event', runId: 'child', cursor: 'c4',
      event: { ...at, type: 'run/settled', data: { runId: 'child', result: result() } }
    },
    { type: 'settled', runId: RUN_ID, cursor: 'c5', seq: 4, time: at.time, result: result() }
  ])
  const answer = await send('GET', `/v1/runs/${RUN_ID}/events?tree=true`, undefined, events)
  expect(answer.statusCode).toBe(200)
  expect(answer.headers).toMatchObject(
    { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
  )
  expect(answer.body.startsWith('retry: 1000\n\n')).toBe(true)
  const time = '2023-11-14T22:13:20.000Z'
  const list = parse(answer.body)
  expect(list.map(({ id, event }) => [id, event])).toEqual([
    [undefined, 'run'], ['c3', 'tool/call'], [
      undefined, 'snapshot'
    ], [undefined, 'delta'], ['c9', 'gap'], ['c4', 'run/settled'], ['c5', 'settled']
  ])
  expect(list[0]?.data).toMatchObject({ runId: RUN_ID, type: 'run', data: { id: RUN_ID, createdAt: time } })
  expect(list[1]?.data).toEqual({ runId: RUN_ID, seq: 3, time, type: 'tool/call', data: { toolCallId: 't', deadline: time } })
  expect(list[3]?.data).toEqual(
    { runId: RUN_ID, type: 'delta', data: { step: 1, attempt: 1, index: 1, kind: 'text', text: 'c' } }
  )
  expect(list[5]?.data['data']).not.toHaveProperty('relay')
  expect(list[6]?.data).toMatchObject(
    {
      runId: RUN_ID, seq: 4, time, type: 'settled',
      data: { stopReason: 'completed', toolResult: { isError: false }, relay: { role: 'tool', tool_call_id: 'c' } }
    }
  )
})

test('6.1 Last-Event-ID beats ?after=', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  await send('GET', '/v1/runs/x/events?after=a', undefined, { ...events, 'last-event-id': 'b' })
  await send('GET', '/v1/runs/x/events?after=a&tree=true', undefined, events)
  await send('GET', '/v1/runs/x/events?after=a', undefined, { 'last-event-id': 'b' })
  expect(runs.asked.filter(({ call }) => call === 'stream' || call === 'eventPage').map(({ args }) => args[1])).toMatchObject([
    { after: 'b', tree: false }, { after: 'a', tree: true }, { after: 'b', limit: 200, waitMs: 0 }
  ])
})

test('6.3 reconnecting after the end is 204', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.override.stream = async () => ({ ended: true })
  const answer = await send('GET', '/v1/runs/x/events', undefined, { ...events, 'last-event-id': 'z' })
  expect([answer.statusCode, answer.body]).toEqual([204, ''])
})

test('6.6 everything else gets a JSON page', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished, { maxWaitSeconds: 4 })
  const time = 1_700_000_000_000
  runs.override.eventPage = async () => ({
    events: [
      { runId: RUN_ID, seq: 0, time, type: 'run/cancel', data: { at: time, reason: null, by: 'request' } },
      { runId: RUN_ID, seq: 1, time, type: 'run/settled', data: { runId: RUN_ID, result: result() } }
    ],
    after: 'c1', settled: true
  })
  const answer = await send('GET', `/v1/runs/${RUN_ID}/events?limit=5&wait=60`)
  expect(answer.json()).toMatchObject({
    events: [
      { type: 'run/cancel', time: '2023-11-14T22:13:20.000Z', data: { at: '2023-11-14T22:13:20.000Z' } },
      { type: 'settled', data: { toolResult: { isError: false } } }
    ],
    after: 'c1', settled: true
  })
  expect(runs.asked.at(-1)?.args[1]).toMatchObject({ limit: 5, waitMs: 4000 })
})

test('2.3 a refused streaming start is problem JSON', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.override.start = async () => { throw refuse('DEPTH_EXCEEDED', { depth: 4, maxDepth: 3 }) }
  problem(await start({ task: 'a' }, events), 422, 'DEPTH_EXCEEDED')
})

test('2.3 a streaming start answers 201 with the run\'s own events', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.override.stream = streaming([{ type: 'settled', runId: RUN_ID, cursor: 'c', seq: 1, time: 0, result: result() }])
  const answer = await start({ task: 'a', format: 'anthropic', toolCallId: 't' }, events)
  expect([answer.statusCode, answer.headers['location']]).toEqual([201, `/v1/runs/${RUN_ID}`])
  expect(parse(answer.body)[0]?.data['data']).toMatchObject({ relayPart: { tool_use_id: 't' } })
})

test('6.1 a cursor of another stream is 400, a passed one 410', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.override.stream = async () => { throw refuse('INVALID_REQUEST', { detail: 'the cursor is of another stream' }) }
  expect(problem(await send('GET', '/v1/runs/x/events?after=z', undefined, events), 400, 'INVALID_REQUEST').errors).toEqual([])
  runs.override.eventPage = async () => { throw refuse('CURSOR_EXPIRED') }
  problem(await send('GET', '/v1/runs/x/events?after=z'), 410, 'CURSOR_EXPIRED')
})

test('6.4 the first byte comes at once, a comment while nothing happens', async () => {
  const hold = Promise.withResolvers<void>()
  async function * items (): AsyncGenerator<string[]> { yield ['a', 'b']; await hold.promise; yield ['c'] }
  const text = eventText(items(), (item) => frame({ event: 'x', data: item }), 5)
  expect((await text.next()).value).toBe('retry: 1000\n\n')
  expect((await text.next()).value).toBe('event: x\ndata: a\n\nevent: x\ndata: b\n\n')
  expect((await text.next()).value).toMatch(/^: .*\n\n$/)
  hold.resolve()
  let last = await text.next()
  while (String(last.value).startsWith(':')) last = await text.next()
  expect(last.value).toBe('event: x\ndata: c\n\n')
  expect((await text.next()).done).toBe(true)
})

test('6.4 the next batch is asked for when the reader took the last: no backlog', async () => {
  let given = 0
  async function * items (): AsyncGenerator<number[]> { for (;;) yield [given++] }
  const text = eventText(items(), String)
  for (let i = 0; i < 4; i++) await text.next()
  expect(given).toBeLessThanOrEqual(5)
  await text.return(undefined)
})

test('a fault on the way ends the stream and is logged', async ({ onTestFinished }) => {
  const { app, runs, errors } = createApp(onTestFinished)
  runs.override.stream = async () => (
    {
      ended: false,
      items: (
        async function * (): AsyncGenerator<StreamItem[]> {
          yield [{ type: 'gap', oldest: 'a' }]; throw new Error('the store is lost')
        }
      )()
    }
  )
  await expect(app.inject({ url: '/v1/runs/x/events', headers: events }).then((answer) => answer.body)).rejects.toThrow()
  expect(errors).toContainEqual(expect.objectContaining({ msg: 'an event stream failed' }))
})

test('6.1, 6.2 what readers share reads as what each has alone, and is written out once', () => {
  let reads = 0
  const data = { get turn () { reads++; return 1 } }
  const delta = { step: 1, attempt: 1, index: 1, kind: 'text', text: 'c' } as const
  const event = { seq: 3, time: 0, type: 'turn/start', data }
  const alone: StreamItem[] = [{ type: 'event', runId: RUN_ID, cursor: 'c3', event }, { type: 'delta', runId: RUN_ID, delta }]
  const shared = alone.map((item) => ({ ...item, shared: true }) as StreamItem)
  const itemText = createItemText()
  const expected = alone.map((item) => itemText(RUN_ID, item, {}))
  expect(reads).toBe(1)
  for (let reader = 0; reader < 3; reader++) expect(shared.map((item) => itemText(RUN_ID, item, {}))).toEqual(expected)
  expect(reads).toBe(2)
})
