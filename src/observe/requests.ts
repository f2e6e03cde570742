import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyInstance } from 'fastify'
import type { TraceHeaders } from '../core/run.ts'

/** The request behind a run, as far as its observers tell of it. */
export interface RequestFacts { id: string, trace?: TraceHeaders }

export interface Requests {
  /** The request that the caller works for, also in the run that it started; none after a restart. */
  current (): RequestFacts | undefined
  /** Follows an app's requests. `onRun` is told of those that say something to a run. */
  watch (app: FastifyInstance, onRun?: (tenant: string, runId: string) => void): void
}

/** Observers learn by it which request made a run: nothing that is observed has to know. */
export function createRequests (): Requests {
  const storage = new AsyncLocalStorage<RequestFacts>()
  return {
    current: () => storage.getStore(),
    watch (app, onRun) {
      // Here the body is read: reading it comes back in a context of its own.
      app.addHook('preHandler', ({ id, headers, params, caller, method }, _, done) => {
        const { traceparent, tracestate } = headers
        storage.run({
          id,
          ...typeof traceparent === 'string' && { trace: { traceparent, ...typeof tracestate === 'string' && { tracestate } } }
        }, () => {
          const run = (params as { id?: unknown } | undefined)?.id
          if (onRun && caller && method === 'POST' && typeof run === 'string') onRun(caller.tenant, run)
          done()
        })
      })
    }
  }
}
