import type { DatabaseSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'

/** The journals of external chats. PRIVATE: touches `frames` and `frame_garbage`. */
export interface Journals {
  /** Adds lines at the end. Throws `FRAME_GAP` unless `from` is the number of the next one. */
  append (run: JournalPlace, from: number, lines: readonly string[]): void
  /** Lines from number `from` on: at least one, as far as there is one, not many more than `limit`, and of long ones fewer. */
  read (run: JournalPlace, from: number, limit: number): string[]
  /** The run is gone: its lines go in `collect`. */
  release (run: JournalPlace): void
  /** Removes up to about `limit` rows; how many it handled, 0 when nothing is left to do. */
  collect (limit: number): number
}
export interface JournalPlace { segment: number, firstSeq: number }

/** So long a text is one row: a read takes whole rows. */
const ROW_CHARS = 65_536
/** A read ends with the row that brings it past so much. */
const READ_CHARS = 4 * 1024 * 1024

export function createJournals (db: DatabaseSync): Journals {
  const sql = {
    next: db.prepare('SELECT line + count AS next FROM frames WHERE segment = ? AND first_seq = ? ORDER BY line DESC LIMIT 1'),
    insert: db.prepare('INSERT INTO frames (segment, first_seq, line, count, lines) VALUES (?, ?, ?, ?, ?)'),
    read: db.prepare(`SELECT line, lines FROM frames WHERE segment = ?1 AND first_seq = ?2 AND line >= coalesce(
      (SELECT max(line) FROM frames WHERE segment = ?1 AND first_seq = ?2 AND line <= ?3), 0) ORDER BY line`),
    mark: db.prepare('INSERT OR IGNORE INTO frame_garbage (segment, first_seq) VALUES (?, ?)'),
    marked: db.prepare('SELECT segment, first_seq FROM frame_garbage LIMIT 1'),
    unmark: db.prepare('DELETE FROM frame_garbage WHERE segment = ? AND first_seq = ?'),
    cut: db.prepare('DELETE FROM frames WHERE rowid IN (SELECT rowid FROM frames WHERE segment = ? AND first_seq = ? LIMIT ?)')
  }
  return {
    append ({ segment, firstSeq }, from, lines) {
      const expected = Number(sql.next.get(segment, firstSeq)?.next ?? 0)
      if (from !== expected) throw refuse('FRAME_GAP', { expected })
      let line = from
      for (const row of rowsOf(lines)) {
        sql.insert.run(segment, firstSeq, line, row.length, row.join('\n'))
        line += row.length
      }
    },
    read ({ segment, firstSeq }, from, limit) {
      const found: string[] = []
      let chars = 0
      for (const row of sql.read.iterate(segment, firstSeq, from) as Iterable<{ line: number, lines: string }>) {
        for (const line of row.lines.split('\n').slice(Math.max(0, from - row.line))) found.push(line)
        chars += row.lines.length
        if (found.length >= limit || chars >= READ_CHARS) break
      }
      return found
    },
    release: ({ segment, firstSeq }) => { sql.mark.run(segment, firstSeq) },
    collect (limit) {
      const next = sql.marked.get() as { segment: number, first_seq: number } | undefined
      if (!next) return 0
      const cut = Number(sql.cut.run(next.segment, next.first_seq, limit).changes)
      if (cut < limit) sql.unmark.run(next.segment, next.first_seq)
      return cut + 1
    }
  }
}

function * rowsOf (lines: readonly string[]): Iterable<string[]> {
  let row: string[] = []
  let chars = 0
  for (const line of lines) {
    row.push(line)
    chars += line.length
    if (chars < ROW_CHARS) continue
    yield row
    row = []
    chars = 0
  }
  if (row.length > 0) yield row
}
