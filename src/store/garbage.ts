import type { DatabaseSync } from 'node:sqlite'
import { OWNED } from './segment-rows.ts'

/** Log bytes that nobody refers to (driver.md 3.7). PRIVATE: touches `garbage`; removes from `segments` and `events`. */
export interface Garbage {
  /** The segment's session is gone: unreadable at once, its bytes go in `collect`. */
  release (segment: number): void
  /** As `release`, of a host's session: of its earlier segments too. */
  releaseLine (segment: number): void
  /** Nobody owns the segment: it goes in `collect` unless something refers to it, or it is held. */
  mark (segment: number): void
  /** A session stands for it now. */
  unmark (segment: number): void
  /** Removes up to about `limit` rows, fewer where they are large; how many it handled, 0 when nothing is left to do. */
  collect (limit: number): number
}

/** Events cut at once: one may be large. */
const CUT = 25
const STEP_MS = 5

export function createGarbage (db: DatabaseSync, held: ReadonlySet<number> = new Set()): Garbage {
  const sql = {
    disown: db.prepare('UPDATE segments SET owned = 0 WHERE id = ?'),
    mark: db.prepare('INSERT OR IGNORE INTO garbage (segment) VALUES (?)'),
    markBase: db.prepare(`INSERT OR IGNORE INTO garbage (segment)
      SELECT base.id FROM segments JOIN segments AS base ON base.id = segments.base WHERE segments.id = ? AND base.owned = 0`),
    earlier: db.prepare('SELECT base.id FROM segments JOIN segments AS base ON base.id = segments.base WHERE segments.id = ? AND base.owned = ?'),
    next: db.prepare('SELECT segment FROM garbage WHERE segment > ? ORDER BY segment LIMIT 1'),
    unmark: db.prepare('DELETE FROM garbage WHERE segment = ?'),
    kept: db.prepare('SELECT max(base_length) AS length FROM segments WHERE base = ?'),
    last: db.prepare('SELECT max(seq) AS seq FROM events WHERE segment = ?'),
    cut: db.prepare('DELETE FROM events WHERE segment = ? AND seq >= ?'),
    remove: db.prepare('DELETE FROM segments WHERE id = ?')
  }

  /** Cuts what no fork refers to off the end of one segment; done with it once nothing more is to cut. */
  function collectOne (segment: number, limit: number): number {
    const kept = sql.kept.get(segment)?.length as number | null
    const last = sql.last.get(segment)?.seq as number | null
    let cut = 0
    if (last !== null && last >= (kept ?? 0)) cut = Number(sql.cut.run(segment, Math.max(kept ?? 0, last - limit + 1)).changes)
    if (cut === limit) return cut
    if (kept === null) {
      sql.markBase.run(segment)
      sql.remove.run(segment)
    }
    sql.unmark.run(segment)
    return cut + 1
  }

  function release (segment: number): void {
    sql.disown.run(segment)
    sql.mark.run(segment)
  }

  return {
    release,
    releaseLine (segment) {
      for (let id: number | undefined = segment; id !== undefined;) {
        const earlier = sql.earlier.get(id, OWNED.earlier) as { id: number } | undefined
        release(id)
        id = earlier?.id
      }
    },
    mark: (segment) => { sql.mark.run(segment) },
    unmark: (segment) => { sql.unmark.run(segment) },
    collect (limit) {
      let handled = 0
      let passed = 0
      const until = performance.now() + STEP_MS
      while (handled < limit && (handled === 0 || performance.now() < until)) {
        const next = sql.next.get(passed) as { segment: number } | undefined
        if (!next) break
        if (held.has(next.segment)) passed = next.segment
        else handled += collectOne(next.segment, Math.min(CUT, limit - handled))
      }
      return handled
    }
  }
}
