import { isRefusal, refuse } from '../core/errors.ts'

/** Group commit. PRIVATE: knows transactions, not what is in them; the only caller of begin, commit and rollback. */

export interface Transaction {
  begin (): void
  /** Ends the transaction durably; writes first what the operations deferred. */
  commit (): void
  /** Undoes everything since `begin`; harmless when no transaction is open. */
  rollback (): void
  /** The store failed, whatever the operation was; else the operation itself is at fault. */
  isStoreFault (error: unknown): boolean
  onFault (error: unknown): void
}

interface Operation { run: () => unknown, resolve: (value: unknown) => void, reject: (error: unknown) => void }

/** Past so many operations a flush leaves the rest to the next turn of the event loop. */
const MAX_OPERATIONS = 2000

/**
 * Writes that come in one turn of the event loop share a transaction. They run in the order of the calls, and each promise
 * settles after the commit. An operation checks before it writes: its refusal rejects its own promise only. When the store
 * fails, the whole batch rejects with `STORE_UNAVAILABLE` and nothing of it is written.
 */
export class CommitQueue {
  readonly #transaction: Transaction
  #queue: Operation[] = []
  #scheduled = false
  #closed = false

  constructor (transaction: Transaction) {
    this.#transaction = transaction
  }

  /** `run` may run again when an operation before it in the batch had a fault of its own: it must depend on the store alone. */
  write<T>(run: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(unavailable(new Error('the store is closed')))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ run, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued and takes nothing more. */
  close (): void {
    this.#closed = true
    while (this.#queue.length > 0) this.#flush()
  }

  #schedule (): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#flush()
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  #flush (): void {
    let batch = this.#queue.splice(0, MAX_OPERATIONS)
    while (batch.length > 0) {
      const wrong = this.#commit(batch)
      if (!wrong) return
      wrong.operation.reject(wrong.error)
      batch = batch.filter((operation) => operation !== wrong.operation)
    }
  }

  /** Runs and commits the batch. Nothing is written when it answers with an operation that has a fault of its own. */
  #commit (batch: readonly Operation[]): { operation: Operation, error: unknown } | undefined {
    const settle: (() => void)[] = []
    let running: Operation | undefined
    try {
      this.#transaction.begin()
      for (const operation of batch) {
        running = operation
        settle.push(outcomeOf(operation))
      }
      running = undefined
      this.#transaction.commit()
    } catch (error) {
      this.#rollback(error)
      if (running && !this.#transaction.isStoreFault(error)) return { operation: running, error }
      for (const { reject } of batch) reject(unavailable(error))
      this.#transaction.onFault(error)
      return undefined
    }
    for (const tell of settle) tell()
    return undefined
  }

  #rollback (cause: unknown): void {
    try {
      this.#transaction.rollback()
    } catch (error) {
      this.#transaction.onFault(new AggregateError([cause, error], 'a failed transaction could not be rolled back'))
    }
  }
}

function outcomeOf ({ run, resolve, reject }: Operation): () => void {
  try {
    const value = run()
    return () => resolve(value)
  } catch (error) {
    if (!isRefusal(error)) throw error
    return () => reject(error)
  }
}

export const unavailable = (cause: unknown): Error => refuse('STORE_UNAVAILABLE', { retryAfter: 5 }, cause)
