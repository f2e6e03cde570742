import type { LiveRun } from '../core/live.ts'
import type { CancelReason } from '../core/live.ts'

/** A start that is not published yet. */
export interface StartingRun { tenant: string, id: string, parentRunId: string | null, abort (reason: CancelReason): void }

/** What this process executes right now: starts under way, and live runs from their announcement to their release. */
export interface Registry {
  begin (start: StartingRun): void
  /** The start is over: published (and announced) or refused. */
  end (start: StartingRun): void
  announce (run: LiveRun): void
  retire (run: LiveRun): void
  starting (tenant: string, id: string): StartingRun | undefined
  live (tenant: string, id: string): LiveRun | undefined
  liveRuns (tenant?: string): LiveRun[]
  count (tenant: string): number
  /** Live descendants, children before their parents, and starts whose parent is the run or among them (driver.md 5.2). */
  descendants (tenant: string, id: string): { live: LiveRun[], starting: StartingRun[] }
  /** Told after each commit, status change or arrival of a run under this root. */
  watchRoot (tenant: string, rootId: string, listener: () => void): () => void
}

interface Tenant {
  starting: Map<string, StartingRun>
  live: Map<string, LiveRun>
  children: Map<string, Set<string>>
  watchers: Map<string, Set<() => void>>
}

export function createRegistry (): Registry {
  const tenants = new Map<string, Tenant>()
  const stops = new WeakMap<LiveRun, () => void>()
  const of = (tenant: string): Tenant => {
    let found = tenants.get(tenant)
    if (!found) tenants.set(tenant, found = { starting: new Map(), live: new Map(), children: new Map(), watchers: new Map() })
    return found
  }
  const link = (parent: string | null, id: string, { children }: Tenant): void => {
    if (parent === null) return
    const set = children.get(parent)
    if (set) set.add(id)
    else children.set(parent, new Set([id]))
  }
  const unlink = (parent: string | null, id: string, { children }: Tenant): void => {
    if (parent === null) return
    const set = children.get(parent)
    set?.delete(id)
    if (set?.size === 0) children.delete(parent)
  }
  return {
    begin (start) {
      const tenant = of(start.tenant)
      tenant.starting.set(start.id, start)
      link(start.parentRunId, start.id, tenant)
    },
    end (start) {
      const tenant = of(start.tenant)
      if (tenant.starting.get(start.id) !== start) return
      tenant.starting.delete(start.id)
      if (!tenant.live.has(start.id)) unlink(start.parentRunId, start.id, tenant)
    },
    announce (run) {
      const tenant = of(run.tenant)
      const { rootId, parentRunId } = run.projection.record
      tenant.live.set(run.id, run)
      link(parentRunId, run.id, tenant)
      const poke = (): void => { for (const listener of tenant.watchers.get(rootId) ?? []) listener() }
      const unobserve = run.log.observe(poke)
      const unstatus = run.onStatus(poke)
      stops.set(run, () => { unobserve(); unstatus(); poke() })
      poke()
    },
    retire (run) {
      const tenant = of(run.tenant)
      if (tenant.live.get(run.id) === run) tenant.live.delete(run.id)
      unlink(run.projection.record.parentRunId, run.id, tenant)
      stops.get(run)?.()
      stops.delete(run)
    },
    starting: (tenant, id) => tenants.get(tenant)?.starting.get(id),
    live: (tenant, id) => tenants.get(tenant)?.live.get(id),
    liveRuns: (tenant) => tenant === undefined
      ? [...tenants.values()].flatMap(({ live }) => [...live.values()])
      : [...tenants.get(tenant)?.live.values() ?? []],
    count: (tenant) => (tenants.get(tenant)?.live.size ?? 0) + (tenants.get(tenant)?.starting.size ?? 0),
    descendants: (tenant, id) => descend(tenants.get(tenant), id),
    watchRoot (tenant, rootId, listener) {
      const { watchers } = of(tenant)
      const set = watchers.get(rootId) ?? new Set()
      watchers.set(rootId, set.add(listener))
      return () => {
        set.delete(listener)
        if (set.size === 0 && watchers.get(rootId) === set) watchers.delete(rootId)
      }
    }
  }
}

function descend (tenant: Tenant | undefined, id: string): { live: LiveRun[], starting: StartingRun[] } {
  const found: { live: LiveRun[], starting: StartingRun[] } = { live: [], starting: [] }
  const visit = (parent: string): void => {
    for (const child of tenant?.children.get(parent) ?? []) {
      visit(child)
      const live = tenant?.live.get(child)
      const starting = tenant?.starting.get(child)
      if (live) found.live.push(live)
      else if (starting) found.starting.push(starting)
    }
  }
  visit(id)
  return found
}
