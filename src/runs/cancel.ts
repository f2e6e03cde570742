import type { CancelledBy } from '../core/events.ts'
import { CancelReason, type LiveRun } from '../core/live.ts'
import type { Caller, RunView } from './api.ts'
import { findRun, viewOf, type RunsContext } from './context.ts'

/** Asks the run and its descendants to stop, child first (driver.md 5.2); resolves once that is durable. */
export async function cancel (context: RunsContext, caller: Caller, id: string, reason: string | null, by: CancelledBy = 'request'): Promise<{ run: RunView } | { starting: true }> {
  const { registry } = context
  const starting = registry.starting(caller.tenant, id)
  if (starting && !registry.live(caller.tenant, id)) {
    starting.abort(new CancelReason(by, reason ?? 'the start was cancelled'))
    return { starting: true }
  }
  if (!registry.live(caller.tenant, id)) await findRun(context, caller, id)
  await durable(abortTree(context, caller, id, reason, by))
  return { run: await viewOf(context, await findRun(context, caller, id)) }
}

/** Aborts the tree under a run in one tick, so that no start slips in between. Answers the runs that were told. */
function abortTree ({ registry }: RunsContext, { tenant }: Caller, id: string, reason: string | null, by: CancelledBy): LiveRun[] {
  const { live, starting } = registry.descendants(tenant, id)
  const inherited = by === 'dispose' ? by : 'parent'
  for (const start of starting) start.abort(new CancelReason(inherited, reason))
  for (const run of live) run.abort(new CancelReason(inherited, reason))
  const root = registry.live(tenant, id)
  root?.abort(new CancelReason(by, reason))
  return root ? [...live, root] : live
}

const durable = async (runs: readonly LiveRun[]): Promise<void> => { await Promise.all(runs.map((run) => run.log.durable())) }

export interface Which { ids?: string[], root?: string, label?: string, metadata?: Record<string, string> }

/** Cancels every open run that matches all that is named. Answers how many matched. */
export async function cancelMany (context: RunsContext, caller: Caller, which: Which, reason: string | null): Promise<number> {
  const wanted = which.ids && new Set(which.ids)
  const matches = ({ projection: { record } }: LiveRun): boolean =>
    (!wanted || wanted.has(record.id)) &&
    (which.root === undefined || record.rootId === which.root) &&
    (which.label === undefined || record.label === which.label) &&
    Object.entries(which.metadata ?? {}).every(([key, value]) => record.metadata[key] === value)
  const matched = context.registry.liveRuns(caller.tenant).filter(matches)
  await Promise.all(matched.map(async (run) => await durable(abortTree(context, caller, run.id, reason, 'request'))))
  return matched.length
}

/** Cancels the run and its descendants, waits until they stopped, and forgets them all. Idempotent. */
export async function dispose (context: RunsContext, caller: Caller, id: string): Promise<void> {
  const { registry, store } = context
  registry.starting(caller.tenant, id)?.abort(new CancelReason('dispose', 'the start was cancelled'))
  const told = abortTree(context, caller, id, null, 'dispose')
  await Promise.all(told.map((run) => run.dispose()))
  if (!await store.getRun(caller.tenant, id)) return
  const rest = await store.descendants(caller.tenant, id)
  await Promise.all(rest.map((record) => registry.live(caller.tenant, record.id)?.dispose()))
  await store.deleteRuns(caller.tenant, [...rest.map((record) => record.id), id])
}

/** Cancels every run under a session, and waits for them. */
export async function cancelSessionRuns (context: RunsContext, caller: Caller, sessionId: string): Promise<void> {
  const runs = await context.store.runsOfSession(caller.tenant, sessionId)
  const told = runs.flatMap((run) => abortTree(context, caller, run.id, 'the session was deleted', 'request'))
  await Promise.all(told.map((run) => run.stopped))
}
