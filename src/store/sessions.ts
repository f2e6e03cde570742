import type { DatabaseSync } from 'node:sqlite'
import type { SessionHeader } from '../core/events.ts'
import type { SessionRecord } from '../core/run.ts'
import type { Garbage } from './garbage.ts'
import type { Segments } from './segments.ts'

/**
 * Conversations: a host's own and those of runs. PRIVATE: touches `sessions` (host-sessions.ts writes a host's own); reads
 * `runs` to see who needs one.
 */
export interface Sessions {
  segmentOf (tenant: string, id: string): number | undefined
  /** The session that a run makes. */
  insertOwn (tenant: string, id: string, segment: number, header: string): void
  get (tenant: string, id: string): SessionRecord | undefined
  /** Unreadable from here on. */
  remove (tenant: string, id: string): void
  /**
   * Looks at up to `limit` hosts' sessions that nobody touched since `before`, from `after` on, and removes those that no run has
   * as parent. The last one looked at; `undefined` when there was none.
   */
  expire (before: number, after: SessionPlace, limit: number): SessionPlace | undefined
}

/** A place in the order in which nobody touched them. */
export interface SessionPlace { touchedAt: number, tenant: string, id: string }
export const FIRST_SESSION: SessionPlace = { touchedAt: 0, tenant: '', id: '' }

interface SessionRow {
  segment: number
  header: string
  registered: number
  length: number
  model: string | null
  format: string | null
  metadata: string
  tail: string
  losses: string
}

export function createSessions (db: DatabaseSync, segments: Segments, garbage: Garbage, now: () => number): Sessions {
  const sql = {
    insert: db.prepare(`INSERT INTO sessions (tenant, id, segment, header, registered, touched_at, length, metadata, tail)
      VALUES (?, ?, ?, ?, 0, ?, 0, '{}', '[]')`),
    segment: db.prepare('SELECT segment, registered FROM sessions WHERE tenant = ? AND id = ?'),
    get: db.prepare(`SELECT segment, header, registered, length, model, format, metadata, tail, losses FROM sessions
      WHERE tenant = ? AND id = ?`),
    remove: db.prepare('DELETE FROM sessions WHERE tenant = ? AND id = ?'),
    expired: db.prepare(`SELECT touched_at AS touchedAt, tenant, id, EXISTS
      (SELECT 1 FROM runs WHERE runs.tenant = sessions.tenant AND runs.parent_session = sessions.id) AS needed
      FROM sessions INDEXED BY sessions_touched WHERE registered = 1 AND touched_at <= ?1 AND touched_at >= ?2
      AND (touched_at, tenant, id) > (?2, ?3, ?4) ORDER BY touched_at, tenant, id LIMIT ?5`)
  }
  const segmentOf = (tenant: string, id: string): number | undefined => sql.segment.get(tenant, id)?.segment as number | undefined

  function remove (tenant: string, id: string): void {
    const found = sql.segment.get(tenant, id) as Pick<SessionRow, 'segment' | 'registered'> | undefined
    if (!found) return
    sql.remove.run(tenant, id)
    segments.forget(found.segment)
    if (found.registered === 1) garbage.releaseLine(found.segment)
    else garbage.release(found.segment)
  }

  return {
    segmentOf,
    insertOwn: (tenant, id, segment, header) => { sql.insert.run(tenant, id, segment, header, now()) },
    get (tenant, id) {
      const row = sql.get.get(tenant, id) as SessionRow | undefined
      const state = row && segments.state(row.segment)
      if (!row || !state) return undefined
      return {
        id,
        tenant,
        segment: row.segment,
        header: JSON.parse(row.header) as SessionHeader,
        registered: row.registered === 1,
        length: row.registered === 1 ? row.length : state.length,
        completedLength: state.completedLength,
        turns: state.turns,
        tail: JSON.parse(row.tail) as string[],
        model: row.model === null ? null : JSON.parse(row.model) as string,
        format: row.format,
        metadata: JSON.parse(row.metadata) as Record<string, string>,
        ...row.losses !== '[]' && { losses: JSON.parse(row.losses) as string[] }
      }
    },
    remove,
    expire (before, { touchedAt, tenant: of, id: last }, limit) {
      const rows = sql.expired.all(before, touchedAt, of, last, limit) as unknown as (SessionPlace & { needed: number })[]
      for (const { tenant, id, needed } of rows) if (needed === 0) remove(tenant, id)
      return rows.at(-1)
    }
  }
}
