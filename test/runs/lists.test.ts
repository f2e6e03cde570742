import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'
import { busy } from './busy-run.ts'

interface Row { id: string, createdAt: string, settledAt: string | null, [key: string]: unknown }
interface List { runs: Row[], nextCursor: string | null }
const list = async (service: Service, query = ''): Promise<List> => {
  const { status, body, text } = await service.call<List>('GET', `/v1/runs?${query}`)
  if (status !== 200) throw new Error(`the list was answered ${status}: ${text}`)
  return body
}
const ids = async (service: Service, query = ''): Promise<string[]> => (await list(service, query)).runs.map(({ id }) => id)
const run = (...script: object[]): object => ({ task: 'a', agentOptions: { script } })
const settle = async (service: Service, body: object): Promise<string> => {
  const { id } = await service.start(body)
  await service.result(id)
  return id
}
/** A service whose clock moves a second with each look: no two runs are of one instant. */
function tickingService (): Promise<Service> {
  let now = Date.UTC(2026, 0, 1)
  return startService(onTestFinished, { now: () => now += 1000 })
}

test('runs are listed newest first, as their status has them', async () => {
  const service = await startService(onTestFinished)
  const made: string[] = []
  for (let n = 0; n < 4; n++) made.push(await settle(service, { task: String(n) }))
  const { runs, nextCursor } = await list(service)
  expect(runs.map(({ id }) => id)).toEqual(made.toReversed())
  expect(nextCursor).toBeNull()
  for (const row of runs) expect(row).toEqual((await service.call('GET', `/v1/runs/${row.id}`)).body)
})

test('each filter finds its runs and no others', async () => {
  const service = await startService(onTestFinished)
  const done = await settle(service, { ...run({ say: 'x' }), label: 'a "quoted" label', metadata: { team: 'blue', 'a.b': 'c' } })
  const refused = await settle(service, { ...run({ refuse: 'no' }), metadata: { team: 'red' } })
  const failed = await settle(service, { ...run({ fail: { code: 'MODEL_AUTH' } }), metadata: { team: 'blue' } })
  const fork = await settle(service, { provider: 'fork', parent: { runId: done }, task: 'b' })
  const leaf = await settle(service, { parent: { runId: fork }, task: 'c' })
  const { id: waiting } = await service.start(busy())
  await service.call('GET', `/v1/runs/${waiting}/result?wait=10`)
  const { id: running } = await service.start(run({ hang: true }))
  const found: [query: string, expected: string[]][] = [
    ['status=waiting', [waiting]], ['status=running', [running]], ['status=running&status=waiting', [running, waiting]], ['status=queued', []],
    ['status=settled', [leaf, fork, failed, refused, done]], ['stopReason=refusal', [refused]], ['stopReason=error&stopReason=refusal', [failed, refused]],
    ['stopReason=aborted', []], ['provider=fork', [fork]], ['provider=nobody', []], [`parent=${done}`, [fork]], [`parent=${fork.toUpperCase()}`, [leaf]],
    [`root=${done}`, [leaf, fork, done]], [`root=${leaf}`, []], ['label=a%20%22quoted%22%20label', [done]], ['label=a', []],
    ['metadata.team=blue', [failed, done]], ['metadata.team=blue&metadata.a.b=c', [done]], ['metadata.team=b', []], ['metadata.tea=blue', []],
    [`root=${done}&provider=spawn&status=settled`, [leaf, done]], ['metadata.team=blue&stopReason=error', [failed]]
  ]
  for (const [query, expected] of found) expect([query, await ids(service, query)]).toEqual([query, expected])
})

test('createdAfter and settledAfter take what came later, zones included', async () => {
  const service = await tickingService()
  const made: string[] = []
  for (let n = 0; n < 3; n++) made.push(await settle(service, { task: 'a' }))
  const { runs } = await list(service)
  const [newest, middle] = runs as [Row, Row, Row]
  expect(await ids(service, `createdAfter=${middle.createdAt}`)).toEqual([newest.id])
  expect(await ids(service, `settledAfter=${middle.settledAt}`)).toEqual([newest.id])
  const before = new Date(Date.parse(middle.createdAt) - 1).toISOString().replace('Z', '%2B00:00')
  expect(await ids(service, `createdAfter=${before}`)).toEqual([newest.id, middle.id])
  expect(await ids(service, 'createdAfter=2027-01-01T00:00:00Z')).toEqual([])
  await service.start(run({ hang: true }))
  expect(await ids(service, 'settledAfter=2020-01-01T00:00:00Z')).toEqual(made.toReversed())
})

test('pages of any size make the whole, and what comes or goes in between moves nothing', async () => {
  const service = await startService(onTestFinished)
  const made: string[] = []
  for (let n = 0; n < 9; n++) made.push(await settle(service, { task: 'a', metadata: { odd: String(n % 2) } }))
  await fc.assert(fc.asyncProperty(fc.integer({ min: 2, max: 13 }), fc.constantFrom('', '&metadata.odd=1', '&status=settled'), async (limit, filter) => {
    const whole = await ids(service, `limit=200${filter}`)
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const page = await list(service, `limit=${limit}${filter}${cursor}`)
      expect(page.runs.length).toBeLessThanOrEqual(limit)
      seen.push(...page.runs.map(({ id }) => id))
      await settle(service, { task: 'later', metadata: { odd: '1' } })
      if (page.nextCursor === null) break
      cursor = `&cursor=${page.nextCursor}`
    }
    expect(seen).toEqual(whole)
  }), { numRuns: 8 })
  const first = await list(service, 'limit=3&createdAfter=2020-01-01T00:00:00Z')
  await service.call('DELETE', `/v1/runs/${first.runs[2]?.id}`)
  const rest = await ids(service, `limit=200&cursor=${first.nextCursor}`)
  expect([...first.runs.slice(0, 2).map(({ id }) => id), ...rest]).toEqual(await ids(service, 'limit=200'))
})

test('a last page that is full says that it is the last', async () => {
  const service = await startService(onTestFinished)
  for (let n = 0; n < 4; n++) await settle(service, { task: 'a' })
  const first = await list(service, 'limit=2')
  const second = await list(service, `limit=2&cursor=${first.nextCursor}`)
  expect([second.runs.length, second.nextCursor]).toEqual([2, null])
})

test('limits, cursors, times and unknown parameters are refused by name', async () => {
  const service = await startService(onTestFinished)
  for (const [query, pointer] of [
    ['limit=0', '/limit'], ['limit=201', '/limit'], ['limit=-1', '/limit'], ['limit=1e1', '/limit'], ['limit=', '/limit'], ['cursor=rubbish', '/cursor'],
    ['cursor=%F0%9F%92%A5', '/cursor'], ['cursor=', '/cursor'], ['status=done', '/status'], ['stopReason=x', '/stopReason'], ['include=all', '/include'],
    ['createdAfter=yesterday', '/createdAfter'], ['createdAfter=2026-01-01T00:00:00', '/createdAfter'], ['settledAfter=1700000000', '/settledAfter'],
    ['model=x', '/model'], ['label=a&label=b', '/label'], ['metadata.=x', '/metadata.']
  ]) {
    const { status, body } = await service.call('GET', `/v1/runs?${query}`)
    expect([query, status, body.errors?.[0]?.pointer.split('/').slice(0, 2).join('/')]).toEqual([query, 400, pointer])
  }
  expect((await service.call('GET', '/v1/runs?limit=200')).status).toBe(200)
})

test('include=result adds the results of settled runs, open ones have none', async () => {
  const service = await startService(onTestFinished)
  const done = await settle(service, run({ say: 'x' }))
  const { id: open } = await service.start(run({ hang: true }))
  const { runs } = await list(service, 'include=result')
  expect(runs.map(({ id }) => id)).toEqual([open, done])
  expect(runs[0]?.result ?? null).toBeNull()
  expect(runs[1]?.result).toEqual(await service.result(done))
  expect((await list(service)).runs[1]).not.toHaveProperty('result')
})
