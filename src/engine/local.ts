import { at } from '../core/fault-point.ts'
import { SuspendReason, type LiveRun } from '../core/live.ts'
import type { SubagentRun } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import type { Store } from '../core/store.ts'

/** A start under way, as far as a drain waits for it. */
export interface UnderWay { readonly over: Promise<unknown>, abort (): void }

export interface LocalEngineOptions {
  store: Store
  liveRuns: () => LiveRun[]
  /** Starts that are not published yet; none comes after a drain began. */
  starts: () => UnderWay[]
  resume: (record: RunRecord, spec: RunSpec) => Promise<SubagentRun | undefined>
  onFault: (message: string, error: unknown, context: object) => void
}

/** This process executes every run itself: it takes up what a stopped one left, and leaves what it cannot finish. */
export interface LocalEngine {
  /** Takes up every open run (driver.md 2.8). Resolves with them, once all are announced. */
  resumeAll (): Promise<RunRecord[]>
  /** Gives running work `graceMs` (less if `hurry` aborts), then suspends the rest for the next start. Resolves with how many. */
  drain (graceMs: number, hurry: AbortSignal): Promise<number>
}

export function createLocalEngine ({ store, liveRuns, starts, resume, onFault }: LocalEngineOptions): LocalEngine {
  return {
    async resumeAll () {
      // Children first: a parent finds those that its calls wait for, and ends those that outlive it.
      const open = (await store.unsettledRuns()).toSorted((a, b) => b.depth - a.depth)
      for (const record of open) {
        const spec = await store.getSpec(record.tenant, record.id)
        if (spec) await resume(record, spec)
        else onFault('a run without its spec cannot be resumed', new Error('no spec'), { runId: record.id })
      }
      return open
    },
    async drain (graceMs, hurry) {
      const left = new Set<LiveRun>()
      const suspend = (runs: LiveRun[]): void => {
        for (const run of runs) {
          left.add(run)
          run.abort(new SuspendReason())
          at('run/suspended')
        }
      }
      const isQueued = (run: LiveRun): boolean => run.projection.record.status === 'queued'
      const queued = (): LiveRun[] => liveRuns().filter(isQueued)
      // What has no place would begin in those that running work leaves, only to be cut off: it is left at once.
      suspend(queued())
      const grace = createGrace(graceMs, hurry)
      await Promise.race([startsOver(starts), grace.over])
      for (const start of starts()) start.abort()
      await startsOver(starts)
      suspend(queued())
      // What waits for its host cannot finish by itself, but its answers are taken until the rest is done.
      const running = liveRuns().filter((run) => run.projection.record.status === 'running' && !run.observed)
      await Promise.race([Promise.all(running.map((run) => run.stopped)), grace.over])
      grace.clear()
      suspend(liveRuns())
      await Promise.all([...left].map((run) => run.stopped))
      return [...left].filter((run) => run.projection.record.status !== 'settled').length
    }
  }
}

const startsOver = async (starts: () => UnderWay[]): Promise<void> => { await Promise.all(starts().map((start) => start.over)) }

function createGrace (ms: number, hurry: AbortSignal): { over: Promise<unknown>, clear: () => void } {
  const over = Promise.withResolvers<undefined>()
  const end = (): void => over.resolve(undefined)
  const timer = setTimeout(end, ms)
  if (hurry.aborted) end()
  else hurry.addEventListener('abort', end)
  return {
    over: over.promise,
    clear () {
      clearTimeout(timer)
      hurry.removeEventListener('abort', end)
    }
  }
}
