import type { DeltaNews, DeltaPlace } from '../core/deltas.ts'
import type { LiveRun } from '../core/live.ts'
import type { RunRecord, RunStatus } from '../core/run.ts'
import type { Caller, StreamItem } from './api.ts'
import { viewOf, viewsOf, type RunsContext } from './context.ts'
import { createCursors, placeOf, type Place } from './cursor.ts'
import { findEnd, isEnd, sourceOf, type End, type Read, type Source, type SourceState } from './event-sources.ts'
import { goneStream } from './gone.ts'
import { createWakeUp, type News } from './wake-up.ts'

/** Events read at once, and deltas of a run handed out at once: so much of a reader that stalls is in memory, twice. */
const PAGE = { limit: 100, chars: 262_144 }
const DELTAS = 256
const REST = 1024
/**
 * Deltas that follow within a millisecond are sent together. The more readers, the less often each gets some: after so many
 * milliseconds for each reader, more or less by half, so that they do not all come at once.
 */
const GATHERING_MS = 0.3

interface StreamOptions { after?: string, tree: boolean, signal: AbortSignal }
type Stream = { ended: true } | { ended: false, items: AsyncIterable<StreamItem[]> }

/** The run's events from `after` on, live, in batches; the last item is `settled`. Ends early with the signal or the service. */
export async function stream (
  context: RunsContext, caller: Caller, id: string, { after, tree, signal }: StreamOptions
): Promise<Stream> {
  const run = await context.store.getRun(caller.tenant, id)
  if (!run) return goneStream(id, tree, after)
  const place = after === undefined ? undefined : placeOf(id, tree, after)
  const source = sourceOf(context, run, tree)
  if (place && await isOver(source, place)) return { ended: true }
  const reader = new StreamReader(context, source, place?.at ?? source.first)
  return { ended: false, items: reader.items(signal) }
}

/** Whether nothing can follow a place: its cursor was the end's, or an own stream has no more events. */
async function isOver (source: Source, place: Place): Promise<boolean> {
  if (place.end) return true
  return !source.tree && source.run.status === 'settled' && (await source.read(place.at, { limit: 1, chars: 1 })).reads.length === 0
}

interface Batch { items: StreamItem[], /** What is left to hand out. */ more?: News | undefined, last?: boolean }

/**
 * One reader's way through a stream. It holds places, never events: what it was not sent yet is read when it takes more, and
 * of deltas that are no longer there it gets a snapshot (http-api.md 6.4).
 */
class StreamReader {
  readonly #context: RunsContext
  readonly #source: Source
  readonly #run: RunRecord
  readonly #cursorOf: (place: Place) => string
  readonly #witness: LiveRun | undefined
  #at: number
  #end: End | undefined
  /** The status of each run that the reader was last told. */
  readonly #told = new Map<string, RunStatus>()
  /** Of each run, the `seq` up to which the reader has its events. */
  readonly #sent = new Map<string, number>()
  /** The same for a tree's reader that comes again: true once it has all that was logged when it came. */
  #before: readonly (readonly [id: string, seq: number])[] = []
  readonly #places = new Map<string, DeltaPlace | undefined>()
  /** The runs whose deltas are watched. */
  #lives: ReadonlyMap<string, LiveRun> = new Map()
  /** How many read the runs whose deltas were handed out last. */
  #readers = 0

  constructor (context: RunsContext, source: Source, at: number) {
    this.#context = context
    this.#source = source
    this.#run = source.run
    this.#cursorOf = createCursors(source.run.id, source.tree)
    this.#witness = context.registry.live(source.run.tenant, source.run.id)
    this.#at = at
    if (!source.tree) this.#sent.set(source.run.id, at)
  }

  async * items (signal: AbortSignal): AsyncGenerator<StreamItem[]> {
    const wakeUp = createWakeUp([signal, this.#context.closing])
    const stop = this.#source.watch((news) => wakeUp.tell(news))
    wakeUp.tell('log')
    try {
      yield await this.#begin()
      while (!wakeUp.over) {
        const { items, more, last } = wakeUp.take().log ? await this.#fromLog() : this.#fromDeltas()
        if (items.length > 0) yield items
        if (last) return
        if (more) wakeUp.tell(more)
        else wakeUp.gather(this.#readers * GATHERING_MS * (0.5 + Math.random()))
        await wakeUp.next()
      }
    } finally {
      stop()
      wakeUp.close()
    }
  }

  /** The run as it is: the first item of every stream. */
  async #begin (): Promise<StreamItem[]> {
    const lives = this.#source.live()
    this.#join(lives)
    if (this.#source.tree && this.#at > this.#source.first) {
      const before = lives.map((live) => [live.id, live.log.length - 1] as const)
      await Promise.allSettled(lives.map((live) => live.log.durable()))
      this.#before = before
    }
    const record = await this.#context.store.getRun(this.#run.tenant, this.#run.id) ?? this.#run
    this.#told.set(record.id, record.status)
    return [{ type: 'run', run: await viewOf(this.#context, record) }]
  }

  async #fromLog (): Promise<Batch> {
    const state = await this.#source.state()
    const { reads, more } = await this.#source.read(this.#at, PAGE)
    const logged = this.#log(reads)
    const { first, later } = await this.#changes()
    const drained = !more
    if (drained) this.#caughtUp()
    const deltas = this.#fromDeltas()
    const end = drained || this.#end ? await this.#ending(state) : undefined
    const items = [...first, ...logged, ...later, ...deltas.items, ...end ? [end] : []]
    return { items, more: drained ? deltas.more : 'log', last: end !== undefined || (drained && state !== 'open') }
  }

  /** Runs that the reader did not hear of yet, and those of another status than it was last told; each as it is committed. */
  async #changes (): Promise<{ first: StreamItem[], later: StreamItem[] }> {
    const lives = new Map(this.#source.live().map((live) => [live.id, live.projection.record.status]))
    const ids = [...lives].filter(([id, status]) => this.#told.get(id) !== status).map(([id]) => id)
    for (const [id, status] of this.#told) if (status !== 'settled' && !lives.has(id)) ids.push(id)
    const { tenant } = this.#run
    const records = await Promise.all(ids.map((id) => this.#context.store.getRun(tenant, id)))
    const changed = records.filter((record) => record !== undefined && this.#told.get(record.id) !== record.status)
    if (changed.length === 0) return { first: [], later: [] }
    const views = await viewsOf(this.#context, tenant, changed as RunRecord[])
    const known = new Set(this.#told.keys())
    for (const { id, status } of views) {
      if (status === 'settled' && id !== this.#run.id) this.#told.delete(id)
      else this.#told.set(id, status)
    }
    const items = views.map((run): StreamItem & { type: 'run' } => ({ type: 'run', run }))
    return { first: items.filter(({ run }) => !known.has(run.id)), later: items.filter(({ run }) => known.has(run.id)) }
  }

  #log (reads: readonly Read[]): StreamItem[] {
    const items: StreamItem[] = []
    for (const read of reads) {
      const { runId, at, event } = read
      this.#at = at
      if (event.type === 'assistant/message') items.push(...this.#rest(runId))
      this.#sent.set(runId, event.seq)
      if (isEnd(read, this.#run)) this.#end = read
      else items.push({ type: 'event', runId, cursor: this.#cursorOf({ at, end: false }), event, shared: this.#isShared(runId) })
    }
    return items
  }

  /** Whether other readers of this stream's kind get the same objects. */
  #isShared (runId: string): boolean {
    return !this.#source.tree && (this.#lives.get(runId)?.deltas.watchers ?? 0) > 1
  }

  #caughtUp (): void {
    for (const [id, seq] of this.#before) this.#sent.set(id, Math.max(seq, this.#sent.get(id) ?? seq))
    this.#before = []
  }

  #join (lives: readonly LiveRun[]): void {
    this.#lives = new Map(lives.map((live) => [live.id, live]))
    for (const live of lives) if (!this.#places.has(live.id)) this.#places.set(live.id, live.deltas.join())
  }

  /** The deltas that a message ended with, where the reader is not far behind: the message replaces them all. */
  #rest (runId: string): StreamItem[] {
    const live = this.#lives.get(runId)
    const news = live?.deltas.rest(this.#places.get(runId), REST)
    return live && news ? this.#hand(live, news) : []
  }

  #hand (live: LiveRun, { snapshot, deltas, place }: DeltaNews): StreamItem[] {
    if (!this.#hasBeginning(live)) return []
    this.#places.set(live.id, place)
    const shared = live.deltas.watchers > 1
    const items = deltas.map((delta): StreamItem => ({ type: 'delta', runId: live.id, delta, shared }))
    return snapshot ? [{ type: 'snapshot', runId: live.id, snapshot }, ...items] : items
  }

  /** Deltas of messages whose beginning the reader has; what it missed comes as one snapshot. */
  #fromDeltas (): Batch {
    const items: StreamItem[] = []
    let more: News | undefined
    this.#readers = 0
    const lives = this.#source.live()
    this.#join(lives)
    for (const live of lives) {
      const news = live.deltas.since(this.#places.get(live.id), DELTAS)
      const handed = news ? this.#hand(live, news) : []
      if (handed.length === 0) continue
      items.push(...handed)
      if (news?.deltas.length === DELTAS) more = 'deltas'
      this.#readers = Math.max(this.#readers, live.deltas.watchers)
    }
    return { items, more }
  }

  /** Whether the reader has all that was logged before this attempt at a message. */
  #hasBeginning (live: LiveRun): boolean { return live.deltas.after <= (this.#sent.get(live.id) ?? -1) }

  /** The run's `settled`, once all that belongs to the stream was sent: a tree's, when the last descendant settled (6.3). */
  async #ending (state: SourceState): Promise<StreamItem | undefined> {
    const { tree } = this.#source
    const over = state === 'settled' || state === 'gone'
    const end = over || (!tree && this.#end) ? this.#end ?? await findEnd(this.#context, this.#source, this.#witness) : undefined
    if (!end) return undefined
    const { seq, time, data: { result } } = end.event
    const cursor = this.#cursorOf({ at: tree ? this.#at : end.at, end: true })
    return { type: 'settled', runId: this.#run.id, cursor, seq, time, result }
  }
}
