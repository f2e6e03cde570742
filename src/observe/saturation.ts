import { statSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Make } from './metric-makers.ts'

/** How full the service is, read when the metrics are. */
export interface Saturation {
  runs: Readonly<Record<'running' | 'queued' | 'waiting' | 'idle', number>>
  slots: { used: number, most: number }
  queue: { length: number, most: number }
  /** Whether the store takes writes. */
  storeHealthy: boolean
}

export interface SaturationMetrics {
  /** `read` is asked each time the metrics are read. `databasePath`: a file, or `:memory:`. */
  watch (source: { read: () => Saturation, databasePath: string }): void
}

export function saturationMetrics ({ gauge }: Make): SaturationMetrics {
  let source: Parameters<SaturationMetrics['watch']>[0] | undefined
  let last: Saturation | undefined
  // Of the gauges that read it, this one is the first.
  gauge('runs', 'Runs that are not settled', ['status'], function () {
    last = source?.read()
    for (const [status, count] of Object.entries(last?.runs ?? {})) this.set({ status: status as 'running' }, count)
  })
  const alone = (name: string, help: string, value: (from: Saturation) => number): void => {
    gauge(name, help, [], function () { if (last) this.set(value(last)) })
  }
  alone('slots_used', 'Places of runs that execute, taken', ({ slots }) => slots.used)
  alone('slots_max', 'Places of runs that execute', ({ slots }) => slots.most)
  alone('queue_length', 'Starts that wait for a place', ({ queue }) => queue.length)
  alone('queue_max', 'Starts that may wait; one more is refused', ({ queue }) => queue.most)
  alone('store_up', 'Whether the store takes writes', ({ storeHealthy }) => storeHealthy ? 1 : 0)
  gauge('store_file_bytes', 'Size of the database and of its write-ahead log', ['file'], function () {
    if (source === undefined || source.databasePath === ':memory:') return
    this.set({ file: 'database' }, sizeOf(source.databasePath))
    this.set({ file: 'wal' }, sizeOf(`${source.databasePath}-wal`))
  })
  return { watch: (from) => { source = from } }
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** Read when asked for, without timers or observers of prom-client's own, which nothing could end. */
export function processMetrics ({ gauge, counter }: Make): { disable (): void } {
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
