import { refuse } from '../core/errors.ts'
import type { RelayOptions, RunFilter, RunRecord } from '../core/run.ts'
import type { Caller, RunTree, RunView } from './api.ts'
import { findRun, viewOf, viewsOf, within, type RunsContext } from './context.ts'

export async function list (context: RunsContext, caller: Caller, filter: RunFilter, { limit, cursor }: { limit: number, cursor?: string }): Promise<{ runs: RunView[], nextCursor: string | null }> {
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
export async function wait (context: RunsContext, caller: Caller, id: string, { ms, signal, orWaiting }: Until & { orWaiting: boolean }): Promise<RunView> {
  const live = context.registry.live(caller.tenant, id)
  if (!live) return await viewOf(context, await findRun(context, caller, id))
  const waiting = Promise.withResolvers<undefined>()
  const look = (): void => { if (live.projection.record.status === 'waiting') waiting.resolve(undefined) }
  const stop = orWaiting ? live.onStatus(look) : undefined
  // A status is told once it is durable; the one of this instant may still be on its way.
  if (orWaiting) live.log.durable().then(look, () => {})
  try {
    await within(Promise.race([live.stopped, waiting.promise]), { ms, signal, closing: context.closing })
  } finally {
    stop?.()
  }
  const { record } = live.projection
  return await viewOf(context, record.status === 'settled' ? record : await findRun(context, caller, id))
}

/** Waits until the run and all its descendants have settled. */
export async function waitTree (context: RunsContext, caller: Caller, id: string, { ms, signal }: Until): Promise<RunView> {
  await within(treeStopped(context, caller, id), { ms, signal, closing: context.closing })
  return await viewOf(context, await findRun(context, caller, id))
}

async function treeStopped ({ registry }: RunsContext, { tenant }: Caller, id: string): Promise<void> {
  for (;;) {
    const root = registry.live(tenant, id)
    const open = [...registry.descendants(tenant, id).live, ...(root ? [root] : [])]
    if (open.length === 0) return
    await Promise.all(open.map((run) => run.stopped))
  }
}

export async function relayOptions (context: RunsContext, caller: Caller, id: string): Promise<RelayOptions> {
  const spec = context.registry.live(caller.tenant, id)?.spec ?? await context.store.getSpec(caller.tenant, id)
  if (!spec) throw refuse('RUN_NOT_FOUND', { id })
  return spec.relay
}
