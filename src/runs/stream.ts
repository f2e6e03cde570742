import type { DeltaPlace } from '../core/deltas.ts'
import type { SessionEvent } from '../core/events.ts'
import type { LiveRun } from '../core/live.ts'
import type { RunRecord } from '../core/run.ts'
import type { Caller, EventPage, StreamItem } from './api.ts'
import { findRun, viewOf, within, type RunsContext } from './context.ts'
import { cursorOf, placeOf, type Place } from './cursor.ts'

/** Events read at once. */
const PAGE = 500

interface Read { runId: string, at: number, event: SessionEvent }

/** One reader's way through a run's events: its own log, or the tree's in the one order of the store (http-api.md §6). */
interface Source {
  /** Where a reader without cursor begins. */
  readonly first: number
  read (after: number, limit: number): Promise<Read[]>
  /** Live runs whose deltas belong to the stream. */
  live (): LiveRun[]
  /** Whether something can still be appended to it. */
  open (): boolean
  /** Told when there may be more to read. */
  watch (wake: () => void): () => void
}

function ownSource ({ store, registry }: RunsContext, run: RunRecord): Source {
  const live = registry.live(run.tenant, run.id)
  return {
    first: run.firstSeq - 1,
    async read (after, limit) {
      const events = await store.readEvents(run.segment, after + 1, undefined, limit)
      const end = events.findIndex((event) => event.type === 'run/settled' && event.data.runId === run.id)
      return (end === -1 ? events : events.slice(0, end + 1)).map((event) => ({ runId: run.id, at: event.seq, event }))
    },
    live: () => live ? [live] : [],
    open: () => registry.live(run.tenant, run.id) !== undefined,
    watch (wake) {
      const stops = live ? [live.log.observe(wake), live.onStatus(wake), live.deltas.onChange(wake)] : []
      live?.stopped.then(wake, wake)
      return () => { for (const stop of stops) stop() }
    }
  }
}

function treeSource ({ store, registry }: RunsContext, run: RunRecord): Source {
  const lives = (): LiveRun[] => {
    const root = registry.live(run.tenant, run.id)
    return [...root ? [root] : [], ...registry.descendants(run.tenant, run.id).live]
  }
  return {
    first: 0,
    read: async (after, limit) =>
      (await store.readTree(run.tenant, run.id, after, limit)).map(({ runId, pos, event }) => ({ runId, at: pos, event })),
    live: lives,
    open: () => lives().length > 0,
    watch (wake) {
      const deltas = new Map<LiveRun, () => void>()
      const follow = (): void => {
        for (const live of lives()) if (!deltas.has(live)) deltas.set(live, live.deltas.onChange(wake))
        wake()
      }
      const stop = registry.watchRoot(run.tenant, run.rootId, follow)
      follow()
      return () => { stop(); for (const unfollow of deltas.values()) unfollow() }
    }
  }
}

const isEnd = ({ event }: Read, run: RunRecord): boolean => event.type === 'run/settled' && event.data.runId === run.id

/** The run's events from `after` on, live, in batches; the last item is `settled`. Ends early with the signal or the service. */
export async function stream (context: RunsContext, caller: Caller, id: string, options: { after?: string, tree: boolean, signal: AbortSignal }): Promise<{ ended: true } | { ended: false, items: AsyncIterable<StreamItem[]> }> {
  const run = await findRun(context, caller, id)
  const place = options.after === undefined ? undefined : placeOf(id, options.tree, options.after)
  const source = (options.tree ? treeSource : ownSource)(context, run)
  if (place && await isOver(source, run, place)) return { ended: true }
  const reader = new StreamReader(context, run, source, { tree: options.tree, at: place?.at ?? source.first, resumed: place !== undefined })
  return { ended: false, items: reader.items(options.signal) }
}

/** Whether nothing can follow a place: its cursor was the end's, or an own cursor stands on the run's `settled`. */
async function isOver (source: Source, run: RunRecord, place: Place): Promise<boolean> {
  if (place.end) return true
  if (run.status !== 'settled' || source.first !== run.firstSeq - 1) return false
  return (await source.read(place.at, 1)).length === 0
}

class StreamReader {
  readonly #context: RunsContext
  readonly #run: RunRecord
  readonly #source: Source
  readonly #tree: boolean
  #at: number
  #status: string | undefined
  /** Last place in each live run's message, and the last step whose start was sent. */
  readonly #places = new Map<string, DeltaPlace>()
  readonly #steps = new Map<string, number>()
  readonly #resumed: boolean
  #held: Read | undefined

  constructor (context: RunsContext, run: RunRecord, source: Source, from: { tree: boolean, at: number, resumed: boolean }) {
    this.#context = context
    this.#run = run
    this.#source = source
    this.#tree = from.tree
    this.#at = from.at
    this.#resumed = from.resumed
  }

  async * items (signal: AbortSignal): AsyncGenerator<StreamItem[]> {
    let wake = Promise.withResolvers<undefined>()
    let woken = false
    const stop = this.#source.watch(() => { woken = true; wake.resolve(undefined) })
    const { closing } = this.#context
    try {
      yield await this.#runItem()
      while (!signal.aborted && !closing.aborted) {
        woken = false
        wake = Promise.withResolvers()
        const open = this.#source.open()
        const reads = await this.#source.read(this.#at, PAGE)
        const batch = [...await this.#changes(), ...this.#log(reads), ...this.#deltas()]
        const end = reads.length < PAGE && !open ? await this.#end(reads) : undefined
        if (end) batch.push(end)
        if (batch.length > 0) yield batch
        if (end || (!open && reads.length === 0)) return
        if (reads.length === PAGE || woken || !open) continue
        await within(wake.promise, { ms: 2 ** 31 - 1, signal, closing })
      }
    } finally {
      stop()
    }
  }

  async #runItem (): Promise<StreamItem[]> {
    const record = await this.#context.store.getRun(this.#run.tenant, this.#run.id) ?? this.#run
    this.#status = record.status
    return [{ type: 'run', run: await viewOf(this.#context, record) }]
  }

  /** The run as it is, where its status is another than the reader was last told. */
  async #changes (): Promise<StreamItem[]> {
    const live = this.#source.live()[0]
    if (live?.id !== this.#run.id || live.projection.record.status === this.#status) return []
    const record = await this.#context.store.getRun(this.#run.tenant, this.#run.id)
    return record && record.status !== this.#status && record.status !== 'settled' ? await this.#runItem() : []
  }

  #log (reads: readonly Read[]): StreamItem[] {
    const items: StreamItem[] = []
    for (const read of reads) {
      const { runId, at, event } = read
      this.#at = at
      if (event.type === 'step/start') this.#steps.set(runId, event.data.step)
      if (isEnd(read, this.#run)) this.#held = read
      else items.push({ type: 'event', runId, cursor: cursorOf(this.#run.id, this.#tree, { at, end: false }), event })
    }
    return items
  }

  /** Deltas of messages whose step the reader knows; what it missed comes as one snapshot. */
  #deltas (): StreamItem[] {
    return this.#source.live().flatMap((live) => {
      const news = live.deltas.since(this.#places.get(live.id))
      const known = this.#steps.get(live.id) ?? (this.#resumed ? news?.place.step : undefined)
      if (!news || known !== news.place.step) return []
      this.#places.set(live.id, news.place)
      const deltas: StreamItem[] = news.deltas.map((delta) => ({ type: 'delta', runId: live.id, delta }))
      return news.snapshot ? [{ type: 'snapshot', runId: live.id, snapshot: news.snapshot }, ...deltas] : deltas
    })
  }

  /** The run's `settled`, once all that belongs to the stream has been sent; a tree holds it until the last descendant settled. */
  async #end (reads: readonly Read[]): Promise<StreamItem | undefined> {
    const held = this.#held ?? (this.#tree && reads.length === 0 ? await this.#settledBefore() : undefined)
    if (held?.event.type !== 'run/settled') return undefined
    const { seq, time, data: { result } } = held.event
    const cursor = cursorOf(this.#run.id, this.#tree, { at: Math.max(held.at, this.#at), end: true })
    return { type: 'settled', runId: this.#run.id, cursor, seq, time, result }
  }

  /** The root's `settled` for a reader whose cursor is past it, but who was never sent it. */
  async #settledBefore (): Promise<Read | undefined> {
    const record = await this.#context.store.getRun(this.#run.tenant, this.#run.id)
    if (record?.status !== 'settled') return undefined
    for (let from = record.firstSeq; ;) {
      const events = await this.#context.store.readEvents(record.segment, from, undefined, PAGE)
      const event = events.find((each) => each.type === 'run/settled' && each.data.runId === record.id)
      if (event) return { runId: record.id, at: this.#at, event }
      if (events.length < PAGE) return undefined
      from += events.length
    }
  }
}

export interface PageOptions { after?: string, tree: boolean, limit: number, waitMs: number, signal: AbortSignal }

/** A page of the log after `after`; waits up to `waitMs` for a first event (http-api.md 6.6). */
export async function eventPage (context: RunsContext, caller: Caller, id: string, { after, tree, limit, waitMs, signal }: PageOptions): Promise<EventPage> {
  const run = await findRun(context, caller, id)
  const source = (tree ? treeSource : ownSource)(context, run)
  const place = after === undefined ? { at: source.first, end: false } : placeOf(id, tree, after)
  let wake = Promise.withResolvers<undefined>()
  const stop = source.watch(() => wake.resolve(undefined))
  const until = context.now() + waitMs
  try {
    for (;;) {
      wake = Promise.withResolvers()
      const open = source.open()
      const reads = place.end ? [] : await source.read(place.at, limit)
      const left = until - context.now()
      if (reads.length > 0 || !open || left <= 0 || signal.aborted || context.closing.aborted) {
        return pageOf(run, tree, after ?? null, reads, !open && reads.length < limit)
      }
      await within(wake.promise, { ms: left, signal, closing: context.closing })
    }
  } finally {
    stop()
  }
}

function pageOf (run: RunRecord, tree: boolean, after: string | null, reads: readonly Read[], settled: boolean): EventPage {
  const last = reads.at(-1)
  return {
    events: reads.map((read) => {
      const { runId, event: { seq, time, type, data } } = read
      return read.event.type === 'run/settled' ? { runId, seq, time, type: 'settled', data: read.event.data.result } : { runId, seq, time, type, data }
    }),
    after: last ? cursorOf(run.id, tree, { at: last.at, end: settled }) : after,
    settled
  }
}
