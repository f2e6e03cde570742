import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { StopReason, Usage } from '../core/events.ts'
import type { RunStatus } from '../core/run.ts'

export interface Metrics {
  readonly contentType: string
  /** The exposition that Prometheus reads. */
  text (): Promise<string>

  runStarted (provider: string): void
  runSettled (run: { provider: string, stopReason: StopReason, seconds: number, model: string, usage: Usage }): void
  /** `read` answers how many runs are in these states, each time the metrics are read. */
  watchRuns (read: () => Record<Extract<RunStatus, 'running' | 'queued' | 'waiting'>, number>): void

  /** `outcome`: `ok`, `aborted`, or the code it failed with. */
  modelCall (call: { endpoint: string, outcome: string, seconds: number }): void
  modelRetry (endpoint: string, code: string): void

  /** `route`: its pattern, not the path asked for. */
  httpRequest (request: { route: string, method: string, status: number, seconds: number }): void
  commit (commit: { rows: number, seconds: number }): void

  /** Ends what is measured between readings. */
  close (): void
}

const PREFIX = 'subagentd_'
/** A label takes so many values; what comes later is `other`, since hosts name models. */
const MAX_VALUES = 200
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const RUN_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
const TOKEN_KINDS = {
  input: 'inputTokens',
  cached: 'cachedInputTokens',
  cache_write: 'cacheWriteTokens',
  output: 'outputTokens',
  reasoning: 'reasoningTokens'
} as const

/** Metrics in a registry of their own. */
export function createMetrics (): Metrics {
  const registry = new Registry()
  const make = { counter: counterIn(registry), gauge: gaugeIn(registry), histogram: histogramIn(registry) }
  const delay = measureProcess(make.gauge, make.counter)
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    ...runMetrics(make),
    ...callMetrics(make),
    close: () => {
      delay.disable()
      registry.clear()
    }
  }
}

interface Make {
  counter: ReturnType<typeof counterIn>
  gauge: ReturnType<typeof gaugeIn>
  histogram: ReturnType<typeof histogramIn>
}

const options = <L extends string>(registry: Registry, name: string, help: string, labelNames: readonly L[]) =>
  ({ name: PREFIX + name, help, labelNames, registers: [registry] })
const counterIn = (registry: Registry) =>
  <L extends string>(name: string, help: string, labels: readonly L[], collect?: (this: Counter<L>) => void) =>
    new Counter<L>({ ...options(registry, name, help, labels), ...collect && { collect } })
const gaugeIn = (registry: Registry) =>
  <L extends string>(name: string, help: string, labels: readonly L[], collect?: (this: Gauge<L>) => void) =>
    new Gauge<L>({ ...options(registry, name, help, labels), ...collect && { collect } })
const histogramIn = (registry: Registry) =>
  <L extends string>(name: string, help: string, labels: readonly L[], buckets: number[]) =>
    new Histogram<L>({ ...options(registry, name, help, labels), buckets })

function runMetrics ({ counter, gauge, histogram }: Make): Pick<Metrics, 'runStarted' | 'runSettled' | 'watchRuns'> {
  const model = bounded()
  const started = counter('runs_started_total', 'Runs published', ['provider'])
  const settled = counter('runs_settled_total', 'Runs settled', ['provider', 'stop_reason'])
  const duration = histogram('run_duration_seconds', 'From publication to settlement', ['provider', 'stop_reason'], RUN_SECONDS)
  const tokens = counter('tokens_total', 'Tokens used by settled runs; input includes cached', ['kind', 'model'])
  let read: Parameters<Metrics['watchRuns']>[0] | undefined
  gauge('runs', 'Runs that are not settled', ['status'], function () {
    for (const [status, count] of Object.entries(read?.() ?? {})) this.set({ status: status as 'running' }, count)
  })
  return {
    runStarted: (provider) => { started.inc({ provider }) },
    runSettled: (run) => {
      const labels = { provider: run.provider, stop_reason: run.stopReason }
      settled.inc(labels)
      duration.observe(labels, run.seconds)
      for (const [kind, field] of Object.entries(TOKEN_KINDS)) {
        if (run.usage[field] > 0) tokens.inc({ kind: kind as 'input', model: model(run.model) }, run.usage[field])
      }
    },
    watchRuns: (callback) => { read = callback }
  }
}

function callMetrics ({ counter, histogram }: Make): Pick<Metrics, 'modelCall' | 'modelRetry' | 'httpRequest' | 'commit'> {
  const calls = counter('model_calls_total', 'Model calls ended, by how', ['endpoint', 'outcome'])
  const callSeconds = histogram('model_call_duration_seconds', 'From request to end of answer', ['endpoint'], RUN_SECONDS)
  const retries = counter('model_retries_total', 'Model calls tried again', ['endpoint', 'code'])
  const requests = histogram('http_request_duration_seconds', 'HTTP requests answered', ['route', 'method', 'status'], SECONDS)
  const commitSeconds = histogram('store_commit_duration_seconds', 'Commits of the store', [], SECONDS)
  const commitRows = histogram('store_commit_rows', 'Writes that shared a commit', [], ROWS)
  return {
    modelCall: ({ endpoint, outcome, seconds }) => {
      calls.inc({ endpoint, outcome })
      callSeconds.observe({ endpoint }, seconds)
    },
    modelRetry: (endpoint, code) => { retries.inc({ endpoint, code }) },
    httpRequest: ({ route, method, status, seconds }) => { requests.observe({ route, method, status }, seconds) },
    commit: ({ rows, seconds }) => {
      commitSeconds.observe(seconds)
      commitRows.observe(rows)
    }
  }
}

/** Read when asked for, without timers or observers of this library's own, which nothing could end. */
function measureProcess (gauge: Make['gauge'], counter: Make['counter']): { disable (): void } {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  gauge('event_loop_delay_seconds', 'Delay of the event loop since the last reading', ['quantile'], function () {
    const seconds = (ns: number): number => Number.isFinite(ns) ? ns / 1e9 : 0
    this.set({ quantile: '0.5' }, seconds(delay.percentile(50)))
    this.set({ quantile: '0.99' }, seconds(delay.percentile(99)))
    this.set({ quantile: '1' }, seconds(delay.max))
    delay.reset()
  })
  gauge('process_memory_bytes', 'Memory of the process', ['kind'], function () {
    const { rss, heapUsed, external } = process.memoryUsage()
    this.set({ kind: 'resident' }, rss)
    this.set({ kind: 'heap_used' }, heapUsed)
    this.set({ kind: 'external' }, external)
  })
  counter('process_cpu_seconds_total', 'CPU time of the process', [], function () {
    const { user, system } = process.cpuUsage()
    this.reset()
    this.inc((user + system) / 1e6)
  })
  const started = Math.round(Date.now() / 1000 - process.uptime())
  gauge('process_start_time_seconds', 'Start of the process, in Unix time', []).set(started)
  return delay
}

function bounded (): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.size < MAX_VALUES) known.add(value)
    return known.has(value) ? value : 'other'
  }
}
