import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createStoreHealth } from '../../src/store/health.ts'
import { makeFolder, startService, type Service } from '../support/service.ts'

const figures = async (service: Service, name: string): Promise<string[]> => {
  const { status, text } = await service.call('GET', '/metrics')
  expect(status).toBe(200)
  return text.split('\n').filter((line) => line.startsWith(`subagentd_${name}`)).map((line) => line.slice('subagentd_'.length))
}

test('runs, tokens, model calls, their retries and requests are counted while the service works', async () => {
  const service = await startService(onTestFinished, { random: () => 0 })
  const usage = { inputTokens: 12, outputTokens: 5 }
  const script = [{ fail: { status: 503, message: 'busy' } }, { say: 'done', usage }]
  const run = await service.start({ task: 'a', agentOptions: { script } }, { prefer: 'wait=20' })
  expect(run.stopReason).toBe('completed')
  await service.start(
    { provider: 'fork', parent: { runId: run.id }, task: 'b', agentOptions: { script: [{ fail: { status: 401 } }] } },
    { prefer: 'wait=20' }
  )
  await service.call('GET', `/v1/runs/${run.id}`)
  await service.call('GET', '/nowhere')
  expect(await figures(service, 'runs_started_total')).toEqual(
    ['runs_started_total{provider="spawn"} 1', 'runs_started_total{provider="fork"} 1']
  )
  expect(await figures(service, 'runs_settled_total')).toEqual([
    'runs_settled_total{provider="spawn",stop_reason="completed"} 1', 'runs_settled_total{provider="fork",stop_reason="error"} 1'
  ])
  expect(await figures(service, 'tokens_total')).toEqual(
    ['tokens_total{kind="input",model="scripted/demo"} 12', 'tokens_total{kind="output",model="scripted/demo"} 5']
  )
  expect(await figures(service, 'model_calls_total')).toEqual([
    'model_calls_total{endpoint="scripted",outcome="MODEL_ERROR"} 1', 'model_calls_total{endpoint="scripted",outcome="ok"} 1',
    'model_calls_total{endpoint="scripted",outcome="MODEL_AUTH"} 1'
  ])
  expect(await figures(service, 'model_retries_total')).toEqual(['model_retries_total{endpoint="scripted",code="MODEL_ERROR"} 1'])
  const requests = await figures(service, 'http_request_duration_seconds_count')
  expect(requests).toContain('http_request_duration_seconds_count{route="/v1/runs",method="POST",status="2xx"} 2')
  expect(requests).toContain('http_request_duration_seconds_count{route="/v1/runs/:id",method="GET",status="2xx"} 1')
  expect(requests.join('\n')).not.toContain(run.id)
  expect(requests.join('\n')).not.toContain('/nowhere')
})

test('a run that is taken up again after a restart is not counted as started', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const first = await startService(onTestFinished, { env })
  await first.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  await first.stop()
  const second = await startService(onTestFinished, { env })
  expect(await figures(second, 'runs_started_total')).toEqual([])
  expect(await figures(second, 'runs{status="running"}')).toEqual(['runs{status="running"} 1'])
})

test('a store that failed counts as lost until it takes a write again', async () => {
  vi.useFakeTimers()
  onTestFinished(() => { vi.useRealTimers() })
  let works = false
  const health = createStoreHealth(async () => { if (!works) throw new Error('disk full') })
  onTestFinished(() => health.close())
  expect(health.ok).toBe(true)
  health.onFault()
  health.onFault()
  expect(health.ok).toBe(false)
  await vi.advanceTimersByTimeAsync(5000)
  expect(health.ok).toBe(false)
  works = true
  await vi.advanceTimersByTimeAsync(1000)
  expect(health.ok).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})
