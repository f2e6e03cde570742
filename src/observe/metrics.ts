import { Registry } from 'prom-client'
import type { OutcomeCode, StopReason, Usage } from '../core/events.ts'
import type { Redact } from '../core/secrets.ts'
import { bounded, makersIn, type Make } from './metric-makers.ts'
import { processMetrics, saturationMetrics, type SaturationMetrics } from './saturation.ts'

export interface Metrics extends SaturationMetrics {
  readonly contentType: string
  /** The exposition that Prometheus reads. */
  text (): Promise<string>

  runStarted (provider: string): void
  /** `code`: why it failed, for `error` alone. */
  runSettled (run: {
    provider: string, stopReason: StopReason, code?: OutcomeCode | undefined, seconds: number, model: string, usage: Usage
  }): void

  /** `outcome`: `ok`, or the code it failed with. */
  modelCall (call: { endpoint: string, outcome: string, seconds: number }): void
  modelRetry (endpoint: string, code: string): void

  /** `route`: its pattern, not the path asked for; `unknown` where there is none. */
  httpRequest (request: { route: string, method: string, status: number, seconds: number }): void

  /** A write was handed to the store. Answers what to call once it is durable, or refused. */
  storeWrite (operation: string): () => void
  /** The store itself failed. */
  storeFault (): void

  /** Ends what is measured between readings. */
  close (): void
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const RUN_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const TOKEN_KINDS = {
  input: 'inputTokens',
  cached: 'cachedInputTokens',
  cache_write: 'cacheWriteTokens',
  output: 'outputTokens',
  reasoning: 'reasoningTokens'
} as const

/**
 * The four golden signals, in a registry of its own. Labels take closed sets of values, or a bounded number of bounded ones, from
 * which `redact` takes secrets.
 */
export function createMetrics (redact: Redact): Metrics {
  const registry = new Registry()
  const make = makersIn(registry)
  const delay = processMetrics(make)
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    ...runMetrics(make, redact),
    ...callMetrics(make),
    ...storeMetrics(make),
    ...saturationMetrics(make),
    close: () => {
      delay.disable()
      registry.clear()
    }
  }
}

function runMetrics ({ counter, histogram }: Make, redact: Redact): Pick<Metrics, 'runStarted' | 'runSettled'> {
  const model = bounded()
  const started = counter('runs_started_total', 'Runs published', ['provider'])
  const settled = counter('runs_settled_total', 'Runs settled', ['provider', 'stop_reason'])
  const failed = counter('runs_failed_total', 'Runs settled as error, by code', ['provider', 'code'])
  const duration = histogram('run_duration_seconds', 'From publication to settlement', ['provider', 'stop_reason'], RUN_SECONDS)
  const tokens = counter('tokens_total', 'Tokens used by settled runs; input includes cached', ['kind', 'model'])
  return {
    runStarted: (provider) => { started.inc({ provider }) },
    runSettled: (run) => {
      const labels = { provider: run.provider, stop_reason: run.stopReason }
      settled.inc(labels)
      if (run.code !== undefined) failed.inc({ provider: run.provider, code: run.code })
      duration.observe(labels, run.seconds)
      for (const [kind, field] of Object.entries(TOKEN_KINDS)) {
        if (run.usage[field] > 0) tokens.inc({ kind: kind as 'input', model: model(redact(run.model)) }, run.usage[field])
      }
    }
  }
}

function callMetrics ({ counter, histogram }: Make): Pick<Metrics, 'modelCall' | 'modelRetry' | 'httpRequest'> {
  const calls = counter('model_calls_total', 'Model calls ended, by how', ['endpoint', 'outcome'])
  const callSeconds = histogram('model_call_duration_seconds', 'From request to end of answer', ['endpoint'], RUN_SECONDS)
  const retries = counter('model_retries_total', 'Model calls tried again', ['endpoint', 'code'])
  const requests = counter('http_requests_total', 'HTTP requests answered', ['route', 'method', 'status'])
  const seconds = histogram('http_request_duration_seconds', 'From request to the end of its answer; waits and streams included',
    ['route', 'method', 'status'], SECONDS)
  return {
    modelCall: ({ endpoint, outcome, seconds }) => {
      calls.inc({ endpoint, outcome })
      callSeconds.observe({ endpoint }, seconds)
    },
    modelRetry: (endpoint, code) => { retries.inc({ endpoint, code }) },
    httpRequest: (request) => {
      const method = METHODS.has(request.method) ? request.method : 'other'
      const route = request.route === 'unknown' ? 'other' : request.route
      requests.inc({ route, method, status: request.status })
      seconds.observe({ route, method, status: `${Math.floor(request.status / 100)}xx` }, request.seconds)
    }
  }
}

function storeMetrics ({ counter, gauge, histogram }: Make): Pick<Metrics, 'storeWrite' | 'storeFault'> {
  const seconds = histogram('store_write_duration_seconds', 'From the call to durable: queue, commit and flush',
    ['operation'], SECONDS)
  const pending = gauge('store_writes_pending', 'Writes that are not durable yet', [])
  const faults = counter('store_faults_total', 'Failures of the store itself', [])
  const lastFault = gauge('store_last_fault_time_seconds', 'Last failure of the store, in Unix time; 0: none', [])
  pending.set(0)
  return {
    storeWrite (operation) {
      const start = performance.now()
      pending.inc()
      return () => {
        pending.dec()
        seconds.observe({ operation }, (performance.now() - start) / 1000)
      }
    },
    storeFault () {
      faults.inc()
      lastFault.set(Date.now() / 1000)
    }
  }
}
