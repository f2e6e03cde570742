import { isRefusal, refuse } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import type { Durability } from './durability.ts'

/** Group commit. PRIVATE: knows transactions, not what is in them; the only caller of begin, commit and rollback. */

export interface Transaction {
  begin (): void
  /** Ends the transaction; writes first what the operations deferred. Readers see it from here on. */
  commit (): void
  /** Undoes everything since `begin`; harmless when no transaction is open. */
  rollback (): void
  /** The store failed, whatever the operation was; else the operation itself is at fault. */
  isStoreFault (error: unknown): boolean
  onFault (error: unknown): void
}

/** When a write that succeeds is told of: once later operations see it, or once no loss of power undoes it. */
type Level = 'written' | 'durable'
interface Operation { run: () => unknown, level: Level, resolve: (value: unknown) => void, reject: (error: unknown) => void }
/** What came of an operation, to be told when the time has come. */
interface Outcome { level: Level, tell: () => void, reject: (error: unknown) => void }

/** Past so many operations a batch leaves the rest to the next turn of the event loop. */
const MAX_OPERATIONS = 2000

/**
 * Writes that come in one turn of the event loop, or while a flush is under way, share a transaction. They run in the order of
 * the calls, and each promise settles after the commit and the flush that makes it durable, or right after the commit. An
 * operation checks before it writes: its refusal rejects its own promise only, and not before what it rests on is durable. When
 * the store fails, the whole batch rejects with `STORE_UNAVAILABLE` and nothing of it is written.
 */
export class CommitQueue {
  readonly #transaction: Transaction
  readonly #durability: Durability
  #queue: Operation[] = []
  #scheduled = false
  #closed = false

  constructor (transaction: Transaction, durability: Durability) {
    this.#transaction = transaction
    this.#durability = durability
  }

  /** `run` may run again when an operation before it in the batch had a fault of its own: it must depend on the store alone. */
  write<T>(run: () => T, level: Level = 'durable'): Promise<T> {
    if (this.#closed) return Promise.reject(unavailable(new Error('the store is closed')))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ run, level, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued and takes nothing more. Resolves once all of it is durable, or lost. */
  async close (): Promise<void> {
    this.#closed = true
    while (this.#queue.length > 0) this.#writeBatch()
    await this.#durability.reach().catch(() => {})
  }

  #schedule (): void {
    if (this.#scheduled) return
    this.#scheduled = true
    const { flushing } = this.#durability
    if (flushing) void flushing.then(() => setImmediate(this.#turn))
    else setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    this.#scheduled = false
    this.#writeBatch()
    if (this.#queue.length > 0) this.#schedule()
  }

  #writeBatch (): void {
    let batch = this.#queue.splice(0, MAX_OPERATIONS)
    const { lost } = this.#durability
    if (lost) {
      for (const { reject } of batch) reject(lost)
      return
    }
    while (batch.length > 0) {
      const wrong = this.#commit(batch)
      if (!wrong) return
      wrong.operation.reject(wrong.error)
      batch = batch.filter((operation) => operation !== wrong.operation)
    }
  }

  /** Runs and commits the batch. Nothing is written when it answers with an operation that has a fault of its own. */
  #commit (batch: readonly Operation[]): { operation: Operation, error: unknown } | undefined {
    const outcomes: Outcome[] = []
    let running: Operation | undefined
    at('commit/beginning')
    try {
      this.#transaction.begin()
      for (const operation of batch) {
        running = operation
        outcomes.push(outcomeOf(operation))
      }
      running = undefined
      at('commit/written')
      this.#transaction.commit()
    } catch (error) {
      this.#rollback(error)
      if (running && !this.#transaction.isStoreFault(error)) return { operation: running, error }
      for (const { reject } of batch) reject(unavailable(error))
      this.#transaction.onFault(error)
      return undefined
    }
    at('commit/committed')
    this.#durability.committed()
    this.#tell(outcomes)
    return undefined
  }

  #tell (outcomes: readonly Outcome[]): void {
    const later = this.#durability.pending ? outcomes.filter(({ level }) => level === 'durable') : []
    for (const outcome of outcomes) if (later.length === 0 || outcome.level === 'written') outcome.tell()
    if (later.length === 0) return
    this.#durability.reach().then(
      () => { for (const { tell } of later) tell() },
      (error: unknown) => { for (const { reject } of later) reject(error) }
    )
  }

  #rollback (cause: unknown): void {
    try {
      this.#transaction.rollback()
    } catch (error) {
      this.#transaction.onFault(new AggregateError([cause, error], 'a failed transaction could not be rolled back'))
    }
  }
}

function outcomeOf ({ run, level, resolve, reject }: Operation): Outcome {
  try {
    const value = run()
    return { level, tell: () => resolve(value), reject }
  } catch (error) {
    if (!isRefusal(error)) throw error
    return { level: 'durable', tell: () => reject(error), reject }
  }
}

export const unavailable = (cause: unknown): Error => refuse('STORE_UNAVAILABLE', { retryAfter: 5 }, cause)
