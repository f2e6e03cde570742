import { refuse } from '../core/errors.ts'

/**
 * The unpublished life of a child (driver.md §4, §5): it sees the request's signal from its first step on, and either commits
 * with nothing of it left on the signal, or undoes every step in reverse order and leaves nothing.
 */
export class CreationTransaction {
  readonly #id: string
  readonly #signal: AbortSignal
  readonly #undo: (() => unknown)[] = []
  readonly #aborted = Promise.withResolvers<never>()
  readonly #onAbort = (): void => { this.#aborted.reject(this.#refusal()) }

  constructor (id: string, signal: AbortSignal) {
    this.#id = id
    this.#signal = signal
    this.#aborted.promise.catch(() => {})
    signal.addEventListener('abort', this.#onAbort)
  }

  /** Runs one step of the set-up; rejects at once when the signal aborts. `undo` releases what the step made, however late. */
  async step<T> (work: () => T | Promise<T>, undo?: (made: T) => unknown): Promise<T> {
    this.check()
    const made = Promise.resolve().then(work).then((value) => {
      if (undo) this.#undo.push(() => undo(value))
      return value
    })
    try {
      return await Promise.race([made, this.#aborted.promise])
    } catch (error) {
      // The step itself may still be under way: rollback waits for it, so that what it makes is released too.
      this.#undo.push(() => made.then(() => undo && this.#undo.pop()?.(), () => {}))
      throw error
    }
  }

  /** Throws when the signal has aborted: the last look before publication. */
  check (): void {
    if (this.#signal.aborted) throw this.#refusal()
  }

  /** Takes this transaction's listener off the signal; what the steps made belongs to the child now. */
  detach (): void { this.#signal.removeEventListener('abort', this.#onAbort) }

  /** Undoes every step, newest first; one that fails keeps no other from being undone. Resolves with what failed. */
  async rollback (): Promise<unknown[]> {
    this.detach()
    const failures: unknown[] = []
    for (let undo = this.#undo.pop(); undo; undo = this.#undo.pop()) {
      try { await undo() } catch (error) { failures.push(error) }
    }
    return failures
  }

  #refusal (): Error {
    const reason: unknown = this.#signal.reason
    const detail = reason instanceof Error ? reason.message : `agent "${this.#id}" creation aborted`
    return refuse('START_ABORTED', { detail })
  }
}

/** Throws the constant refusal for a signal that aborted before the call (driver.md §5, first row). */
export function checkNotAborted (signal: AbortSignal): void {
  if (signal.aborted) throw refuse('START_ABORTED', { detail: 'subagent request was aborted before child publication' })
}
