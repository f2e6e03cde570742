/**
 * The text of the message that a model is writing, for readers that watch live (http-api.md 6.2). Deltas are traffic, not
 * log: a reader holds only its place here, so a slow one costs nothing and gets a snapshot instead of a backlog.
 */
export type DeltaKind = 'text' | 'reasoning' | 'tool-arguments'
export interface Delta { step: number, attempt: number, index: number, kind: DeltaKind, toolCallId?: string, text: string }
export interface SnapshotPart { kind: DeltaKind, toolCallId?: string, text: string }
/** Stands for every delta up to and including `index`; `-1` where none came yet. */
export interface Snapshot { step: number, attempt: number, index: number, parts: SnapshotPart[] }

export interface DeltaPlace { step: number, attempt: number, index: number }

/** Deltas kept singly; a reader further behind gets one snapshot. */
const KEPT = 4096

export class DeltaFeed {
  #step = 0
  #attempt = 0
  #next = 0
  #parts: SnapshotPart[] = []
  #recent: Delta[] = []
  #open = false
  readonly #wakes = new Set<() => void>()

  /** A model call begins: what an earlier attempt wrote is void. */
  begin (step: number, attempt: number): void {
    this.#step = step
    this.#attempt = attempt
    this.#next = 0
    this.#parts = []
    this.#recent = []
    this.#open = true
    this.#wake()
  }

  push (kind: DeltaKind, text: string, toolCallId?: string): void {
    if (!this.#open || text === '') return
    const call = toolCallId === undefined ? {} : { toolCallId }
    if (this.#recent.length >= 2 * KEPT) this.#recent = this.#recent.slice(-KEPT)
    this.#recent.push({ step: this.#step, attempt: this.#attempt, index: this.#next++, kind, ...call, text })
    const last = this.#parts.at(-1)
    if (last && last.kind === kind && last.toolCallId === toolCallId) last.text += text
    else this.#parts.push({ kind, ...call, text })
    this.#wake()
  }

  /** The message stands in the log now (or never will): nothing is left to follow. */
  end (): void {
    this.#open = false
    this.#parts = []
    this.#recent = []
  }

  /** What a reader at `place` has not seen. A reader of another step or attempt, or too far behind, gets a snapshot first. */
  since (place: DeltaPlace | undefined): { snapshot?: Snapshot, deltas: readonly Delta[], place: DeltaPlace } | undefined {
    if (!this.#open) return undefined
    const here = { step: this.#step, attempt: this.#attempt, index: this.#next - 1 }
    const oldest = this.#next - this.#recent.length
    const follows = place !== undefined && place.step === here.step && place.attempt === here.attempt && place.index + 1 >= oldest
    if (follows) {
      return place.index === here.index ? undefined : { deltas: this.#recent.slice(place.index + 1 - oldest), place: here }
    }
    return { snapshot: { ...here, parts: this.#parts.map((part) => ({ ...part })) }, deltas: [], place: here }
  }

  onChange (wake: () => void): () => void {
    this.#wakes.add(wake)
    return () => { this.#wakes.delete(wake) }
  }

  #wake (): void { for (const wake of this.#wakes) wake() }
}
