import { createServer } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { createSparing } from '../../src/observe/open-tracing.ts'
import { createLogger } from '../../src/observe/log.ts'
import { createSpanSink, type SpanSink } from '../../src/observe/otel.ts'
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
  await app.stop(new AbortController().signal)
  const told = lines.filter((line) => line.includes('traces could not be sent'))
  expect(told.length).toBeLessThanOrEqual(1)
  if (status !== undefined) expect(told).toHaveLength(1)
}, 20_000)

test.each([[0, AbortSignal.abort()], [2000, new AbortController().signal]])('the last spans are waited for, but no longer than %i ms', async (ms, hurry) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => { vi.useRealTimers() })
  let cut: AbortSignal | undefined
  const sink: SpanSink = { take () {}, inRatio: () => true, close: (signal) => { cut = signal; return new Promise<never>(() => {}) } }
  const tracing = createTracing({ sink, sampler: 'always_on', requests: { current: () => undefined }, targets: new Map(), redact: (text) => text, onFault () {} })
  let closed = false
  const closing = tracing.close(hurry).then(() => { closed = true })
  if (ms > 0) {
    await vi.advanceTimersByTimeAsync(ms - 1)
    expect([closed, cut?.aborted]).toEqual([false, false])
    await vi.advanceTimersByTimeAsync(1)
  }
  await closing
  expect(cut?.aborted).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})

test('a hurry drops the last spans though their collector is waited for already', async () => {
  const sink: SpanSink = { take () {}, inRatio: () => true, close: () => new Promise<never>(() => {}) }
  const tracing = createTracing({ sink, sampler: 'always_on', requests: { current: () => undefined }, targets: new Map(), redact: (text) => text, onFault () {} })
  const hurry = new AbortController()
  const closing = tracing.close(hurry.signal)
  const start = performance.now()
  hurry.abort()
  await closing
  expect(performance.now() - start).toBeLessThan(1000)
})

/** A collector that takes a connection and never answers, and one whose port is closed. */
async function deadCollector (kind: 'silent' | 'closed'): Promise<string> {
  if (kind === 'closed') return await closedPort()
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => { sockets.add(socket); socket.on('error', () => {}).resume() })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => new Promise((resolve) => { server.close(() => resolve()); for (const socket of sockets) socket.destroy() }))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test.each([['silent', 1], ['closed', 1], ['silent', 2], ['closed', 2]] as const)('a collector that is %s does not keep the process: after %i signals it ends of itself, and soon', async (kind, signals) => {
  const service = startProcess(onTestFinished, {
    DATABASE_URL: 'sqlite::memory:', SHUTDOWN_DELAY_MS: signals === 2 ? '60000' : '0', OTEL_EXPORTER_OTLP_ENDPOINT: await deadCollector(kind), OTEL_BSP_SCHEDULE_DELAY: '10'
  })
  for (let i = 0; i < 3; i++) await service.call('POST', '/v1/runs', { task: 'x' }, { prefer: 'wait=20' })
  service.signal('SIGTERM')
  await service.told(/^draining/)
  const start = performance.now()
  if (signals === 2) service.signal('SIGTERM')
  expect(await service.ended).toBe(0)
  expect(service.lines.map(({ msg }) => msg)).not.toContain('something keeps the process after its end: cut off')
  expect(performance.now() - start).toBeLessThan(5000)
}, 20_000)

test('spans that a collector does not take are kept up to a bound, and no further', async () => {
  const collector = await startOtlpReceiver(onTestFinished)
  const sink = createSpanSink({ url: `${collector.url}/v1/traces`, headers: {}, resource: {}, ratio: 1, version: '1', onFault () {} })
  const place = { traceId: 'a'.repeat(32), sampled: true }
  for (let i = 1; i <= 9000; i++) {
    const spanId = i.toString(16).padStart(16, '0')
    sink.take({ ...place, spanId }, { name: 'x', kind: 'internal', spanId, start: 0, end: 1, attributes: {}, failed: false, links: [] })
  }
  await sink.close(new AbortController().signal)
  // The first batch of 512 may be on its way already.
  expect(collector.spans.length).toBeGreaterThanOrEqual(8192)
  expect(collector.spans.length).toBeLessThanOrEqual(8192 + 512)
})

/** A collector that breaks its first connections and answers on none, and a sink that sends to it. */
async function brokenCollector (breaks: number): Promise<{ sink: SpanSink, take: (count: number) => void, connections: () => number, connected: Promise<unknown>, lost: Promise<unknown> }> {
  const sockets = new Set<Socket>()
  const connected = Promise.withResolvers<undefined>()
  const lost = Promise.withResolvers<undefined>()
  let taken = 0
  const server = createTcpServer((socket) => {
    sockets.add(socket.on('error', () => {}).resume())
    if (sockets.size <= breaks) socket.on('close', () => connected.resolve(undefined)).resetAndDestroy()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => new Promise((resolve) => { server.close(() => resolve()); for (const socket of sockets) socket.destroy() }))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sink = createSpanSink({ url, headers: {}, resource: {}, ratio: 1, version: '1', onFault: (_, spans) => { if ((taken -= spans) === 0) lost.resolve(undefined) } })
  return {
    sink, connections: () => sockets.size, connected: connected.promise, lost: lost.promise,
    take (count) {
      taken = count
      for (let i = 1; i <= count; i++) {
        const spanId = i.toString(16).padStart(16, '0')
        sink.take({ traceId: 'a'.repeat(32), spanId, sampled: true }, { name: 'x', kind: 'internal', spanId, start: 0, end: 1, attributes: {}, failed: false, links: [] })
      }
    }
  }
}

test('at the end nothing is sent again that failed', async () => {
  const { sink, take, connections, lost } = await brokenCollector(1)
  take(10)
  await expect(sink.close(new AbortController().signal)).rejects.toThrow()
  await lost
  expect(connections()).toBe(1)
})

test.each([['was cut', AbortSignal.abort(), 1], ['has come', new AbortController().signal, 2]])('what waited to be sent again is not, once the end %s', async (_, cut, breaks) => {
  const { sink, take, connected, lost } = await brokenCollector(breaks)
  // A full batch goes at once, the rest at the end.
  take(600)
  await connected
  await expect(sink.close(cut)).rejects.toThrow()
  await lost
}, 5000)

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
