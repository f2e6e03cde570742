import { refuse } from '../core/errors.ts'
import type { RelayOptions, RunFilter, RunRecord } from '../core/run.ts'
import type { Caller, RunTree, RunView } from './api.ts'
import { findRun, viewOf, viewsOf, type RunsContext } from './context.ts'
import { createWakeUp } from './wake-up.ts'

/** A page of the runs that match, newest first. Throws `INVALID_REQUEST` for a cursor that no page gave. */
export async function list (
  context: RunsContext, caller: Caller, filter: RunFilter, { limit, cursor }: { limit: number, cursor?: string }
): Promise<{ runs: RunView[], nextCursor: string | null }> {
  const before = cursor === undefined ? undefined : parseCursor(cursor)
  const found = await context.store.listRuns(caller.tenant, filter, { limit: limit + 1, ...(before ? { before } : {}) })
  const page = found.slice(0, limit)
  const last = page.at(-1)
  return { runs: await viewsOf(context, caller.tenant, page), nextCursor: found.length > limit && last ? cursorOf(last) : null }
}

const cursorOf = ({ createdAt, id }: RunRecord): string => Buffer.from(`${createdAt.toString(36)}.${id}`).toString('base64url')

function parseCursor (cursor: string): { createdAt: number, id: string } {
  const [at = '', id = ''] = Buffer.from(cursor, 'base64url').toString().split(/\.(.*)/s)
  const createdAt = parseInt(at, 36)
  if (!/^[0-9a-z]+$/.test(at) || !Number.isSafeInteger(createdAt) || id === '') {
    const detail = 'cursor is not one that this list gave'
    throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/cursor', detail }] })
  }
  return { createdAt, id }
}

export async function tree (context: RunsContext, caller: Caller, id: string): Promise<RunTree> {
  const root = await findRun(context, caller, id)
  const records = [root, ...await context.store.descendants(caller.tenant, id)]
  const views = await viewsOf(context, caller.tenant, records)
  const nodes = new Map<string, RunTree>(views.map((view) => [view.id, { ...view, children: [] }]))
  for (const node of nodes.values()) {
    if (node.id !== id && node.parentRunId !== null) nodes.get(node.parentRunId)?.children.push(node)
  }
  return nodes.get(id) as RunTree
}

export interface Until { ms: number, signal: AbortSignal }

/** Waits until the run is settled (or, `orWaiting`, waits for its host), or time is up; answers it as it is then. */
export async function wait (
  context: RunsContext, caller: Caller, id: string, { ms, signal, orWaiting }: Until & { orWaiting: boolean }
): Promise<RunView> {
  const { registry, store, closing } = context
  const live = registry.live(caller.tenant, id)
  if (!live) return await viewOf(context, await findRun(context, caller, id))
  const isLive = (): boolean => registry.live(caller.tenant, id) === live
  // A chat between its turns waits for its host, too.
  const waits = (status: string | undefined): boolean => status === 'waiting' || status === 'idle'
  const isWaiting = (): boolean => orWaiting && waits(live.projection.record.status)
  const wakeUp = createWakeUp([signal, closing], ms)
  const look = (): void => { if (!isLive() || isWaiting()) wakeUp.tell('log') }
  const stop = registry.watchRoot(caller.tenant, live.projection.record.rootId, look)
  try {
    while (isLive() && !wakeUp.over) {
      wakeUp.take()
      // The status of this instant may not be committed yet: its commit tells again.
      const record = isWaiting() ? await findRun(context, caller, id) : undefined
      if (record && waits(record.status)) return await viewOf(context, record)
      if (isLive()) await wakeUp.next()
    }
  } finally {
    stop()
    wakeUp.close()
  }
  // A run that was disposed meanwhile is forgotten by the store; who waited gets its result.
  return await viewOf(context, await store.getRun(caller.tenant, id) ?? live.projection.record)
}

/** Waits until the run and all its descendants have settled. */
export async function waitTree (context: RunsContext, caller: Caller, id: string, { ms, signal }: Until): Promise<RunView> {
  const { registry, closing } = context
  const { rootId } = await findRun(context, caller, id)
  const wakeUp = createWakeUp([signal, closing], ms)
  const stop = registry.watchRoot(caller.tenant, rootId, () => wakeUp.tell('log'))
  try {
    while (!wakeUp.over) {
      wakeUp.take()
      const { live, starting } = registry.descendants(caller.tenant, id)
      if (live.length + starting.length === 0 && !registry.live(caller.tenant, id)) break
      await Promise.race([wakeUp.next(), ...starting.map((start) => start.over)])
    }
  } finally {
    stop()
    wakeUp.close()
  }
  return await viewOf(context, await findRun(context, caller, id))
}

export async function relayOptions (context: RunsContext, caller: Caller, id: string): Promise<RelayOptions> {
  const spec = context.registry.live(caller.tenant, id)?.spec ?? await context.store.getSpec(caller.tenant, id)
  if (!spec) throw refuse('RUN_NOT_FOUND', { id })
  return spec.relay
}
