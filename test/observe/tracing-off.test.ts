import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { createSparing } from '../../src/observe/open-tracing.ts'
import { createLogger } from '../../src/observe/log.ts'
import { createTracing } from '../../src/observe/tracing.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { startProcess } from '../support/service-process.ts'
import { startService } from '../support/service.ts'

/** Run before the service: tells each module of OpenTelemetry that is loaded. Its small API is loaded by prom-client. */
const SPY = `import { registerHooks } from 'node:module'
registerHooks({ resolve (specifier, context, next) {
  if (specifier.startsWith('@opentelemetry/') && specifier !== '@opentelemetry/api') process.stderr.write('loads ' + specifier + '\\n')
  return next(specifier, context)
} })`
const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(SPY)}`

async function runOnce (env: Record<string, string>): Promise<{ loaded: number, stderr: string, lines: Record<string, unknown>[] }> {
  const service = startProcess(onTestFinished, { DATABASE_URL: 'sqlite::memory:', SHUTDOWN_DELAY_MS: '0', NODE_OPTIONS, ...env })
  const { body } = await service.call('POST', '/v1/runs', { task: 'x' }, { prefer: 'wait=20', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
  expect(body.stopReason).toBe('completed')
  service.signal('SIGTERM')
  expect(await service.ended).toBe(0)
  return { loaded: service.stderr().split('\n').filter((line) => line.startsWith('loads')).length, stderr: service.stderr(), lines: service.lines }
}

test('without an endpoint no module of OpenTelemetry is loaded, and nothing is sent', async () => {
  const collector = await startOtlpReceiver(onTestFinished)
  const [off, disabled, on] = await Promise.all([
    runOnce({}), runOnce({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true', OTEL_SERVICE_NAME: 'disabled' }),
    runOnce({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  ])
  expect(off).toMatchObject({ loaded: 0, stderr: '' })
  expect(disabled.loaded).toBe(0)
  expect(on.loaded).toBeGreaterThan(0)
  // The process ended by itself, all its spans sent.
  expect(collector.tree()).toEqual(['invoke_agent spawn', '  step 1', '    chat demo'])
  const traceOf = (lines: Record<string, unknown>[]): unknown[] => lines.filter(({ msg }) => msg === 'run started' || msg === 'run settled').map(({ traceId }) => traceId)
  expect(traceOf(off.lines)).toEqual([undefined, undefined])
  expect(traceOf(on.lines)).toEqual(['a'.repeat(32), 'a'.repeat(32)])
}, 20_000)

test.each([['refuses', 400], ['is away', undefined]])('a collector that %s harms no run, and is told of once', async (_, status) => {
  const lines: string[] = []
  const url = status === undefined ? await closedPort() : (await startOtlpReceiver(onTestFinished, { status })).url
  const config = loadConfig({ DATABASE_URL: 'sqlite::memory:', PORT: '0', SHUTDOWN_DELAY_MS: '0', OTEL_EXPORTER_OTLP_ENDPOINT: url }, () => '')
  const app = await createApp({ config, log: createLogger({ level: 'warn', pretty: false, destination: { write: (line) => { lines.push(line) } } }) })
  const address = await app.listen()
  // More spans than one request carries.
  const runs = await Promise.all(Array.from({ length: 200 }, () => fetch(`${address}/v1/runs`, {
    method: 'POST', body: '{"task":"x"}', headers: { 'content-type': 'application/json', prefer: 'wait=20' }
  }).then((answer) => answer.json() as Promise<{ stopReason: string }>)))
  expect(runs.every(({ stopReason }) => stopReason === 'completed')).toBe(true)
  await app.stop(AbortSignal.abort())
  const told = lines.filter((line) => line.includes('traces could not be sent'))
  expect(told.length).toBeLessThanOrEqual(1)
  if (status !== undefined) expect(told).toHaveLength(1)
}, 20_000)

test.each([[1000, AbortSignal.abort()], [5000, new AbortController().signal]])('the last spans are waited for, but no longer than %i ms', async (ms, hurry) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => { vi.useRealTimers() })
  const sink = { take () {}, inRatio: () => true, close: () => new Promise<never>(() => {}) }
  const tracing = createTracing({ sink, sampler: 'always_on', requests: { current: () => undefined }, targets: new Map(), onFault () {} })
  let closed = false
  const closing = tracing.close(hurry).then(() => { closed = true })
  await vi.advanceTimersByTimeAsync(ms - 1)
  expect(closed).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  await closing
  expect(closed).toBe(true)
})

async function closedPort (): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => { server.close(resolve) })
  return `http://127.0.0.1:${port}`
}

test('failures to send are told at once, then once a minute, with how many spans were lost', () => {
  const told: [unknown, number][] = []
  let now = 1000
  const onFault = createSparing((error, spans) => told.push([error, spans]), () => now)
  onFault('a', 1)
  onFault('b', 2)
  now += 59_999
  onFault('c', 4)
  now += 1
  onFault('d', 8)
  expect(told).toEqual([['a', 1], ['d', 14]])
})

test('where traces are off a host\'s trace is not kept with its run', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 'x' }, { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
  expect(await service.app.store.getSpec('default', run.id)).not.toHaveProperty('trace')
})
