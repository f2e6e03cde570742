import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const quick = { task: 'a', agentOptions: { script: [{ say: 'done' }] } }

test('8.3 runs past MAX_RUNNING are queued, unsent, and run in the order of their starts', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1' } })
  const first = await service.start(hang)
  const queued = await Promise.all([1, 2, 3].map(() => service.start(quick)))
  for (const run of queued) {
    expect(run).toMatchObject({ status: 'queued', startedAt: null })
    expect(await service.log(run.id)).toEqual([])
  }
  expect((await service.call('GET', '/v1/runs?status=queued')).body.runs).toHaveLength(3)
  await service.call('POST', `/v1/runs/${first.id}/cancel`)
  for (const run of queued) expect(await service.result(run.id)).toMatchObject(
    { stopReason: 'completed', output: [{ text: 'done' }] }
  )
  const runs = await Promise.all(queued.map(async ({ id }) => (await service.call('GET', `/v1/runs/${id}`)).body))
  for (const run of runs) expect(Date.parse(run.startedAt)).toBeGreaterThanOrEqual(Date.parse(run.createdAt))
  const settled = await Promise.all(queued.map(async ({ id }) => (await service.log(id)).at(-1)?.time ?? 0))
  expect(settled).toEqual([...settled].sort((a, b) => a - b))
})

test('8.3 past MAX_QUEUED a start is 503 OVERLOADED with Retry-After, leaves nothing, and is taken later', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1', MAX_QUEUED: '1' } })
  const first = await service.start(hang)
  const second = await service.start(quick)
  const refused = await service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k' })
  expect(refused).toMatchObject({
    status: 503,
    body: {
      code: 'OVERLOADED', retryable: true, detail: 'the queue of runs is full',
      toolResult: { content: [{ text: 'Error: subagent service unavailable' }] }
    }
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await service.call('GET', '/v1/runs')).body.runs).toHaveLength(2)
  await service.call('POST', `/v1/runs/${first.id}/cancel?wait=10`)
  await service.result(second.id)
  expect(
    await service.call('POST', '/v1/runs', quick, { 'idempotency-key': 'k', prefer: 'wait=10' })
  ).toMatchObject({ status: 201, body: { status: 'settled' } })
})

test('2.1 a run cancelled while it is queued is aborted with output [], its task unsent, its place free', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1', MAX_QUEUED: '1' } })
  await service.start(hang)
  const queued = await service.start(quick)
  await service.call('POST', `/v1/runs/${queued.id}/cancel?wait=10`)
  expect(await service.result(queued.id)).toMatchObject({ stopReason: 'aborted', output: [] })
  expect((await service.log(queued.id)).map((event) => event.type)).toEqual(['run/cancel', 'run/settled'])
  expect((await service.call('GET', `/v1/runs/${queued.id}`)).body.startedAt).toBeNull()
  expect((await service.start(quick)).status).toBe('queued')
})

test('8.3 health, status, list and cancel answer while every slot and the queue are full and waited for', async () => {
  // A tenant among others has a share of the queue.
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '2', MAX_QUEUED: '3' }, alone: true })
  const runs = await Promise.all(Array.from({ length: 5 }, () => service.start(hang)))
  const polls = runs.map(({ id }) => service.call('GET', `/v1/runs/${id}/result?wait=30`))
  const floods = await Promise.all(Array.from({ length: 50 }, () => service.call('POST', '/v1/runs', hang)))
  expect(new Set(floods.map(({ status }) => status))).toEqual(new Set([503]))
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  expect((await service.call('GET', '/readyz')).status).toBe(200)
  expect((await service.call('GET', `/v1/runs/${runs[4]?.id}`)).body.status).toBe('queued')
  const { text } = await service.call('GET', '/metrics')
  expect(text).toMatch(/^subagentd_runs\{status="running"\} 2$/m)
  expect(text).toMatch(/^subagentd_runs\{status="queued"\} 3$/m)
  const cancelled = await Promise.all(runs.map(({ id }) => service.call('POST', `/v1/runs/${id}/cancel?wait=10`)))
  expect(cancelled.map((answer) => answer.body.stopReason)).toEqual(['aborted', 'aborted', 'aborted', 'aborted', 'aborted'])
  await Promise.all(polls)
})

test('8.3 answered runs that wait for a place are queued, not running, and fill no queue of starts', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1', MAX_QUEUED: '1' } })
  const tools = [{ name: 'ask', description: 'asks', inputSchema: { type: 'object' } }]
  const script = [{ call: { id: 'c', name: 'ask' } }, { hang: true }]
  const asking = []
  for (let n = 0; n < 3; n++) asking.push(await service.start({ task: 'a', tools, agentOptions: { script } }, { prefer: 'wait=10' }))
  for (const { id, status } of asking) {
    expect(status).toBe('waiting')
    await service.call('POST', `/v1/runs/${id}/tool-results`, { results: [{ toolCallId: 'c', content: 'x' }] })
  }
  const statuses: string[] = (await Promise.all(asking.map(({ id }) => service.call('GET', `/v1/runs/${id}`)))).map(({ body }) => body.status)
  expect([...statuses].sort()).toEqual(['queued', 'queued', 'running'])
  expect((await service.call('POST', '/v1/runs', quick)).status).toBe(201)
  const running = asking[statuses.indexOf('running')]
  await service.call('POST', `/v1/runs/${running?.id}/cancel?wait=10`)
  const after: string[] = (await Promise.all(asking.map(({ id }) => service.call('GET', `/v1/runs/${id}`)))).map(({ body }) => body.status)
  expect([...after].sort()).toEqual(['queued', 'running', 'settled'])
})
