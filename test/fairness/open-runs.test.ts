import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'
import { startTokenIssuer, tokenEnv } from '../support/token-issuer.ts'
import { hang, quick, startTenants, tally } from './tenants.ts'

const waits = { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'done' }] } }
const ingest = { provider: 'claude-code', ingest: true }
const inTurn = async <T>(count: number, start: () => Promise<T>): Promise<T[]> => {
  const all: T[] = []
  for (let n = 0; n < count; n++) all.push(await start())
  return all
}

test.for([['that wait for their host', waits], ['that are ingested', ingest]] as const)(
  '8.3 runs %s hold no place, but count against MAX_OPEN: past it 503 with Retry-After, and one that ends makes room', async ([, body]) => {
    const service = await startService(onTestFinished, { env: { MAX_OPEN: '3' }, alone: true })
    const start = () => service.call('POST', '/v1/runs', body, { prefer: 'wait=10' })
    const taken = await inTurn(3, start)
    expect(tally(taken)).toEqual({ 201: 3 })
    const refused = await service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k' })
    expect(refused).toMatchObject({ status: 503, body: { code: 'OVERLOADED', detail: '3 runs are open, and no more may be', retryable: true } })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await service.call('GET', '/v1/runs')).body.runs).toHaveLength(3)
    await service.call('POST', `/v1/runs/${taken[0]?.body.id}/cancel?wait=10`)
    expect(await service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k', prefer: 'wait=10' })).toMatchObject({ status: 201, body: { status: 'settled' } })
    expect(await service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k' })).toMatchObject({ status: 200 })
  }
)

test('8.3 a follow-up is a start from outside, too', async () => {
  const service = await startService(onTestFinished, { env: { MAX_OPEN: '1' }, alone: true })
  const { id } = await service.start(quick, { prefer: 'wait=10' })
  const waiting = await service.start(waits, { prefer: 'wait=10' })
  const follow = () => service.call('POST', `/v1/runs/${id}/messages`, { content: 'more', mode: 'follow-up' }, { prefer: 'wait=10' })
  expect(await follow()).toMatchObject({ status: 503, body: { code: 'OVERLOADED' } })
  await service.call('POST', `/v1/runs/${waiting.id}/cancel?wait=10`)
  expect((await follow()).status).toBe(201)
})

test('8.3 a run\'s own children are not refused for being open: they end before it does', async () => {
  const service = await startService(onTestFinished, { env: { MAX_OPEN: '1' }, yaml: 'delegation: true', alone: true })
  const run = await service.start({ task: 'a', agentOptions: { script: [{ call: { name: 'subagent', input: { description: 'b', prompt: 'b' } } }, { say: 'done' }] } })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed' })
  expect((await service.call('GET', `/v1/runs?root=${run.id}`)).body.runs).toMatchObject([{ stopReason: 'completed' }, { stopReason: 'completed' }])
})

test('8.3 one of several tenants may have half of the open runs: past it 429, while the other still gets its half', async () => {
  const { start } = await startTenants(onTestFinished, { a: {}, b: {}, c: {} }, { env: { MAX_OPEN: '5' } })
  const three = await inTurn(4, () => start('a', ingest))
  expect(tally(three)).toEqual({ 201: 3, '429 QUOTA_EXCEEDED': 1 })
  expect(three[3]?.body.detail).toBe('3 runs of this tenant are open, its share of the service')
  expect(three[3]?.headers.get('retry-after')).toBe('1')
  expect(tally(await inTurn(3, () => start('b', waits)))).toEqual({ 201: 2, '503 OVERLOADED': 1 })
  expect(tally([await start('c')])).toEqual({ '503 OVERLOADED': 1 })
})

test('8.3 children that were seen in a chat do not count', async () => {
  const { service, start, call } = await startTenants(onTestFinished, { a: {}, b: {} }, { env: { MAX_OPEN: '4' } })
  const { body: chat } = await start('a', ingest)
  const calls = [1, 2, 3, 4].map((n) => ({ type: 'tool_use', id: `toolu_${n}`, name: 'Agent', input: { description: `${n}`, prompt: 'p', subagent_type: 'x' } }))
  const lines = [
    { type: 'system', subtype: 'init', session_id: 's', model: 'm', tools: [], cwd: '/' },
    { type: 'assistant', session_id: 's', parent_tool_use_id: null, message: { id: 'm1', role: 'assistant', content: calls } }
  ]
  const posted = await fetch(`${service.url}/v1/runs/${chat.id}/frames`, {
    method: 'POST', headers: { authorization: 'Bearer key-of-a', 'content-type': 'application/x-ndjson' }, body: lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  })
  expect(posted.status).toBe(200)
  expect((await call('a', 'GET', `/v1/runs/${chat.id}`)).body.runningChildren).toBe(4)
  expect(tally(await inTurn(2, () => start('a', waits)))).toEqual({ 201: 1, '429 QUOTA_EXCEEDED': 1 })
})

test('8.3 where tokens let tenants in there may be several: one has half of the places, of the queue and of what is open', async () => {
  const issuer = await startTokenIssuer(onTestFinished)
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '2', MAX_QUEUED: '4', MAX_OPEN: '10', ...tokenEnv(issuer) } })
  const headers = { authorization: `Bearer ${await issuer.token({ tenant: 'a' })}` }
  const start = (body: object) => service.call('POST', '/v1/runs', body, headers)
  const runs = await inTurn(4, () => start(hang))
  expect(runs.map(({ status, body }) => [status, body.code ?? body.status])).toEqual(
    [[201, 'running'], [201, 'queued'], [201, 'queued'], [429, 'QUOTA_EXCEEDED']]
  )
  expect(tally(await inTurn(3, () => start(ingest)))).toEqual({ 201: 2, '429 QUOTA_EXCEEDED': 1 })
})
