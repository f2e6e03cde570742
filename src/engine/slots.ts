import { refuse } from '../core/errors.ts'

export interface SlotsOptions { running: number, queued: number }

export interface Slot {
  /** Whether it was a place at once. */
  readonly free: boolean
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

interface Turn { grant: () => void }

/** Places for runs that execute, and a bounded queue before them (http-api.md 8.3). First come, first served. */
export function createSlots ({ running: most, queued: mostQueued }: SlotsOptions): Slots {
  let running = 0
  const queue = new Set<Turn>()
  const next = (): void => {
    for (const turn of queue) {
      if (running >= most) return
      queue.delete(turn)
      running++
      turn.grant()
    }
  }
  return {
    get running () { return running },
    get queued () { return queue.size },
    reserve (resumed) {
      const free = running < most && queue.size === 0
      if (!free && !resumed && queue.size >= mostQueued) throw refuse('OVERLOADED', { retryAfter: 1 })
      return free ? createSlot(true) : createSlot(false)
    }
  }

  function createSlot (free: boolean): Slot {
    let holds = free
    let turn: Turn | undefined
    let granted = Promise.withResolvers<undefined>()
    if (free) running++
    else enqueue()
    function enqueue (): void {
      granted = Promise.withResolvers<undefined>()
      const mine: Turn = { grant: () => { holds = true; turn = undefined; granted.resolve(undefined) } }
      turn = mine
      queue.add(mine)
      next()
    }
    function release (): void {
      if (turn) queue.delete(turn)
      turn = undefined
      if (!holds) return
      holds = false
      running--
      next()
    }
    async function acquire (signal: AbortSignal): Promise<void> {
      if (holds) return
      if (!turn) enqueue()
      const aborted = Promise.withResolvers<never>()
      const onAbort = (): void => aborted.reject(signal.reason)
      signal.addEventListener('abort', onAbort)
      if (signal.aborted) onAbort()
      try {
        await Promise.race([granted.promise, aborted.promise])
      } catch (error) {
        if (!holds) release()
        throw error
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    }
    return { free, release, acquire }
  }
}
