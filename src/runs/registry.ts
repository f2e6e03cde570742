import type { CancelReason, LiveRun } from '../core/live.ts'
import type { Store } from '../core/store.ts'

/** A start that is not published yet. */
export interface StartingRun {
  readonly tenant: string
  readonly id: string
  /** The run or the session that it names as its parent. */
  readonly parentId: string | null
  /** Its publication is with the store: from here on only the published run can be cancelled. */
  readonly publishing: boolean
  /** Resolves once it is published and announced, or refused. Never rejects. */
  readonly over: Promise<unknown>
  abort (reason: CancelReason): void
  /** Told when its publication is handed to the store. */
  onPublish (): void
}

/** Where a run stands in its tree. */
export interface TreePlace { id: string, parentRunId: string | null, rootId: string }

/** What this process executes right now: starts under way, and live runs from their announcement to their release. */
export interface Registry {
  begin (start: StartingRun): void
  /** The start is over: published (and announced) or refused. */
  end (start: StartingRun): void
  /** The start belongs to this tree, which is kept until the start is over. */
  join (start: StartingRun, rootId: string): void
  /** Notes a run that is not live as a link to its ancestors, while anything of its tree is live. False: it was known. */
  remember (tenant: string, place: TreePlace): boolean
  announce (run: LiveRun): void
  retire (run: LiveRun): void
  starting (tenant: string, id: string): StartingRun | undefined
  startingRuns (): StartingRun[]
  live (tenant: string, id: string): LiveRun | undefined
  liveRuns (tenant?: string): LiveRun[]
  /** Open runs of a tenant, or of all, those that are still starting included; not those that were only seen in an external chat. */
  count (tenant?: string): number
  /**
   * Live descendants, children before their parents, also below settled ones; and starts whose parent is the run or among them
   * (driver.md 5.2).
   */
  descendants (tenant: string, id: string): { live: LiveRun[], starting: StartingRun[] }
  /** Told after each commit, status change or arrival of a run under this root. */
  watchRoot (tenant: string, rootId: string, listener: () => void): () => void
}

/** The links of one tree; forgotten when nothing of it is live or starting. */
interface Tree { open: number, /** Each node's parent. */ nodes: Map<string, string | null>, children: Map<string, Set<string>> }

interface Tenant {
  /** How many of the live runs are children of external chats. */
  seen: number
  starting: Map<string, StartingRun>
  /** Starts by the parent they name. */
  under: Map<string, Set<StartingRun>>
  live: Map<string, LiveRun>
  trees: Map<string, Tree>
  /** The tree of each node. */
  treeOf: Map<string, Tree>
  watchers: Map<string, Set<() => void>>
}

type Tenants = (name: string) => Tenant

export function createRegistry (): Registry {
  const tenants = new Map<string, Tenant>()
  const of: Tenants = (name) => {
    let tenant = tenants.get(name)
    if (!tenant) {
      tenant = {
        seen: 0, starting: new Map(), under: new Map(), live: new Map(), trees: new Map(), treeOf: new Map(), watchers: new Map()
      }
      tenants.set(name, tenant)
    }
    return tenant
  }
  return {
    ...createStarts(of),
    ...createLives(of),
    starting: (name, id) => tenants.get(name)?.starting.get(id),
    startingRuns: () => [...tenants.values()].flatMap(({ starting }) => [...starting.values()]),
    live: (name, id) => tenants.get(name)?.live.get(id),
    liveRuns: (name) => name === undefined
      ? [...tenants.values()].flatMap(({ live }) => [...live.values()])
      : [...tenants.get(name)?.live.values() ?? []],
    count (name) {
      let count = 0
      for (const { live, seen, starting } of name === undefined ? tenants.values() : [of(name)]) count += live.size - seen + starting.size
      return count
    },
    descendants: (name, id) => descend(tenants.get(name), id),
    watchRoot (name, rootId, listener) {
      const { watchers } = of(name)
      addTo(watchers, rootId, listener)
      return () => removeFrom(watchers, rootId, listener)
    }
  }
}

function createStarts (of: Tenants): Pick<Registry, 'begin' | 'end' | 'join' | 'remember'> {
  const joined = new Map<StartingRun, string>()
  return {
    begin (start) {
      const tenant = of(start.tenant)
      tenant.starting.set(start.id, start)
      if (start.parentId !== null) addTo(tenant.under, start.parentId, start)
    },
    end (start) {
      const tenant = of(start.tenant)
      if (tenant.starting.get(start.id) === start) tenant.starting.delete(start.id)
      if (start.parentId !== null) removeFrom(tenant.under, start.parentId, start)
      const rootId = joined.get(start)
      if (joined.delete(start) && rootId !== undefined) leaveTree(tenant, rootId)
    },
    join (start, rootId) {
      joined.set(start, rootId)
      enterTree(of(start.tenant), rootId)
    },
    remember (name, { id, parentRunId, rootId }) {
      const tenant = of(name)
      const tree = tenant.trees.get(rootId)
      return tree !== undefined && link(tenant, tree, id, parentRunId)
    }
  }
}

const isSeen = ({ spec }: LiveRun): boolean => spec.external?.way === 'child'

function createLives (of: Tenants): Pick<Registry, 'announce' | 'retire'> {
  const stops = new WeakMap<LiveRun, () => void>()
  return {
    announce (run) {
      const tenant = of(run.tenant)
      const { rootId, parentRunId } = run.projection.record
      // The start that made it may not be over yet: it is one run all the same.
      tenant.starting.delete(run.id)
      tenant.live.set(run.id, run)
      if (isSeen(run)) tenant.seen++
      link(tenant, enterTree(tenant, rootId), run.id, parentRunId)
      const poke = (): void => { for (const listener of tenant.watchers.get(rootId) ?? []) listener() }
      const unobserve = run.log.observe(poke)
      const unstatus = run.onStatus(poke)
      stops.set(run, () => { unobserve(); unstatus(); poke() })
      poke()
    },
    retire (run) {
      const tenant = of(run.tenant)
      if (tenant.live.get(run.id) !== run) return
      tenant.live.delete(run.id)
      if (isSeen(run)) tenant.seen--
      leaveTree(tenant, run.projection.record.rootId)
      stops.get(run)?.()
      stops.delete(run)
    }
  }
}

/** The store, which tells the start that a publication belongs to when it gets one. */
export const tellingStarts = (store: Store, registry: Pick<Registry, 'starting'>): Store => ({
  ...store,
  publish (publication) {
    registry.starting(publication.run.tenant, publication.run.id)?.onPublish()
    return store.publish(publication)
  }
})

function addTo<K, V> (sets: Map<K, Set<V>>, key: K, value: V): void {
  const set = sets.get(key)
  if (set) set.add(value)
  else sets.set(key, new Set([value]))
}

function removeFrom<K, V> (sets: Map<K, Set<V>>, key: K, value: V): void {
  const set = sets.get(key)
  if (set?.delete(value) && set.size === 0) sets.delete(key)
}

function enterTree ({ trees }: Tenant, rootId: string): Tree {
  const tree = trees.get(rootId) ?? { open: 0, nodes: new Map(), children: new Map() }
  trees.set(rootId, tree)
  tree.open++
  return tree
}

function leaveTree ({ trees, treeOf }: Tenant, rootId: string): void {
  const tree = trees.get(rootId)
  if (!tree || --tree.open > 0) return
  trees.delete(rootId)
  for (const id of tree.nodes.keys()) if (treeOf.get(id) === tree) treeOf.delete(id)
}

function link ({ treeOf }: Tenant, tree: Tree, id: string, parentRunId: string | null): boolean {
  const known = tree.nodes.get(id)
  if (known === parentRunId) return false
  // An id that was free again after its run was forgotten.
  if (known) removeFrom(tree.children, known, id)
  tree.nodes.set(id, parentRunId)
  treeOf.set(id, tree)
  if (parentRunId !== null) addTo(tree.children, parentRunId, id)
  return true
}

function descend (tenant: Tenant | undefined, id: string): { live: LiveRun[], starting: StartingRun[] } {
  const found: { live: LiveRun[], starting: StartingRun[] } = { live: [], starting: [] }
  if (!tenant) return found
  const tree = tenant.treeOf.get(id)
  const visit = (parent: string): void => {
    found.starting.push(...tenant.under.get(parent) ?? [])
    for (const child of tree?.children.get(parent) ?? []) {
      visit(child)
      const live = tenant.live.get(child)
      if (live) found.live.push(live)
    }
  }
  visit(id)
  return found
}
