import type { DatabaseSync } from 'node:sqlite'
import { lengthOf, OWNED, type GetSegment, type SegmentRow } from './segment-rows.ts'

/** What a fork refers to (driver.md 3.7). PRIVATE: reads `segments` and `events`, at a cost that no log's length changes. */

/** The first `length` events of `base`; `completed` and `turns` are of the completed turns within them. */
export interface SegmentSeed { base: number, length: number, completed: number, turns: number }

export type FindSeed = (segment: number, length: number) => SegmentSeed | undefined

/** Finds the seed that the first `length` events of a segment make; `undefined` when it is neither owned nor held, or shorter. */
export function createSeedFinder (db: DatabaseSync, get: GetSegment, held: ReadonlySet<number>): FindSeed {
  const lastTurnEnd = db.prepare(`SELECT seq, data FROM events WHERE segment = ? AND seq < ? AND type = 'turn/end'
    ORDER BY seq DESC LIMIT 1`)

  function completedWithin (id: number, row: SegmentRow, length: number): { completed: number, turns: number } {
    if (row.completed_length <= length) return { completed: row.completed_length, turns: row.turns }
    const found = lastTurnEnd.get(id, length) as { seq: number, data: string } | undefined
    if (found) return { completed: found.seq + 1, turns: (JSON.parse(found.data) as { turn: number }).turn }
    const base = row.base === null ? undefined : get(row.base)
    if (row.base === null || !base) return { completed: 0, turns: 0 }
    return completedWithin(row.base, base, Math.min(length, row.base_length))
  }

  /** The segment that holds event `length - 1` itself: a fork of a fork refers to the ancestor where it can. */
  function holderOf (segment: number, row: SegmentRow, length: number): number {
    let base = segment
    let at: SegmentRow | undefined = row
    while (at && at.base !== null && length <= at.base_length) {
      base = at.base
      at = get(base)
    }
    return base
  }

  return (segment, length) => {
    const row = get(segment)
    if (!row || (row.owned === OWNED.no && !held.has(segment)) || length > lengthOf(row)) return undefined
    return { base: holderOf(segment, row, length), length, ...completedWithin(segment, row, length) }
  }
}
