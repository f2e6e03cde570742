import type { DatabaseSync } from 'node:sqlite'

/** Log bytes that nobody refers to (driver.md 3.7). PRIVATE: touches `garbage`; removes from `segments` and `events`. */
export interface Garbage {
  /** The segment's session is gone: unreadable at once, its bytes go in `collect`. */
  release (segment: number): void
  /** Removes up to about `limit` rows; how many it handled, 0 when nothing is left to do. */
  collect (limit: number): number
}

export function createGarbage (db: DatabaseSync): Garbage {
  const sql = {
    disown: db.prepare('UPDATE segments SET owned = 0 WHERE id = ?'),
    mark: db.prepare('INSERT OR IGNORE INTO garbage (segment) VALUES (?)'),
    markBase: db.prepare(`INSERT OR IGNORE INTO garbage (segment)
      SELECT base.id FROM segments JOIN segments AS base ON base.id = segments.base WHERE segments.id = ? AND base.owned = 0`),
    next: db.prepare('SELECT segment FROM garbage ORDER BY segment LIMIT 1'),
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

  return {
    release (segment) {
      sql.disown.run(segment)
      sql.mark.run(segment)
    },
    collect (limit) {
      let handled = 0
      while (handled < limit) {
        const next = sql.next.get() as { segment: number } | undefined
        if (!next) break
        handled += collectOne(next.segment, limit - handled)
      }
      return handled
    }
  }
}
