import { expect, onTestFinished, test } from 'vitest'
import { hang, quick, startTenants, tally } from './tenants.ts'

const wait = { prefer: 'wait=20' }
const many = <T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, n) => work(n)))

test('8.3 a tenant that floods has half of the places and half of the queue; another starts and has its results at once', async () => {
  const { service, call, start } = await startTenants(onTestFinished, { a: {}, b: {} }, { env: { MAX_RUNNING: '10', MAX_QUEUED: '20' } })
  const flood = await many(150, () => start('a', hang))
  expect(tally(flood)).toEqual({ 201: 15, '429 QUOTA_EXCEEDED': 135 })
  const refused = flood.find(({ status }) => status === 429)
  expect(refused?.body).toMatchObject({ detail: '10 runs of this tenant are queued, its share of the queue', retryable: true })
  expect(refused?.headers.get('retry-after')).toBe('1')
  const done = await many(5, () => start('b', quick, wait))
  expect(done.map(({ status, body }) => [status, body.status, body.stopReason])).toEqual(Array(5).fill([201, 'settled', 'completed']))
  const { body: { runs } } = await call('a', 'GET', '/v1/runs?limit=200')
  expect(runs.map((run: { status: string }) => run.status).sort()).toEqual([...Array(10).fill('queued'), ...Array(5).fill('running')])
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  const cancelled = await many(15, (n) => call('a', 'POST', `/v1/runs/${runs[n].id}/cancel?wait=20`, {}))
  expect(tally(cancelled)).toEqual({ 200: 15 })
  expect((await start('a', quick, wait)).body.status).toBe('settled')
})

test('8.3 while one tenant goes on flooding, another\'s runs all complete, and status, list, health and cancel answer each time', async () => {
  const { service, call, start } = await startTenants(onTestFinished, { a: {}, b: {} }, { env: { MAX_RUNNING: '10', MAX_QUEUED: '20' } })
  let going = true
  let floods = 0
  const flooding = many(16, async () => { while (going) { await start('a', hang); floods++ } })
  for (let n = 0; n < 5; n++) {
    const run = await start('b', quick, wait)
    expect(run).toMatchObject({ status: 201, body: { stopReason: 'completed' } })
    const hanging = (await start('b', hang)).body
    const answers = [
      await service.call('GET', '/healthz'), await call('b', 'GET', `/v1/runs/${run.body.id}`), await call('b', 'GET', '/v1/runs'),
      await call('b', 'POST', `/v1/runs/${hanging.id}/cancel?wait=20`, {})
    ]
    expect(tally(answers)).toEqual({ 200: 4 })
    expect(answers[3]?.body.stopReason).toBe('aborted')
  }
  going = false
  await flooding
  expect(floods).toBeGreaterThan(16)
})

test('8.3 places that come free go tenant by tenant: who came last with one run does not wait for all of another\'s', async () => {
  const { call, start } = await startTenants(onTestFinished, { a: {}, b: {}, c: {} }, { env: { MAX_RUNNING: '2', MAX_QUEUED: '20' } })
  const [first, other] = [(await start('a', hang)).body, (await start('b', hang)).body]
  const queued: { id: string, tenant: string }[] = []
  for (const tenant of ['a', 'a', 'a', 'b', 'c']) queued.push({ id: (await start(tenant, quick)).body.id, tenant })
  await call('a', 'POST', `/v1/runs/${first.id}/cancel?wait=20`, {})
  const settled = await Promise.all(queued.slice(0, 3).concat(queued.slice(4)).map(async ({ id, tenant }) => {
    await call(tenant, 'GET', `/v1/runs/${id}/result?wait=20`)
    const { body: { events } } = await call(tenant, 'GET', `/v1/runs/${id}/events`)
    return { tenant, startedAt: events[0].time as string, id }
  }))
  const order = settled.toSorted((x, y) => x.startedAt < y.startedAt ? -1 : x.startedAt > y.startedAt ? 1 : 0)
  expect(order.findIndex(({ tenant }) => tenant === 'c')).toBeLessThanOrEqual(1)
  // b holds its one place: its own run waits for that, and for nobody else's.
  expect((await call('b', 'GET', `/v1/runs/${queued[3]?.id}`)).body.status).toBe('queued')
  await call('b', 'POST', `/v1/runs/${other.id}/cancel?wait=20`, {})
  expect((await call('b', 'GET', `/v1/runs/${queued[3]?.id}/result?wait=20`)).body.stopReason).toBe('completed')
})

test('8.1 a tenant at its limit of open runs, of starts a minute and of bytes is refused by each; another is not', async () => {
  const limits = { running: { running: 2 }, rate: { startsPerMinute: 3 }, bytes: { bodyBytes: 500 } }
  const { start } = await startTenants(onTestFinished, { ...limits, free: {} })
  expect(tally(await many(20, () => start('running', hang)))).toEqual({ 201: 2, '429 QUOTA_EXCEEDED': 18 })
  expect(tally(await many(20, () => start('rate', hang)))).toEqual({ 201: 3, '429 RATE_LIMITED': 17 })
  expect(tally(await many(5, () => start('bytes', { ...quick, task: 'x'.repeat(600) })))).toEqual({ '413 PAYLOAD_TOO_LARGE': 5 })
  const free = await many(20, () => start('free', { ...quick, task: 'x'.repeat(600) }, wait))
  expect(free.map(({ body }) => body.stopReason)).toEqual(Array(20).fill('completed'))
})

test('8.1 RATE_LIMITED tells when to come again: then a start is taken, a second earlier it is not', async () => {
  let time = Date.now()
  const { start } = await startTenants(onTestFinished, { a: { startsPerMinute: 4 } }, { now: () => time })
  for (let n = 0; n < 4; n++) expect((await start('a')).status).toBe(201)
  time += 5000
  const refused = await start('a')
  expect(refused.body).toMatchObject({ code: 'RATE_LIMITED', retryable: true })
  const seconds = Number(refused.headers.get('retry-after'))
  expect(seconds).toBe(10)
  time += (seconds - 1) * 1000
  expect((await start('a')).headers.get('retry-after')).toBe('1')
  time += 1000
  expect([(await start('a')).status, (await start('a')).status]).toEqual([201, 429])
  time -= 3_600_000
  await start('a')
  time += 15_000
  expect((await start('a')).status).toBe(201)
})

test('8.3 with one tenant alone every place and the whole queue are its own, with a key as without', async () => {
  const { start } = await startTenants(onTestFinished, { a: {} }, { env: { MAX_RUNNING: '2', MAX_QUEUED: '3' } })
  const statuses = []
  for (let n = 0; n < 6; n++) statuses.push(await start('a', hang))
  expect(tally(statuses)).toEqual({ 201: 5, '503 OVERLOADED': 1 })
  expect(statuses.map(({ body }) => body.status)).toEqual(['running', 'running', 'queued', 'queued', 'queued', 503])
})
