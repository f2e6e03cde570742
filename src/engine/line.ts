/** A place in a line; `undefined` links are its ends. */
export interface Spot<T> { readonly value: T, before: Spot<T> | undefined, after: Spot<T> | undefined, line: Line<T> | undefined }

/** First come, first served; joining, leaving from anywhere and taking the first each cost the same, however long the line is. */
export class Line<T> {
  #first: Spot<T> | undefined
  #last: Spot<T> | undefined

  get empty (): boolean { return this.#first === undefined }

  join (value: T): Spot<T> {
    const spot: Spot<T> = { value, before: this.#last, after: undefined, line: this }
    if (this.#last) this.#last.after = spot
    else this.#first = spot
    this.#last = spot
    return spot
  }

  /** Takes the first out of the line; `undefined` when nobody waits. */
  next (): T | undefined {
    const spot = this.#first
    if (spot) this.leave(spot)
    return spot?.value
  }

  /** Idempotent. */
  leave (spot: Spot<T>): void {
    if (spot.line !== this) return
    if (spot.before) spot.before.after = spot.after
    else this.#first = spot.after
    if (spot.after) spot.after.before = spot.before
    else this.#last = spot.before
    spot.line = undefined
  }
}
