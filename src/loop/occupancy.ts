import type { Slot } from './agent.ts'

/**
 * A run's slot is its own while something of it computes, and another's while only its host can go on (http-api.md §2). Counts
 * what computes: service calls, and the programs and calls inside them.
 */
export class Occupancy {
  readonly #slot: Slot
  readonly #waiting: () => boolean
  readonly #programs = new Map<object, number>()
  #busy = 0
  #regained: Promise<void> | undefined
  #released = false

  /** `waiting`: whether a call waits for the host. */
  constructor (slot: Slot, waiting: () => boolean) {
    this.#slot = slot
    this.#waiting = waiting
  }

  /** Work that computes until it settles. */
  async during<T> (work: () => Promise<T>): Promise<T> {
    this.#busy++
    try {
      return await work()
    } finally {
      this.#busy--
      this.look()
    }
  }

  /** A call that a program makes: while it has any, the program computes nothing itself. */
  async inside<T> (program: object, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const open = this.#programs.get(program) ?? 0
    this.#programs.set(program, open + 1)
    if (open === 0) this.#busy--
    try {
      return await this.during(work)
    } finally {
      const left = (this.#programs.get(program) ?? 1) - 1
      if (left > 0) this.#programs.set(program, left)
      else {
        this.#programs.delete(program)
        this.#busy++
        await this.regain(signal)
      }
    }
  }

  /** A wait for the host within work that computes. */
  async outside<T> (wait: Promise<T>): Promise<T> {
    this.#busy--
    this.look()
    try {
      return await wait
    } finally {
      this.#busy++
    }
  }

  /** Gives the slot up where nothing computes and the host is waited for. */
  look (): void {
    if (this.#busy > 0 || this.#released || !this.#waiting()) return
    this.#released = true
    this.#slot.release()
  }

  /** Has the slot again, if it was given up; an abort of `signal` ends the wait for it. */
  async regain (signal: AbortSignal): Promise<void> {
    if (!this.#released) return
    this.#regained ??= this.#slot.acquire(signal).catch((error: unknown) => { if (!signal.aborted) throw error }).finally(() => {
      this.#released = false
      this.#regained = undefined
    })
    await this.#regained
  }
}
