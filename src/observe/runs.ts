import type { Logger } from 'pino'
import type { LiveRun } from '../core/live.ts'
import type { ModelFailure } from '../core/model.ts'
import { endpointOf } from './gen-ai.ts'
import type { Metrics } from './metrics.ts'
import type { Requests } from './requests.ts'
import type { Tracing } from './tracing.ts'

export interface RunWatchOptions {
  log: Logger
  metrics: Metrics
  tracing: Tracing
  requests: Pick<Requests, 'current'>
  /** Runs that are announced now were left by the last process. */
  resuming: () => boolean
}

/** What is told of runs outside: one line at the start and one at the end of each, figures, and spans. */
export interface RunWatch {
  announced (run: LiveRun): void
  settled (run: LiveRun): void
  /** The run is released, settled or left for the next start. */
  retired (run: LiveRun): void
  modelCall (call: { model: string, durationMs: number, failure?: ModelFailure }): void
}

export function createRunWatch ({ log, metrics, tracing, requests, resuming }: RunWatchOptions): RunWatch {
  const idsOf = (run: LiveRun): object => {
    const { id, tenant, rootId, parentRunId, continues, provider } = run.projection.record
    return present({
      runId: id, tenant, rootId, parentRunId, continues, provider, requestId: requests.current()?.id, traceId: tracing.traceOf(run)
    })
  }
  return {
    announced (run) {
      const resumed = resuming()
      tracing.follow(run, resumed)
      const { provider, model, depth, status } = run.projection.record
      if (!resumed) metrics.runStarted(provider)
      run.log.observe((events) => {
        for (const event of events) if (event.type === 'run/retry') metrics.modelRetry(endpointOf(model), event.data.code)
      })
      log.info({ ...idsOf(run), model, depth, ...resumed ? { status } : {} }, resumed ? 'run resumed' : 'run started')
    },
    settled (run) {
      const { provider, model, stopReason, error, usage, createdAt, settledAt, cancel } = run.projection.record
      const ms = (settledAt ?? createdAt) - createdAt
      if (stopReason) metrics.runSettled({ provider, stopReason, code: error?.code, seconds: ms / 1000, model, usage })
      log.info({
        ...idsOf(run), stopReason, ms, steps: usage.steps, tokens: usage.inputTokens + usage.outputTokens,
        ...error ? { errorCode: error.code, reason: error.message } : {}, ...cancel ? { cancelledBy: cancel.by } : {}
      }, 'run settled')
    },
    retired: (run) => tracing.forget(run),
    modelCall ({ model, durationMs, failure }) {
      metrics.modelCall({ endpoint: endpointOf(model), outcome: failure?.outcome.code ?? 'ok', seconds: durationMs / 1000 })
    }
  }
}

/** Without what is absent: a line is for people, too. */
const present = (fields: Record<string, string | null | undefined>): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined))
