import { refuse } from '../core/errors.ts'

export interface SlotsOptions { running: number, queued: number }

export interface Slot {
  /** Whether it was a place at once. */
  readonly free: boolean
  /** Whether `acquire` would give a place now. */
  readonly ready: boolean
  /** Gives up the place, or the place in the queue. Idempotent. */
  release (): void
  /** Resolves with a place; rejects with the signal's reason. At once for one that holds it. */
  acquire (signal: AbortSignal): Promise<void>
}

export interface Slots {
  readonly running: number
  readonly queued: number
  /** Throws `OVERLOADED` when the queue is full; what a restart finds is always taken in. */
  reserve (resumed: boolean): Slot
}

/** Places for runs that execute, and a bounded queue before them (http-api.md 8.3). First come, first served. */
export function createSlots ({ running, queued }: SlotsOptions): Slots {
  const places = new Places(running)
  return {
    get running () { return places.taken },
    get queued () { return places.starts },
    reserve (resumed) {
      const free = places.take()
      if (!free && !resumed && places.starts >= queued) throw refuse('OVERLOADED', { retryAfter: 1 })
      return createSlot(places, free)
    }
  }
}

/** Called when the place is there. */
type Turn = () => void

class Places {
  readonly queue = new Set<Turn>()
  readonly #most: number
  taken = 0
  /** Of those who wait, who has never had a place: a run that had one and gave it up fills no queue of starts. */
  starts = 0

  constructor (most: number) { this.#most = most }

  get ready (): boolean { return this.taken < this.#most && this.queue.size === 0 }

  /** A place at once, unless others wait for one. */
  take (): boolean {
    if (!this.ready) return false
    this.taken++
    return true
  }

  wait (turn: Turn): void {
    this.queue.add(turn)
    this.#next()
  }

  giveBack (): void {
    this.taken--
    this.#next()
  }

  #next (): void {
    for (const turn of this.queue) {
      if (this.taken >= this.#most) return
      this.queue.delete(turn)
      this.taken++
      turn()
    }
  }
}

function createSlot (places: Places, free: boolean): Slot {
  let holds = free
  let turn: Turn | undefined
  let granted = Promise.withResolvers<undefined>()
  let isStart = !free
  const queue = (): void => {
    granted = Promise.withResolvers()
    turn = () => {
      holds = true
      leave()
      granted.resolve(undefined)
    }
    if (isStart) places.starts++
    places.wait(turn)
  }
  /** No longer among those who wait. */
  const leave = (): void => {
    if (turn && isStart) places.starts--
    isStart = false
    turn = undefined
  }
  const release = (): void => {
    if (turn) places.queue.delete(turn)
    leave()
    if (!holds) return
    holds = false
    places.giveBack()
  }
  if (!free) queue()
  return {
    free,
    get ready () { return holds || places.ready },
    release,
    async acquire (signal) {
      if (holds) return
      if (!turn) queue()
      const aborted = Promise.withResolvers<never>()
      const onAbort = (): void => aborted.reject(signal.reason)
      signal.addEventListener('abort', onAbort)
      if (signal.aborted) onAbort()
      try {
        await Promise.race([granted.promise, aborted.promise])
      } catch (error) {
        release()
        throw error
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    }
  }
}
