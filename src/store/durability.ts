import { at } from '../core/fault-point.ts'
import { unavailable } from './commit-queue.ts'

/** How far the disk has what is committed. PRIVATE: knows how to flush and counts commits; touches no table and no file. */
export interface DurabilityOptions {
  /** Brings all that was committed before the call to the disk. Absent: a commit is all there is to it. */
  flush?: (() => Promise<void>) | undefined
  onFault: (error: unknown) => void
}

/**
 * One flush at a time, and only when somebody waits: it covers every commit before its start. After one that failed nothing can
 * be said of the commits it should have covered, nor of those after: the store is lost until it is opened anew.
 */
export class Durability {
  readonly #options: DurabilityOptions
  #committed = 0
  #durable = 0
  #flushing: Promise<void> | undefined
  #lost: { cause: unknown } | undefined

  constructor (options: DurabilityOptions) {
    this.#options = options
  }

  /** A flush is under way. */
  get flushing (): Promise<void> | undefined { return this.#flushing }

  /** Something is committed that a loss of power could undo. */
  get pending (): boolean { return this.#durable < this.#committed }

  /** The refusal of whatever is asked for after a flush failed. */
  get lost (): Error | undefined { return this.#lost && unavailable(this.#lost.cause) }

  committed (): void {
    this.#committed++
    if (!this.#options.flush) this.#durable = this.#committed
  }

  /** Resolves once all that is committed now is durable. Rejects with `STORE_UNAVAILABLE`. */
  async reach (): Promise<void> {
    const wanted = this.#committed
    while (this.#durable < wanted && !this.#lost) await (this.#flushing ??= this.#flush())
    if (this.#lost) throw unavailable(this.#lost.cause)
  }

  async #flush (): Promise<void> {
    const covered = this.#committed
    try {
      at('flush/beginning')
      await this.#options.flush?.()
      at('flush/flushed')
      this.#durable = covered
    } catch (error) {
      this.#lost = { cause: error }
      this.#options.onFault(error)
    } finally {
      this.#flushing = undefined
    }
  }
}
