import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeFolder, startService, type Answer, type Service } from '../support/service.ts'
import { readEvents } from '../support/sse.ts'
import { createGate } from '../runs/busy-run.ts'

const DAY = 86_400_000
/** For runs that stay open while the clock is moved by days. */
const limits = { timeoutMs: 2_000_000_000, toolTimeoutMs: 2_000_000_000 }
const quick = { task: 'a', agentOptions: { script: [{ say: 'done' }] } }
const hang = { task: 'stay', limits, agentOptions: { script: [{ hang: true }] } }
const asks = { task: 'ask', limits, tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { id: 'c', name: 'ask' } }, { say: 'answered' }] } }

interface Aging { service: Service, pass: (ms: number) => void, sweep: () => Promise<number>, again: () => Promise<Service> }

/** A service on a file, whose clock a test moves; `again` stops it and starts the next one. */
async function aging (env: Record<string, string> = {}, tools: ReturnType<typeof createGate>['tool'][] = []): Promise<Aging> {
  const path = join(makeFolder(onTestFinished), 'runs.db')
  let offset = 0
  const now = (): number => Date.now() + offset
  const open = (): Promise<Service> => startService(onTestFinished, { now, tools, env: { DATABASE_URL: `sqlite:${path}`, ...env } })
  const aged: Aging = {
    service: await open(),
    pass: (ms) => { offset += ms },
    sweep: () => aged.service.app.store.sweep(now()),
    async again () {
      await aged.service.stop()
      aged.service = await open()
      return aged.service
    }
  }
  return aged
}

const completed = async (service: Service, body: object = quick, headers = {}): Promise<{ id: string, expiresAt: string, settledAt: string }> => {
  const { id } = await service.start(body, { prefer: 'wait=20', ...headers })
  const { body: run } = await service.call('GET', `/v1/runs/${id}`)
  expect(run.status).toBe('settled')
  return run
}
const codeOf = ({ status, body }: Answer): unknown => body?.code ?? status
const get = (service: Service, id: string, path = ''): Promise<Answer> => service.call('GET', `/v1/runs/${id}${path}`)

test('a settled run expires RETENTION_DAYS after it settled, as its expiresAt says; then each of its routes is 404', async () => {
  const { service, pass, sweep } = await aging({ RETENTION_DAYS: '3' })
  const { id, expiresAt, settledAt } = await completed(service)
  expect(Date.parse(expiresAt) - Date.parse(settledAt)).toBe(3 * DAY)
  pass(3 * DAY - 60_000)
  expect([await sweep(), codeOf(await get(service, id))]).toEqual([0, 200])
  pass(60_000)
  expect(await sweep()).toBe(1)
  for (const path of ['', '/result', '/result?wait=1', '/events', '/tree']) expect(codeOf(await get(service, id, path))).toBe('RUN_NOT_FOUND')
  for (const path of ['cancel', 'messages', 'tool-results']) {
    const body = { cancel: {}, messages: { content: 'x', mode: 'follow-up' }, 'tool-results': { results: [{ toolCallId: 'c', content: 'x' }] } }[path]
    expect(codeOf(await service.call('POST', `/v1/runs/${id}/${path}`, body))).toBe('RUN_NOT_FOUND')
  }
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
  expect(codeOf(await service.call('POST', '/v1/runs', { ...quick, provider: 'fork', parent: { runId: id } }))).toBe('RUN_NOT_FOUND')
})

test('6.5 a cursor of a run that expired is 410 on a page, and a gap on a stream that then is over: never silence', async () => {
  const { service, pass, sweep } = await aging()
  const { id } = await completed(service)
  const cursors = await Promise.all([false, true].map(async (tree) => {
    const events = await (await readEvents(service, id, { tree })).all()
    const [first, end] = [events.find((event) => event.id !== undefined)?.id, events.at(-1)?.id]
    return { tree, first: String(first), end: String(end) }
  }))
  pass(31 * DAY)
  await sweep()
  for (const { tree, first, end } of cursors) {
    const page = await get(service, id, `/events?tree=${tree}&after=${first}`)
    expect(page).toMatchObject({ status: 410, body: {
      code: 'CURSOR_EXPIRED', detail: 'events after this cursor are no longer kept', retryable: false,
      toolResult: { content: [{ text: 'Error: events after this cursor are no longer kept' }] }
    } })
    const stream = await readEvents(service, id, { tree, lastEventId: first })
    const events = await stream.all()
    expect(events).toMatchObject([{ event: 'gap', data: { runId: id, type: 'gap', data: { oldest: end.replace(/\.\w+\.$/, `${first.slice(9)}.`) } } }])
    // What a browser does then: it comes again with the last id, and is told that nothing follows.
    expect((await readEvents(service, id, { tree, lastEventId: events[0]?.lastEventId as string })).status).toBe(204)
    expect((await readEvents(service, id, { tree, lastEventId: end })).status).toBe(204)
    expect((await get(service, id, `/events?tree=${tree}&after=${end}`)).body).toEqual({ events: [], after: end, settled: true })
    expect(codeOf(await get(service, id, `/events?tree=${!tree}&after=${first}`))).toBe('RUN_NOT_FOUND')
    expect(codeOf(await get(service, randomUUID(), `/events?tree=${tree}&after=${first}`))).toBe('RUN_NOT_FOUND')
  }
})

test('6.5 a reader that was behind when its run expired ends, and learns of the gap when it comes again', async () => {
  const { service, pass, sweep } = await aging()
  const { id } = await completed(service, { task: 'a', agentOptions: { script: [...Array.from({ length: 150 }, () => ({ call: { name: 'none' } })), { say: 'end' }] }, limits: { steps: 200 } })
  const opened = await service.app.runs.stream({ tenant: 'default' }, id, { tree: false, signal: new AbortController().signal })
  if (opened.ended) throw new Error('the stream is over')
  const items = opened.items[Symbol.asyncIterator]()
  let cursor = ''
  for (let n = 0; n < 2; n++) for (const item of (await items.next()).value) if (item.type === 'event') cursor = item.cursor
  pass(31 * DAY)
  await sweep()
  const rest = []
  for (let next = await items.next(); !next.done; next = await items.next()) rest.push(...next.value)
  expect(rest.filter(({ type }) => type === 'event' || type === 'settled')).toEqual([])
  const again = await (await readEvents(service, id, { lastEventId: cursor })).all()
  expect(again.map(({ event }) => event)).toEqual(['gap'])
})

test('RETENTION_RUNS: of each tenant the newest are kept by when they settled, whenever they began', async () => {
  const gate = createGate()
  const aged = await aging({ RETENTION_RUNS: '2' }, [gate.tool])
  const { service, sweep } = aged
  const long = await service.start({ task: 'long', agentOptions: { script: [gate.step, { say: 'at last' }] } })
  const runs = []
  for (let n = 0; n < 3; n++) {
    runs.push((await completed(service)).id)
    aged.pass(1000)
  }
  gate.open()
  await service.result(long.id)
  expect(await sweep()).toBe(2)
  expect(await sweep()).toBe(0)
  const found = await Promise.all([...runs, long.id].map(async (id) => codeOf(await get(service, id))))
  expect(found).toEqual(['RUN_NOT_FOUND', 'RUN_NOT_FOUND', 200, 200])
})

test('2.4 the key of a run that went by count names it until the key is a day old: no second run is made', async () => {
  const { service, pass, sweep } = await aging({ RETENTION_RUNS: '1' })
  const { id } = await completed(service, quick, { 'idempotency-key': 'k' })
  pass(1000)
  await completed(service)
  expect(await sweep()).toBe(1)
  const again = (): Promise<Answer> => service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k', prefer: 'wait=20' })
  expect((await again()).body).toMatchObject({ code: 'RUN_NOT_FOUND', detail: `no run "${id}"` })
  pass(DAY)
  await sweep()
  expect(await again()).toMatchObject({ status: 201, body: { status: 'settled' } })
})

test('runs that run, wait for their host or are queued never expire, by age or by count', async () => {
  const { service, pass, sweep } = await aging({ RETENTION_RUNS: '1', MAX_RUNNING: '1' })
  const waiting = await service.start(asks, { prefer: 'wait=20' })
  const running = await service.start(hang)
  const queued = await service.start(hang)
  pass(1000 * DAY)
  await sweep()
  const statuses = await Promise.all([waiting, running, queued].map(async ({ id }) => (await get(service, id)).body.status))
  expect(statuses).toEqual(['waiting', 'running', 'queued'])
  expect((await get(service, waiting.id)).body.expiresAt).toBeNull()
})

test('3.7 a fork runs on across the expiry of its parent, is resumed after a restart, and can be forked itself', async () => {
  const aged = await aging({ RETENTION_DAYS: '1' })
  const parent = await completed(aged.service, { task: 'Remember: the word is heron.', agentOptions: { script: [{ say: 'I will.' }] } })
  const fork = (runId: string, script: object[], more: object = {}): object => ({ provider: 'fork', task: 'Say it.', parent: { runId }, agentOptions: { script }, ...more })
  const child = await aged.service.start(fork(parent.id, [{ call: { id: 'c', name: 'ask' } }, { say: 'heron' }], { tools: [{ name: 'ask' }], limits }), { prefer: 'wait=20' })
  const seed = (await aged.service.log(child.id)).slice(0, child.seed.events)
  expect(JSON.stringify(seed)).toContain('heron')
  aged.pass(2 * DAY)
  expect(await aged.sweep()).toBe(1)
  expect(codeOf(await get(aged.service, parent.id))).toBe('RUN_NOT_FOUND')
  const service = await aged.again()
  expect((await service.log(child.id)).slice(0, child.seed.events)).toEqual(seed)
  expect((await get(service, child.id, '/tree')).body).toMatchObject({ id: child.id, status: 'waiting', children: [], parent: { runId: parent.id } })
  const answer = { results: [{ toolCallId: (await get(service, child.id)).body.pendingToolCalls[0].toolCallId, content: 'go' }] }
  await service.call('POST', `/v1/runs/${child.id}/tool-results`, answer)
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'heron' }] })
  const grandchild = await completed(service, fork(child.id, [{ say: 'again' }]))
  const log = await service.log(grandchild.id)
  expect(log.slice(0, child.seed.events)).toEqual(seed)
  const { body: { events } } = await get(service, child.id, '/events?limit=1000')
  expect(events.at(-1)).toMatchObject({ type: 'settled' })
})

test('a child stays as long as the run that started it: the tree of an open run is whole, its events, its usage, its cancellation', async () => {
  const aged = await aging({ RETENTION_DAYS: '1' })
  const { service } = aged
  const root = await service.start(asks, { prefer: 'wait=20' })
  const under = (runId: string, body: object = quick): object => ({ ...body, parent: { runId } })
  const middle = await completed(service, under(root.id))
  const leaf = await service.start(under(middle.id, hang))
  const settled = await completed(service, under(middle.id))
  const before = (await get(service, root.id, '/events?tree=true&limit=1000')).body
  const { treeUsage } = (await get(service, root.id)).body
  aged.pass(9 * DAY)
  expect(await aged.sweep()).toBe(0)
  expect((await get(service, root.id, '/events?tree=true&limit=1000')).body).toEqual(before)
  expect((await get(service, root.id)).body.treeUsage).toEqual(treeUsage)
  for (const { id } of [middle, settled]) expect((await get(service, id)).body).toMatchObject({ status: 'settled', expiresAt: null })
  const next = await aged.again()
  await next.call('POST', `/v1/runs/${root.id}/cancel?wait=20`, {})
  expect((await get(next, leaf.id)).body).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { by: 'parent' } })
  aged.pass(2 * DAY)
  expect(await aged.sweep()).toBe(4)
  for (const { id } of [root, middle, leaf, settled]) expect(codeOf(await get(next, id))).toBe('RUN_NOT_FOUND')
})

test('a child that settled before its parent has its parent\'s time once its own has come', async () => {
  const aged = await aging()
  const { service } = aged
  const root = await service.start(asks, { prefer: 'wait=20' })
  const child = await completed(service, { ...quick, parent: { runId: root.id } })
  aged.pass(20 * DAY)
  await service.call('POST', `/v1/runs/${root.id}/cancel?wait=20`, {})
  const { expiresAt } = (await get(service, root.id)).body
  aged.pass(11 * DAY)
  expect(await aged.sweep()).toBe(0)
  expect((await get(service, child.id)).body.expiresAt).toBe(expiresAt)
  expect((await get(service, root.id, '/tree')).body.children).toMatchObject([{ id: child.id }])
  aged.pass(20 * DAY)
  expect(await aged.sweep()).toBe(2)
})

test('a session that nobody touches expires; one that a run stands on stays, and goes with the last of its runs', async () => {
  const { service, pass, sweep } = await aging({ RETENTION_DAYS: '2' })
  const transcript = { format: 'openai-chat', messages: [{ role: 'user', content: 'hi' }, { role: 'assistant', content: 'hello' }] }
  const session = async (): Promise<string> => (await service.call('POST', '/v1/sessions', { transcript })).body.id
  const [idle, grown, used] = [await session(), await session(), await session()]
  const run = await completed(service, { ...quick, provider: 'fork', parent: { sessionId: used } })
  pass(DAY)
  await service.call('POST', `/v1/sessions/${grown}/messages`, { after: 2, messages: [{ role: 'user', content: 'and?' }] })
  const waiting = await service.start({ ...asks, provider: 'fork', parent: { sessionId: used } }, { prefer: 'wait=20' })
  const found = async (): Promise<number[]> => Promise.all([idle, grown, used].map(async (id) => (await service.call('GET', `/v1/sessions/${id}`)).status))
  pass(DAY)
  await sweep()
  expect(await found()).toEqual([404, 200, 200])
  expect(codeOf(await get(service, run.id))).toBe('RUN_NOT_FOUND')
  pass(5 * DAY)
  await sweep()
  expect(await found()).toEqual([404, 404, 200])
  expect((await get(service, waiting.id)).body.status).toBe('waiting')
  await service.call('POST', `/v1/runs/${waiting.id}/cancel?wait=20`, {})
  pass(2 * DAY)
  await sweep()
  expect(await found()).toEqual([404, 404, 404])
})

test('7.3 a child whose parent has expired is followed up: the same parent and depth, a tree of its own, through a restart, and no longer than others', async () => {
  const { service, pass, sweep, again } = await aging({ RETENTION_DAYS: '3' })
  const root = await completed(service)
  const waiting = await service.start({ ...asks, provider: 'fork', parent: { runId: root.id } }, { prefer: 'wait=20' })
  pass(4 * DAY)
  expect(await sweep()).toBe(1)
  await service.call('POST', `/v1/runs/${waiting.id}/tool-results`, { results: [{ toolCallId: 'c', content: 'x' }] }, { prefer: 'wait=20' })
  const follow = await service.call('POST', `/v1/runs/${waiting.id}/messages`, { content: 'more', mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(follow).toMatchObject({ status: 201, body: { continues: waiting.id, sessionId: waiting.sessionId, depth: waiting.depth, parent: { runId: root.id } } })
  const { id } = follow.body
  expect((await get(service, id, '/tree')).body).toMatchObject({ id, children: [] })
  expect((await service.call('GET', `/v1/runs?root=${root.id}`)).body.runs).toMatchObject([{ id }, { id: waiting.id }])
  const stream = await readEvents(service, id, { tree: true })
  const next = await again()
  expect((await get(next, id)).body.status).toBe('waiting')
  const cursor = (await stream.all()).findLast((event) => event.id !== undefined)?.id
  await next.call('POST', `/v1/runs/${id}/tool-results`, { results: [{ toolCallId: (await get(next, id)).body.pendingToolCalls[0].toolCallId, content: 'x' }] }, { prefer: 'wait=20' })
  expect((await get(next, id)).body).toMatchObject({ status: 'settled', stopReason: 'completed' })
  const rest = await (await readEvents(next, id, { tree: true, ...cursor === undefined ? {} : { lastEventId: cursor } })).all()
  expect(rest.map(({ event }) => event)).toContain('settled')
  expect((await next.call('POST', `/v1/runs/${id}/messages`, { content: 'and', mode: 'follow-up' })).status).toBe(201)
  await next.call('POST', '/v1/runs/cancel', { root: root.id })
  pass(4 * DAY)
  await vi.waitFor(async () => {
    await next.app.store.sweep(Date.now() + 8 * DAY)
    expect((await next.call('GET', '/v1/runs')).body.runs).toEqual([])
  })
})

test('a follow-up keeps the session that its first run made, when that has expired', async () => {
  const { service, pass, sweep } = await aging()
  const first = await completed(service, { task: 'The word is heron.', agentOptions: { script: [{ say: 'noted' }] } })
  pass(29 * DAY)
  const { body: later } = await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'Which?', mode: 'follow-up' }, { prefer: 'wait=20' })
  pass(2 * DAY)
  expect(await sweep()).toBe(1)
  expect(JSON.stringify(await service.log(later.id))).toContain('heron')
  expect((await get(service, later.id, '/events')).body.events.at(-1)).toMatchObject({ type: 'settled' })
  expect(codeOf(await service.call('POST', '/v1/runs', { ...quick, provider: 'fork', parent: { runId: later.id } }))).toBe(201)
})
