import { isRefusal, refuse } from '../core/errors.ts'
import type { Key } from './api.ts'

interface UnderWay<T> { bodyHash: string, done: Promise<T> }

export interface Once<T> {
  /**
   * Does `work` under a key, one at a time: a second call with the same body, while the first is under way, gets what that made
   * (`shared`). Throws `IDEMPOTENCY_MISMATCH` for another body. A refusal binds nothing: who waited is judged by itself, unless
   * `refusesAll` says that it was meant for all of them (http-api.md 2.4).
   */
  (name: string, key: Key, work: () => Promise<T>): Promise<{ value: T, shared: boolean }>
}

export function createOnce<T> (refusesAll: (error: unknown) => boolean = () => false): Once<T> {
  const underWay = new Map<string, UnderWay<T>>()
  const stands = (error: unknown): undefined => {
    if (!isRefusal(error) || refusesAll(error)) throw error
  }
  return async (name, { key, bodyHash }, work) => {
    const slot = JSON.stringify([name, key])
    for (let other = underWay.get(slot); other; other = underWay.get(slot)) {
      if (other.bodyHash !== bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
      const value = await other.done.then((made) => ({ made }), stands)
      if (value) return { value: value.made, shared: true }
      if (underWay.get(slot) === other) underWay.delete(slot)
    }
    const mine = { bodyHash, done: work() }
    underWay.set(slot, mine)
    try {
      return { value: await mine.done, shared: false }
    } finally {
      if (underWay.get(slot) === mine) underWay.delete(slot)
    }
  }
}
