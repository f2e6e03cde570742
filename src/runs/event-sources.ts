import type { SessionEvent, SessionEventOf } from '../core/events.ts'
import type { LiveRun } from '../core/live.ts'
import type { RunRecord } from '../core/run.ts'
import type { Page, PageSize } from '../core/store.ts'
import type { RunsContext } from './context.ts'
import type { News } from './wake-up.ts'

/** One event and where it stands in its stream. */
export interface Read { runId: string, at: number, event: SessionEvent }
export type End = Read & { event: SessionEventOf<'run/settled'> }

export type SourceState = 'open' | 'settled' | 'left' | 'gone'

/** A run's events: its own log, or its tree's in the one order of the store (http-api.md §6). */
export interface Source {
  readonly run: RunRecord
  readonly tree: boolean
  /** Where a reader without cursor begins. */
  readonly first: number
  /** Events after a place, in order; `more`: there may be others after them. */
  read (after: number, size: PageSize): Promise<{ reads: Read[], more: boolean }>
  /** Live runs that belong to the stream; their deltas are watched from here on. Once told of some, ask again before reading them. */
  live (): LiveRun[]
  /**
   * `open`: more may come. `settled`: all that belongs to it has settled, so that what a read then finds is all. `left`: what
   * is open is left to the next start of the service. `gone`: the run is forgotten.
   */
  state (): Promise<SourceState>
  /** Told when there may be more. Returns the way to stop. */
  watch (wake: (news: News) => void): () => void
}

export const sourceOf = (context: RunsContext, run: RunRecord, tree: boolean): Source =>
  tree ? treeSource(context, run) : ownSource(context, run)

/** The `run/settled` of the run that the stream is of. */
export const isEnd = (read: Read, run: RunRecord): read is End =>
  read.event.type === 'run/settled' && read.event.data.runId === run.id

function ownSource ({ store, registry }: RunsContext, run: RunRecord): Source {
  const current = (): LiveRun[] => {
    const live = registry.live(run.tenant, run.id)
    return live ? [live] : []
  }
  const followed = createFollowed(current)
  return {
    run,
    tree: false,
    first: run.firstSeq - 1,
    async read (after, size) {
      const [live] = current()
      // A commit under way is waited for: the run's row in the store may tell of it already.
      await live?.log.durable()
      const inMemory = live?.log.committedFrom(after + 1, size.limit)
      const { events, more } = inMemory ? cut(inMemory, size) : await store.readEventPage(run.segment, after + 1, size)
      const end = events.findIndex((event) => event.type === 'run/settled' && event.data.runId === run.id)
      const own = end === -1 ? events : events.slice(0, end + 1)
      return { reads: own.map((event) => ({ runId: run.id, at: event.seq, event })), more: more && end === -1 }
    },
    live: followed.live,
    async state () {
      if (current().length > 0) return 'open'
      const record = await store.getRun(run.tenant, run.id)
      return record ? stateOf([record]) : 'gone'
    },
    watch (wake) {
      let seen: LiveRun | undefined
      let stops: (() => void)[] = []
      const leave = (): void => { for (const stop of stops) stop() }
      // Of the tree's news only the arrival and the end of this run matter; its own are told by itself.
      const look = (): void => {
        const [live] = current()
        if (live === seen) return
        leave()
        seen = live
        stops = live ? [live.log.observe(() => wake('log')), live.onStatus(() => wake('log'))] : []
        wake('log')
      }
      const unwatch = registry.watchRoot(run.tenant, run.rootId, look)
      const unfollow = followed.watch(wake)
      look()
      return () => { unwatch(); unfollow(); leave() }
    }
  }
}

function treeSource ({ store, registry }: RunsContext, run: RunRecord): Source {
  const current = (): LiveRun[] => {
    const root = registry.live(run.tenant, run.id)
    return [...root ? [root] : [], ...registry.descendants(run.tenant, run.id).live]
  }
  const followed = createFollowed(current)
  return {
    run,
    tree: true,
    first: 0,
    async read (after, size) {
      const { events, more } = await store.readTreePage(run.tenant, run.id, after, size)
      return { reads: events.map(({ runId, pos, event }) => ({ runId, at: pos, event })), more }
    },
    live: followed.live,
    async state () {
      if (current().length > 0) return 'open'
      const root = await store.getRun(run.tenant, run.id)
      return root ? stateOf([root, ...await store.descendants(run.tenant, run.id)]) : 'gone'
    },
    watch (wake) {
      const unwatch = registry.watchRoot(run.tenant, run.rootId, () => wake('log'))
      const unfollow = followed.watch(wake)
      return () => { unwatch(); unfollow() }
    }
  }
}

/** Of events that are in memory a page: nothing is copied of them, but what a reader is sent is. */
function cut (events: SessionEvent[], { limit, chars }: PageSize): Page<SessionEvent> {
  let room = chars
  const end = events.findIndex((event) => (room -= charsIn(event.data)) <= 0)
  return end === -1 ? { events, more: events.length >= limit } : { events: events.slice(0, end + 1), more: true }
}

/** About how long the text of a value is. */
function charsIn (value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  let sum = 0
  for (const [key, member] of Object.entries(value)) sum += key.length + 4 + charsIn(member)
  return sum
}

/** Of runs that nobody executes. */
const stateOf = (records: readonly RunRecord[]): SourceState =>
  records.every(({ status }) => status === 'settled') ? 'settled' : 'left'

/** Watches the deltas of the runs that are live now, of each from the first time that it is seen. */
function createFollowed (current: () => LiveRun[]): Pick<Source, 'live' | 'watch'> {
  const stops = new Map<LiveRun, () => void>()
  let wake: (() => void) | undefined
  const live = (): LiveRun[] => {
    const runs = current()
    if (!wake) return runs
    for (const run of runs) {
      if (stops.has(run)) run.deltas.again(wake)
      else stops.set(run, run.deltas.onChange(wake, true))
    }
    if (stops.size === runs.length) return runs
    const still = new Set(runs)
    for (const [run, stop] of stops) {
      if (still.has(run)) continue
      stop()
      stops.delete(run)
    }
    return runs
  }
  return {
    live,
    watch (tell) {
      wake = () => tell('deltas')
      return () => {
        wake = undefined
        for (const stop of stops.values()) stop()
        stops.clear()
      }
    }
  }
}

/** Events looked through at once. */
const PAGE = 500

/**
 * The run's `settled`, for a reader whose place is past it. A disposed run may be forgotten before its reader came to the end:
 * `witness`, its live run of then, still has it.
 */
export async function findEnd ({ store }: RunsContext, { run }: Source, witness?: LiveRun): Promise<End | undefined> {
  const ofLog = (events: readonly SessionEvent[]): End | undefined => {
    const event = events.find((each) => each.type === 'run/settled' && each.data.runId === run.id)
    return event?.type === 'run/settled' ? { runId: run.id, at: event.seq, event } : undefined
  }
  if (!await store.getRun(run.tenant, run.id)) return witness && ofLog(witness.log.own)
  for (let from = run.firstSeq; ;) {
    const events = await store.readEvents(run.segment, from, undefined, PAGE)
    const end = ofLog(events)
    if (end || events.length < PAGE) return end
    from += events.length
  }
}
