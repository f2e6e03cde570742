import { refuse } from '../core/errors.ts'
import { Places, type Waiting } from './places.ts'

export interface SlotsOptions {
  running: number
  queued: number
  /** Whether several tenants may come: then one of them has at most half of the places, and half of the queue. */
  shared?: () => boolean
}

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
  /**
   * Throws `QUOTA_EXCEEDED` when the tenant has its share of the queue, `OVERLOADED` when the queue is full; what a restart finds
   * is always taken in.
   */
  reserve (tenant: string, resumed: boolean): Slot
}

/** Seconds after which a start that found no place in the queue may come again. */
const RETRY_AFTER = 1

/**
 * Places for runs that execute, and a bounded queue before them (http-api.md 8.3): one run of each tenant in turn, of a tenant
 * first come, first served.
 */
export function createSlots ({ running, queued, shared = () => false }: SlotsOptions): Slots {
  const shareOf = (most: number): number => shared() ? Math.ceil(most / 2) : most
  const places = new Places({ most: running, share: () => shareOf(running) })
  return {
    get running () { return places.taken },
    get queued () { return places.starts },
    reserve (tenant, resumed) {
      const free = places.take(tenant)
      if (!free && !resumed) checkQueue(places, tenant, { queued, share: shareOf(queued) })
      return createSlot(places, tenant, free)
    }
  }
}

function checkQueue (places: Places, tenant: string, { queued, share }: { queued: number, share: number }): void {
  if (share < queued && places.startsOf(tenant) >= share) {
    const detail = `${share} runs of this tenant are queued, its share of the queue`
    throw refuse('QUOTA_EXCEEDED', { detail, retryAfter: RETRY_AFTER })
  }
  if (places.starts >= queued) throw refuse('OVERLOADED', { retryAfter: RETRY_AFTER })
}

function createSlot (places: Places, tenant: string, free: boolean): Slot {
  let holds = free
  let waiting: Waiting | undefined
  let granted = Promise.withResolvers<undefined>()
  let isStart = !free
  const queue = (): void => {
    granted = Promise.withResolvers()
    waiting = {
      tenant,
      isStart,
      turn () {
        holds = true
        isStart = false
        granted.resolve(undefined)
      }
    }
    places.wait(waiting)
    if (holds) waiting = undefined
  }
  const release = (): void => {
    if (waiting) places.leave(waiting)
    waiting = undefined
    isStart = false
    if (!holds) return
    holds = false
    places.giveBack(tenant)
  }
  if (!free) queue()
  return {
    free,
    get ready () { return holds || places.ready(tenant) },
    release,
    async acquire (signal) {
      if (holds) return
      if (!waiting) queue()
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
