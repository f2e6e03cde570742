import type { LiveRun } from '../core/live.ts'
import { SuspendReason } from '../core/live.ts'
import type { SubagentRun } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import type { Store } from '../core/store.ts'

export interface LocalEngineOptions {
  store: Store
  liveRuns: () => LiveRun[]
  resume: (record: RunRecord, spec: RunSpec) => Promise<SubagentRun>
  onFault: (message: string, error: unknown, context: object) => void
}

/** This process executes every run itself: it takes up what a stopped one left, and leaves what it cannot finish. */
export interface LocalEngine {
  /** Takes up every open run (driver.md 2.8). Resolves with how many, once all are announced. */
  resumeAll (): Promise<number>
  /** Gives running work `graceMs` (less if `hurry` aborts), then suspends what is left for the next start. Resolves with how many. */
  drain (graceMs: number, hurry: AbortSignal): Promise<number>
}

export function createLocalEngine ({ store, liveRuns, resume, onFault }: LocalEngineOptions): LocalEngine {
  return {
    async resumeAll () {
      const open = await store.unsettledRuns()
      for (const record of open) {
        const spec = await store.getSpec(record.tenant, record.id)
        if (spec) await resume(record, spec)
        else onFault('a run without its spec cannot be resumed', new Error('no spec'), { runId: record.id })
      }
      return open.length
    },
    async drain (graceMs, hurry) {
      const over = Promise.withResolvers<undefined>()
      const end = (): void => over.resolve(undefined)
      const timer = setTimeout(end, graceMs)
      if (hurry.aborted) end()
      else hurry.addEventListener('abort', end)
      // What only waits for a host or a slot cannot finish by itself: it is left at once.
      const executing = liveRuns().filter((run) => run.projection.record.status === 'running')
      await Promise.race([Promise.all(executing.map((run) => run.stopped)), over.promise])
      clearTimeout(timer)
      hurry.removeEventListener('abort', end)
      const left = liveRuns()
      for (const run of left) run.abort(new SuspendReason())
      await Promise.all(left.map((run) => run.stopped))
      return left.length
    }
  }
}
