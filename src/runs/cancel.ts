import type { CancelledBy } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import { CancelReason, type LiveRun } from '../core/live.ts'
import type { RunRecord } from '../core/run.ts'
import type { Caller, RunView } from './api.ts'
import { findRun, leftToNextStart, viewOf, type RunsContext } from './context.ts'
import type { StartingRun } from './registry.ts'

type Cancelled = { run: RunView } | { starting: true }

/** Asks the run and its descendants to stop, child first (driver.md 5.2); resolves once that is durable. */
export async function cancel (
  context: RunsContext, caller: Caller, id: string, reason: string | null, by: CancelledBy = 'request'
): Promise<Cancelled> {
  if (await stopStart(context, caller, id, new CancelReason(by, reason))) return { starting: true }
  if (!context.registry.live(caller.tenant, id)) await findRun(context, caller, id)
  const told = abortTree(context, caller, id, reason, by).live
  at('cancel/accepted')
  await durable(told)
  at('cancel/durable')
  return { run: await viewOf(context, await cancelledRecord(context, caller, id)) }
}

/**
 * Ends a start with this id that nothing is published of (http-api.md 2.6): `true`. One whose publication is with the store is
 * waited for: then there is a run to cancel, or none.
 */
async function stopStart ({ registry }: RunsContext, { tenant }: Caller, id: string, reason: CancelReason): Promise<boolean> {
  const start = registry.starting(tenant, id)
  if (!start) return false
  if (start.publishing) await start.over
  else start.abort(reason)
  return !start.publishing
}

/** The run as it is once its cancellation is known: asked for, or too late because it was settling. */
async function cancelledRecord (context: RunsContext, caller: Caller, id: string): Promise<RunRecord> {
  const isKnown = ({ status, cancel }: RunRecord): boolean => status === 'settled' || cancel !== null
  let record = await findRun(context, caller, id)
  if (isKnown(record)) return record
  await context.registry.live(caller.tenant, id)?.stopped
  record = await findRun(context, caller, id)
  if (!isKnown(record)) throw leftToNextStart(context)
  return record
}

interface Told { live: LiveRun[], starting: StartingRun[] }

/** Aborts the tree under a run in one tick, so that no start slips in between. Answers who was told. */
function abortTree ({ registry }: RunsContext, { tenant }: Caller, id: string, reason: string | null, by: CancelledBy): Told {
  const { live, starting } = registry.descendants(tenant, id)
  const inherited = by === 'dispose' ? by : 'parent'
  for (const start of starting) start.abort(new CancelReason(inherited, reason))
  for (const run of live) run.abort(new CancelReason(inherited, reason))
  const root = registry.live(tenant, id)
  root?.abort(new CancelReason(by, reason))
  return { live: root ? [...live, root] : live, starting }
}

const durable = async (runs: readonly LiveRun[]): Promise<void> => { await Promise.all(runs.map((run) => run.log.durable())) }

export interface Which { ids?: string[], root?: string, label?: string, metadata?: Record<string, string> }

/**
 * Cancels every open run that matches all that is named, with its descendants; of `ids` also those still starting. Answers how
 * many matched.
 */
export async function cancelMany (context: RunsContext, caller: Caller, which: Which, reason: string | null): Promise<number> {
  const { registry } = context
  const { tenant } = caller
  const wanted = which.ids && new Set(which.ids)
  const pairs = Object.entries(which.metadata ?? {})
  const matches = ({ projection: { record: { id, rootId, label, metadata } } }: LiveRun): boolean =>
    (!wanted || wanted.has(id)) &&
    (which.root === undefined || rootId === which.root) &&
    (which.label === undefined || label === which.label) &&
    pairs.every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value)
  const ids = new Set(registry.liveRuns(tenant).filter(matches).map((run) => run.id))
  for (const id of wanted ?? []) if (registry.starting(tenant, id)) ids.add(id)
  // A settled run has nothing to stop, but may have descendants that do.
  const roots = new Set([...ids, ...wanted ?? [], ...which.root === undefined ? [] : [which.root]])
  const told = [...roots].flatMap((id) => {
    const start = registry.starting(tenant, id)
    start?.abort(new CancelReason('request', reason))
    return abortTree(context, caller, id, reason, 'request').live
  })
  await durable([...new Set(told)])
  return ids.size
}

/**
 * Cancels the run and its descendants, waits until they stopped, and forgets them all. Idempotent. A run that the stopping
 * service leaves to its next start cannot be forgotten now: `SHUTTING_DOWN`.
 */
export async function dispose (context: RunsContext, caller: Caller, id: string): Promise<void> {
  const { registry, store } = context
  const { tenant } = caller
  await stopStart(context, caller, id, new CancelReason('dispose', 'the start was cancelled'))
  const { live, starting } = abortTree(context, caller, id, null, 'dispose')
  await Promise.all([...live.map((run) => run.dispose()), ...starting.map((start) => start.over)])
  if (!await store.getRun(tenant, id)) return
  const below = await store.descendants(tenant, id)
  await Promise.all(below.map(async (record) => { await registry.live(tenant, record.id)?.dispose() }))
  const gone = [id, ...below.map((record) => record.id)]
  const open = await Promise.all(gone.map((each) => store.getRun(tenant, each)))
  if (open.some((record) => record && record.status !== 'settled')) throw leftToNextStart(context)
  await Promise.all(gone.map(async (each, i) => {
    const parentId = open[i]?.parentRunId ?? null
    if (parentId !== null) await registry.live(tenant, parentId)?.forget?.(each)
  }))
  at('dispose/stopped')
  await store.deleteRuns(tenant, gone.toReversed())
  at('dispose/deleted')
}

/** Cancels every run under a session, those that are still starting included, and waits for them. */
export async function cancelSessionRuns (context: RunsContext, caller: Caller, sessionId: string): Promise<void> {
  const { starting } = context.registry.descendants(caller.tenant, sessionId)
  for (const start of starting) start.abort(new CancelReason('parent', 'the session was deleted'))
  await Promise.all(starting.map((start) => start.over))
  const runs = await context.store.runsOfSession(caller.tenant, sessionId)
  const told = runs.flatMap((run) => abortTree(context, caller, run.id, 'the session was deleted', 'request').live)
  await Promise.all(told.map((run) => run.stopped))
}
