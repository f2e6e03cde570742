import { expect, onTestFinished, test } from 'vitest'
import { noUsage } from '../../src/core/events.ts'
import { createMetrics } from '../../src/observe/metrics.ts'

const open = () => {
  const metrics = createMetrics()
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

test('what runs now is read when the metrics are', async () => {
  const { metrics, lines } = open()
  const now = { running: 1, queued: 2, waiting: 3 }
  metrics.watchRuns(() => now)
  expect(await lines('runs{')).toEqual(['runs{status="running"} 1', 'runs{status="queued"} 2', 'runs{status="waiting"} 3'])
  now.queued = 0
  expect(await lines('runs{status="queued"}')).toEqual(['runs{status="queued"} 0'])
})

test('model calls, retries, requests and commits are counted', async () => {
  const { metrics, lines } = open()
  metrics.modelCall({ endpoint: 'openai', outcome: 'ok', seconds: 1 })
  metrics.modelCall({ endpoint: 'openai', outcome: 'MODEL_RATE_LIMITED', seconds: 1 })
  metrics.modelRetry('openai', 'MODEL_RATE_LIMITED')
  metrics.httpRequest({ route: '/v1/runs/:id', method: 'GET', status: 200, seconds: 0.001 })
  metrics.commit({ rows: 20, seconds: 0.002 })
  expect(await lines('model_calls_total')).toEqual(['model_calls_total{endpoint="openai",outcome="ok"} 1',
    'model_calls_total{endpoint="openai",outcome="MODEL_RATE_LIMITED"} 1'])
  expect(await lines('model_call_duration_seconds_count')).toEqual(['model_call_duration_seconds_count{endpoint="openai"} 2'])
  expect(await lines('model_retries_total')).toEqual(['model_retries_total{endpoint="openai",code="MODEL_RATE_LIMITED"} 1'])
  expect(await lines('http_request_duration_seconds_count')).toEqual(
    ['http_request_duration_seconds_count{route="/v1/runs/:id",method="GET",status="200"} 1']
  )
  expect(await lines('store_commit_rows_sum')).toEqual(['store_commit_rows_sum 20'])
  expect(await lines('store_commit_duration_seconds_count')).toEqual(['store_commit_duration_seconds_count 1'])
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
