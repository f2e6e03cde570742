import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { noUsage } from '../../src/core/events.ts'
import type { Store } from '../../src/core/store.ts'
import { createRedactor } from '../../src/core/secrets.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { measuredStore } from '../../src/observe/store.ts'
import { makeFolder, startService } from '../support/service.ts'

const open = () => {
  const metrics = createMetrics(createRedactor(['sk-secret-1']))
  onTestFinished(() => { metrics.close() })
  const lines = async (name: string): Promise<string[]> =>
    (await metrics.text()).split('\n')
      .filter((line) => line.startsWith(`subagentd_${name}`)).map((line) => line.slice('subagentd_'.length))
  return { metrics, lines }
}
const usage = { ...noUsage(), inputTokens: 10, cachedInputTokens: 4, outputTokens: 3, steps: 1 }

test('runs are counted by provider and stop reason, with their time and tokens', async () => {
  const { metrics, lines } = open()
  metrics.runStarted('spawn')
  metrics.runStarted('spawn')
  metrics.runStarted('fork')
  metrics.runSettled({ provider: 'spawn', stopReason: 'completed', seconds: 0.2, model: 'a/m', usage })
  metrics.runSettled({ provider: 'spawn', stopReason: 'aborted', seconds: 3, model: 'a/m', usage })
  expect(await lines('runs_started_total')).toEqual(['runs_started_total{provider="spawn"} 2',
    'runs_started_total{provider="fork"} 1'])
  expect(await lines('runs_settled_total')).toEqual([
    'runs_settled_total{provider="spawn",stop_reason="completed"} 1',
      'runs_settled_total{provider="spawn",stop_reason="aborted"} 1'
  ])
  expect(await lines('run_duration_seconds_sum')).toEqual([
    'run_duration_seconds_sum{provider="spawn",stop_reason="completed"} 0.2',
      'run_duration_seconds_sum{provider="spawn",stop_reason="aborted"} 3'
  ])
  expect(await lines('tokens_total')).toEqual([
    'tokens_total{kind="input",model="a/m"} 20', 'tokens_total{kind="cached",model="a/m"} 8',
      'tokens_total{kind="output",model="a/m"} 6'
  ])
})

test('a model whose name is too long is another one, and no name holds a secret', async () => {
  const { metrics, lines } = open()
  for (const model of ['a/m', `a/${'x'.repeat(200)}`, 'a/sk-secret-1']) metrics.runSettled({ provider: 'spawn', stopReason: 'completed', seconds: 1, model, usage: { ...noUsage(), inputTokens: 1 } })
  expect(await lines('tokens_total')).toEqual(['a/m', 'other', 'a/[redacted]'].map((model) => `tokens_total{kind="input",model="${model}"} 1`))
})

test('how full it is, is read when the metrics are: runs by status, slots, queue and store', async () => {
  const { metrics, lines } = open()
  expect(await lines('runs{')).toEqual([])
  const now = { runs: { running: 1, queued: 2, waiting: 3, idle: 4 }, slots: { used: 1, most: 10 }, queue: { length: 2, most: 20 }, storeHealthy: true }
  metrics.watch({ read: () => now, databasePath: ':memory:' })
  expect(await lines('runs{')).toEqual(['runs{status="running"} 1', 'runs{status="queued"} 2', 'runs{status="waiting"} 3', 'runs{status="idle"} 4'])
  expect([...await lines('slots_'), ...await lines('queue_'), ...await lines('store_up')]).toEqual([
    'slots_used 1', 'slots_max 10', 'queue_length 2', 'queue_max 20', 'store_up 1'
  ])
  expect(await lines('store_file_bytes')).toEqual([])
  now.runs.queued = 0
  now.storeHealthy = false
  expect(await lines('runs{status="queued"}')).toEqual(['runs{status="queued"} 0'])
  expect(await lines('store_up')).toEqual(['store_up 0'])
})

test('the sizes of the database and of its write-ahead log are read from the disk', async () => {
  const { metrics, lines } = open()
  const path = join(makeFolder(onTestFinished), 'x.db')
  writeFileSync(path, 'x'.repeat(100))
  const full = { runs: { running: 0, queued: 0, waiting: 0, idle: 0 }, slots: { used: 0, most: 1 }, queue: { length: 0, most: 1 }, storeHealthy: true }
  metrics.watch({ read: () => full, databasePath: path })
  expect(await lines('store_file_bytes')).toEqual(['store_file_bytes{file="database"} 100', 'store_file_bytes{file="wal"} 0'])
  writeFileSync(`${path}-wal`, 'x'.repeat(50))
  expect(await lines('store_file_bytes{file="wal"}')).toEqual(['store_file_bytes{file="wal"} 50'])
})

test('writes of the store are pending until they are durable or refused, and timed; a fault leaves its time', async () => {
  const { metrics, lines } = open()
  const store = measuredStore({ append: () => written.promise, patchRun: () => Promise.reject(new Error('full')) } as unknown as Store, metrics)
  const written = Promise.withResolvers<undefined>()
  const append = store.append({ segment: 1, events: [] })
  expect(await lines('store_writes_pending')).toEqual(['store_writes_pending 1'])
  written.resolve(undefined)
  await append
  await expect(store.patchRun('t', 'r', {})).rejects.toThrow('full')
  expect(await lines('store_writes_pending')).toEqual(['store_writes_pending 0'])
  expect(await lines('store_write_duration_seconds_count')).toEqual([
    'store_write_duration_seconds_count{operation="append"} 1', 'store_write_duration_seconds_count{operation="patch"} 1'
  ])
  expect(await lines('store_faults_total')).toEqual(['store_faults_total 0'])
  expect(await lines('store_last_fault')).toEqual(['store_last_fault_time_seconds 0'])
  metrics.storeFault()
  expect(await lines('store_faults_total')).toEqual(['store_faults_total 1'])
  expect(Number((await lines('store_last_fault'))[0]?.split(' ')[1])).toBeGreaterThan(1.7e9)
})

test('model calls, retries and requests are counted', async () => {
  const { metrics, lines } = open()
  metrics.modelCall({ endpoint: 'openai', outcome: 'ok', seconds: 1 })
  metrics.modelCall({ endpoint: 'openai', outcome: 'MODEL_RATE_LIMITED', seconds: 1 })
  metrics.modelRetry('openai', 'MODEL_RATE_LIMITED')
  metrics.httpRequest({ route: '/v1/runs/:id', method: 'GET', status: 200, seconds: 0.001 })
  expect(await lines('model_calls_total')).toEqual(['model_calls_total{endpoint="openai",outcome="ok"} 1',
    'model_calls_total{endpoint="openai",outcome="MODEL_RATE_LIMITED"} 1'])
  expect(await lines('model_call_duration_seconds_count')).toEqual(['model_call_duration_seconds_count{endpoint="openai"} 2'])
  expect(await lines('model_retries_total')).toEqual(['model_retries_total{endpoint="openai",code="MODEL_RATE_LIMITED"} 1'])
  expect(await lines('http_request_duration_seconds_count')).toEqual(
    ['http_request_duration_seconds_count{route="/v1/runs/:id",method="GET",status="2xx"} 1']
  )
  expect(await lines('http_requests_total')).toEqual(['http_requests_total{route="/v1/runs/:id",method="GET",status="200"} 1'])
})

test('the process is measured: event loop, memory, time', async () => {
  const { lines } = open()
  expect((await lines('event_loop_delay_seconds')).map((line) => line.split(' ')[0])).toEqual(
    ['0.5', '0.99', '1'].map((quantile) => `event_loop_delay_seconds{quantile="${quantile}"}`))
  expect(await lines('process_memory_bytes{kind="resident"}')).toEqual([expect.stringMatching(/ \d{7,}$/)])
  expect(await lines('process_cpu_seconds_total')).toHaveLength(1)
  const [start] = await lines('process_start_time_seconds')
  expect(Math.abs(Number(start?.split(' ')[1]) - (Date.now() / 1000 - process.uptime()))).toBeLessThan(5)
})

test('names of models that hosts think up do not grow the metrics without end', async () => {
  const { metrics, lines } = open()
  for (let i = 0; i < 1000; i++) metrics.runSettled({ provider: 'spawn', stopReason: 'completed', seconds: 1, model: `m${i}`,
    usage: { ...noUsage(), inputTokens: 1 } })
  const tokens = await lines('tokens_total')
  expect(tokens).toHaveLength(201)
  expect(tokens.at(-1)).toBe('tokens_total{kind="input",model="other"} 800')
})

test('two sets of metrics share nothing', async () => {
  const [one, two] = [open(), open()]
  one.metrics.runStarted('spawn')
  expect(await two.lines('runs_started_total')).toEqual([])
  expect(one.metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
})

test('labels of requests are closed sets: a route is its pattern, what is none and odd methods are other', async () => {
  const service = await startService(onTestFinished)
  await service.call('GET', '/v1/runs/one')
  await service.call('GET', '/v1/runs/two')
  await service.call('GET', '/nowhere/1')
  await service.call('GET', '/nowhere/2')
  await fetch(service.url + '/nowhere', { method: 'PROPFIND' })
  const { text } = await service.call('GET', '/metrics')
  expect(text.split('\n').filter((line) => line.startsWith('subagentd_http_requests_total')).toSorted()).toEqual([
    'subagentd_http_requests_total{route="/v1/runs/:id",method="GET",status="404"} 2',
    'subagentd_http_requests_total{route="other",method="GET",status="404"} 2',
    'subagentd_http_requests_total{route="other",method="other",status="404"} 1'
  ])
})

test('a run that fails is counted under its code, and the service tells how full it is and how its store writes', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1', MAX_QUEUED: '5' } })
  const script = [{ fail: { code: 'MODEL_AUTH' } }]
  const failed = await service.start({ task: 'x', agentOptions: { model: 'scripted/demo', script } })
  await service.result(failed.id)
  await service.start({ task: 'x', agentOptions: { model: 'scripted/demo', script: [{ hang: true }] } })
  await service.start({ task: 'x' })
  const { text } = await service.call('GET', '/metrics')
  for (const line of [
    'runs_failed_total{provider="spawn",code="MODEL_AUTH"} 1', 'runs_settled_total{provider="spawn",stop_reason="error"} 1',
    'model_calls_total{endpoint="scripted",outcome="MODEL_AUTH"} 1', 'runs{status="running"} 1', 'runs{status="queued"} 1',
    'slots_used 1', 'slots_max 1', 'queue_length 1', 'queue_max 5', 'store_up 1', 'store_write_duration_seconds_count{operation="publish"} 3'
  ]) expect(text).toContain(`subagentd_${line}\n`)
})
