/**
 * The text of the message that a model is writing, for readers that watch live (http-api.md 6.2). Deltas are traffic, not
 * log: a reader holds only its place here, so a slow one costs nothing and gets a snapshot instead of a backlog.
 */
export type DeltaKind = 'text' | 'reasoning' | 'tool-arguments'
export interface Delta { step: number, attempt: number, index: number, kind: DeltaKind, toolCallId?: string, text: string }
export interface SnapshotPart { kind: DeltaKind, toolCallId?: string, text: string }
/** Stands for every delta up to and including `index`; `-1` where none came yet. */
export interface Snapshot { step: number, attempt: number, index: number, parts: SnapshotPart[] }

/** `message`: which one of the feed, counted from 1. */
export interface DeltaPlace { message: number, step: number, attempt: number, index: number }
/** What a reader has not seen, and where it stands then. */
export interface DeltaNews { snapshot?: Snapshot, deltas: readonly Delta[], place: DeltaPlace }

/** Deltas kept singly; a reader further behind gets one snapshot. */
const KEPT = 4096
/** Of a longer message its readers see no more until it is in the log: characters, and how many of them a part counts as, besides its own. */
const MOST_TEXT = 32 * 1024 * 1024
const PART = 64
/** Of a reader that saw no message yet, but will see the next one from its start. */
const BEFORE: DeltaPlace = { message: 0, step: 0, attempt: 0, index: -1 }

export class DeltaFeed {
  #message = 0
  #after = -1
  #step = 0
  #attempt = 0
  #next = 0
  #parts: SnapshotPart[] = []
  #size = 0
  /** The last deltas, singly; kept only while somebody watches. */
  #recent: Delta[] = []
  #open = false
  /** Who watches; `true`: told once for each time that it asks. */
  readonly #wakes = new Map<() => void, boolean>()
  /** Those who are told at the next change. */
  #due = new Set<() => void>()

  /** A model call begins: what an earlier attempt wrote is void. `after`: the place in the log of what came before it. */
  begin (step: number, attempt: number, after = -1): void {
    this.#message++
    this.#after = after
    this.#step = step
    this.#attempt = attempt
    this.#next = 0
    this.#clear()
    this.#open = true
    this.#wake()
  }

  push (kind: DeltaKind, text: string, toolCallId?: string): void {
    if (!this.#open || text === '' || this.#size > MOST_TEXT) return
    this.#size += text.length + PART
    if (this.#size > MOST_TEXT) return
    const call = toolCallId === undefined ? {} : { toolCallId }
    const index = this.#next++
    const last = this.#parts.at(-1)
    if (last && last.kind === kind && last.toolCallId === toolCallId) last.text += text
    else this.#parts.push({ kind, ...call, text })
    if (this.#wakes.size === 0) return
    if (this.#recent.length >= 2 * KEPT) this.#recent = this.#recent.slice(-KEPT)
    this.#recent.push({ step: this.#step, attempt: this.#attempt, index, kind, ...call, text })
    this.#wake()
  }

  /** The message stands in the log now (or never will). Who watches can still have the rest of it until the next one begins. */
  end (): void {
    this.#open = false
    if (this.#wakes.size === 0) this.#clear()
  }

  /** Where a reader that begins to watch now stands: nowhere in mid-message, which it gets as a snapshot; else at its end. */
  join (): DeltaPlace | undefined {
    if (this.#next === 0) return BEFORE
    return this.#open ? undefined : this.#here()
  }

  /**
   * What a reader at `place` has not seen, at most `limit` deltas of it. A reader that comes from another step or attempt
   * gets an empty snapshot first; one that joins in mid-message, or is too far behind, a snapshot of the text so far.
   */
  since (place: DeltaPlace | undefined, limit = Infinity): DeltaNews | undefined {
    if (!this.#open) return undefined
    if (place !== undefined && this.#next - this.#seenBy(place) <= this.#recent.length) return this.#follow(place, limit)
    const here = this.#here()
    return { snapshot: this.#snapshot(here.index, this.#parts.map((part) => ({ ...part }))), deltas: [], place: here }
  }

  /** The rest of a message that has ended, for a reader that followed it; `undefined` where that is more than `limit` deltas. */
  rest (place: DeltaPlace | undefined, limit: number): DeltaNews | undefined {
    if (this.#open || place === undefined) return undefined
    const left = this.#next - this.#seenBy(place)
    return left > 0 && left <= Math.min(limit, this.#recent.length) ? this.#follow(place, limit) : undefined
  }

  /** Where in the log the last event before the message stands. */
  get after (): number { return this.#after }
  get watchers (): number { return this.#wakes.size }

  /** Watches: told at each piece and each attempt, or with `once` at the next one alone until it asks `again`. */
  onChange (wake: () => void, once = false): () => void {
    this.#wakes.set(wake, once)
    this.#due.add(wake)
    return () => {
      this.#wakes.delete(wake)
      this.#due.delete(wake)
      if (this.#wakes.size > 0) return
      this.#recent = []
      if (!this.#open) this.#clear()
    }
  }

  /** Asks to be told of what comes after this moment. */
  again (wake: () => void): void { if (this.#wakes.has(wake)) this.#due.add(wake) }

  #here (): DeltaPlace { return { message: this.#message, step: this.#step, attempt: this.#attempt, index: this.#next - 1 } }
  /** Its step and attempt do not tell: those of a later turn are counted anew. */
  #isAt ({ message }: DeltaPlace): boolean { return message === this.#message }
  /** How many deltas of this message a reader has. */
  #seenBy (place: DeltaPlace): number { return this.#isAt(place) ? place.index + 1 : 0 }

  #follow (place: DeltaPlace, limit: number): DeltaNews | undefined {
    const same = this.#isAt(place)
    const from = this.#seenBy(place)
    if (same && from === this.#next) return undefined
    const first = from - (this.#next - this.#recent.length)
    const deltas = this.#recent.slice(first, first + limit)
    const news = { deltas, place: { ...this.#here(), index: from + deltas.length - 1 } }
    return same ? news : { snapshot: this.#snapshot(-1, []), ...news }
  }

  #snapshot (index: number, parts: SnapshotPart[]): Snapshot { return { step: this.#step, attempt: this.#attempt, index, parts } }

  #clear (): void {
    this.#parts = []
    this.#size = 0
    this.#recent = []
  }

  /** Of many readers most are busy with what they were told of before: they cost a piece nothing. */
  #wake (): void {
    const due = this.#due
    if (due.size === 0) return
    this.#due = new Set()
    for (const wake of due) {
      const once = this.#wakes.get(wake)
      if (once === undefined) continue
      if (!once) this.#due.add(wake)
      wake()
    }
  }
}
