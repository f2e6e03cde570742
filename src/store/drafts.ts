import type { NewEvent } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { CommitQueue } from './commit-queue.ts'
import type { Garbage } from './garbage.ts'
import { encodeNewEvents, type Segments } from './segments.ts'
import type { SegmentSeed } from './seeds.ts'

/**
 * Long logs, written a piece at a time before anything refers to them. PRIVATE: touches no table; knows what is being written
 * or is about to be referred to, so that sweep leaves it. After a crash a draft is plain garbage.
 */
export interface Drafts {
  /**
   * Writes a segment that nobody owns, of `events` after what `begin` gives; that runs in the first transaction and may refuse.
   * The draft is kept until it is let go. Rejects with the signal's reason when it aborts first; then it is let go already.
   */
  write<On extends SegmentSeed | undefined>(events: readonly NewEvent[], time: number, begin: () => On, signal?: AbortSignal): Promise<Draft<On>>
  /** From here on it stays only if something refers to it. Idempotent. */
  letGo (segment: number): void
}
/** `on`: what its events follow. */
export interface Draft<On = SegmentSeed | undefined> { segment: number, length: number, on: On }

/** The segments that sweep leaves alone and a publication may refer to. */
export type Held = Set<number>

/** Rows of one transaction: other writes, and all else the event loop has, come in between. */
const PIECE = 500
/** Up to so many events are written in one go, with what refers to them. */
export const isLong = (events: readonly NewEvent[]): boolean => events.length > PIECE

export interface DraftParts { queue: CommitQueue, segments: Segments, garbage: Garbage, held: Held }

export function createDrafts ({ queue, segments, garbage, held }: DraftParts): Drafts {
  /** Held within the transaction: a sweep that shares it must not take the draft for what it is not yet. */
  async function open<On extends SegmentSeed | undefined> (begin: () => On): Promise<{ segment: number, on: On }> {
    let segment: number | undefined
    const close = (): void => { if (segment !== undefined) held.delete(segment) }
    try {
      return await queue.write(() => {
        close()
        const on = begin()
        segment = segments.createUnowned(on)
        held.add(segment)
        garbage.mark(segment)
        return { segment, on }
      }, 'written')
    } catch (error) {
      close()
      throw error
    }
  }

  return {
    async write (events, time, begin, signal) {
      signal?.throwIfAborted()
      const { segment, on } = await open(begin)
      const from = on?.length ?? 0
      try {
        for (let done = 0; done < events.length; done += PIECE) {
          signal?.throwIfAborted()
          const rows = encodeNewEvents(events.slice(done, done + PIECE), from + done, time)
          await queue.write(() => segments.append(segment, rows), 'written')
          at('draft/grown')
        }
        signal?.throwIfAborted()
        return { segment, length: from + events.length, on }
      } catch (error) {
        held.delete(segment)
        throw error
      }
    },
    letGo: (segment) => { held.delete(segment) }
  }
}
