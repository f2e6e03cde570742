import type { EventMap, EventType, NewEvent, SessionEvent, SessionHeader } from './events.ts'
import { at } from './fault-point.ts'
import { plainJsonFault } from './json.ts'
import { completedLength, completedTurns } from './prefix.ts'

/** Writes events durably, in the order of the calls. Rejects when the store is lost; then nothing after it was written. */
export type Commit = (events: readonly SessionEvent[]) => Promise<void>
export type LogObserver = (events: readonly SessionEvent[]) => void

/** Events that are not in memory: how many, how many of them stand in completed turns, and how many turns those are. */
export interface StoredEvents { length: number, completedLength: number, turns: number }

export interface SessionLogOptions {
  header: SessionHeader
  /** Events inherited by reference (driver.md 3.7): never written again, never changed. */
  seed?: readonly SessionEvent[]
  /** In place of `seed`: what it will be once `attachSeed` brings it. Appending needs only this much. */
  laterSeed?: { length: number, turns: number }
  /** Own events that the store holds already, after the seed. */
  own?: SessionEvent[]
  /** Own events before those, in the store alone. */
  stored?: StoredEvents
  /** About so many committed own events stay in memory; absent: all. For a log that no model reads. */
  keep?: number
  commit: Commit
  now: () => number
  /** Told when an observer threw; the append it watched stands. */
  onObserverFault: (error: unknown) => void
}

/**
 * The only truth about a conversation (driver.md §2): immutable header, append-only events. An append is in this
 * object's fold at once and in the store before any observer hears of it.
 */
export class SessionLog implements Iterable<SessionEvent> {
  readonly header: SessionHeader
  #seed: readonly SessionEvent[] | undefined
  readonly seedLength: number
  readonly #seedTurns: number
  readonly #own: SessionEvent[]
  readonly #options: SessionLogOptions
  readonly #observers = new Set<LogObserver>()
  #pending: SessionEvent[] = []
  #durable: Promise<void> = Promise.resolve()
  #lost = false
  /** How many of the own events in memory are in the store, too. */
  #committed: number
  /** Own events before those in memory. */
  #stored: StoredEvents

  constructor (options: SessionLogOptions) {
    this.header = options.header
    this.#seed = options.laterSeed && options.laterSeed.length > 0 ? undefined : options.seed ?? []
    this.seedLength = options.laterSeed?.length ?? options.seed?.length ?? 0
    this.#seedTurns = options.laterSeed?.turns ?? completedTurns(options.seed ?? [])
    this.#own = options.own ?? []
    this.#committed = this.#own.length
    this.#stored = options.stored ?? { length: 0, completedLength: 0, turns: 0 }
    this.#options = options
  }

  /** Those in memory: all of them, unless the log keeps only its end. */
  get own (): readonly SessionEvent[] { return this.#own }
  get length (): number { return this.#first + this.#own.length }
  /** Place of the first own event in memory. */
  get #first (): number { return this.seedLength + this.#stored.length }
  get seed (): readonly SessionEvent[] {
    if (!this.#seed) throw new Error('the seed of this log is not attached yet')
    return this.#seed
  }

  get completedLength (): number {
    const own = completedLength(this.#own)
    if (own > 0) return this.#first + own
    if (this.#stored.completedLength > 0) return this.seedLength + this.#stored.completedLength
    return this.#seed ? completedLength(this.#seed) : this.seedLength
  }

  get completedTurns (): number {
    return completedTurns(this.#own) || this.#stored.turns || this.#seedTurns
  }

  /** Brings the inherited events, once; their number was given before. */
  attachSeed (events: readonly SessionEvent[]): void {
    if (events.length !== this.seedLength) throw new Error(`a seed of ${this.seedLength} events came with ${events.length}`)
    this.#seed = events
  }

  * [Symbol.iterator] (): IterableIterator<SessionEvent> {
    if (this.#stored.length > 0) throw new Error('the beginning of this log is not in memory')
    yield * this.seed
    yield * this.#own
  }

  /** Adds one event. Throws `TypeError`, and leaves the log untouched, when the data is not plain JSON. */
  append<T extends EventType> (type: T, data: EventMap[T]): SessionEvent {
    const fault = plainJsonFault(data)
    if (fault) throw new TypeError(`${type} at "${fault.pointer}": ${fault.reason}`)
    const event = { type, seq: this.length, time: this.#options.now(), data } as SessionEvent
    this.#own.push(event)
    this.#pending.push(event)
    if (this.#pending.length === 1) this.#schedule()
    return event
  }

  appendAll (events: readonly NewEvent[]): void {
    for (const { type, data } of events) this.append(type, data as never)
  }

  /** Resolves once everything appended so far is committed; rejects when it cannot be. */
  durable (): Promise<void> { return this.#durable }

  /** Own events from `seq` on that are in the store, at most `limit`; `undefined` where some of them are not in memory, or the seed's. */
  committedFrom (seq: number, limit: number): SessionEvent[] | undefined {
    const from = seq - this.#first
    return from < 0 ? undefined : this.#own.slice(from, Math.min(this.#committed, from + limit))
  }

  /** Observers hear of events after their commit, in order. Returns the way to stop. */
  observe (observer: LogObserver): () => void {
    this.#observers.add(observer)
    return () => { this.#observers.delete(observer) }
  }

  /**
   * Events appended in one tick share a commit. Each commit waits for no other: the store keeps their order. Observers are
   * told in that order too. After a commit that failed nothing more is written or told: a log has no gap.
   */
  #schedule (): void {
    const before = this.#durable
    this.#durable = Promise.resolve().then(async () => {
      const events = this.#pending
      this.#pending = []
      if (this.#lost) return before
      await Promise.all([before, this.#options.commit(events)])
      this.#committed += events.length
      at('events/durable')
      this.#tell(events)
      this.#forget()
    })
    this.#durable.catch(() => { this.#lost = true })
  }

  #forget (): void {
    const { keep } = this.#options
    if (keep === undefined || this.#committed <= 2 * keep) return
    const gone = this.#own.splice(0, this.#committed - keep)
    this.#committed = keep
    const { length, completedLength: completed, turns } = this.#stored
    const more = completedLength(gone)
    this.#stored = {
      length: length + gone.length, completedLength: more > 0 ? length + more : completed, turns: completedTurns(gone) || turns
    }
  }

  #tell (events: readonly SessionEvent[]): void {
    for (const observer of this.#observers) {
      try { observer(events) } catch (error) { this.#options.onObserverFault(error) }
    }
  }
}
