import type { Logger } from 'pino'
import type { LiveRun } from '../core/live.ts'
import type { Redact } from '../core/secrets.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { openTracing, type TraceOptions } from './open-tracing.ts'
import { createRequests, type Requests } from './requests.ts'
import { createRunWatch, type RunWatch } from './runs.ts'
import type { Saturation } from './saturation.ts'
import type { Tracing } from './tracing.ts'

export interface Observers { metrics: Metrics, requests: Requests, tracing: Tracing, watch: RunWatch }

export interface ObserverOptions extends Pick<TraceOptions, 'endpoints' | 'version'> {
  log: Logger
  tracing: TraceOptions['settings']
  /** Takes the secrets of the configuration out of names that come from elsewhere. */
  redact: Redact
  /** Runs that are announced now were left by the last process. */
  resuming: () => boolean
}

/** Everything by which the service is seen from outside. */
export async function openObservers (options: ObserverOptions): Promise<Observers> {
  const { log, tracing: settings, endpoints, version, redact, resuming } = options
  const metrics = createMetrics(redact)
  const requests = createRequests()
  const tracing = await openTracing({ settings, endpoints, requests, version, redact, log })
  return { metrics, requests, tracing, watch: createRunWatch({ log, metrics, tracing, requests, resuming }) }
}

/** How many runs are in each state that is not the last. */
export function countByStatus (runs: readonly LiveRun[]): Saturation['runs'] {
  const counts = { running: 0, queued: 0, waiting: 0, idle: 0 }
  for (const { projection: { record: { status } } } of runs) if (status !== 'settled') counts[status]++
  return counts
}
