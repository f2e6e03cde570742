import type { DatabaseSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { SessionGrowth, SessionRecord } from '../core/run.ts'
import type { IdempotencyRecord, NewSession } from '../core/store.ts'
import { usedKey, type Keys } from './keys.ts'
import { encodeNewEvents, type Segments } from './segments.ts'
import type { Sessions } from './sessions.ts'

/**
 * Writes of the sessions that a host keeps here (http-api.md §1). PRIVATE: touches `sessions`. Each function encodes its
 * argument at once and gives the operation to run in a transaction, which checks before it writes.
 */
export interface HostSessions {
  /** The operation throws `SESSION_CONFLICT` and `IDEMPOTENCY_MISMATCH`. */
  create (session: NewSession, idempotency?: SessionKey): () => SessionRecord
  /** The operation throws `SESSION_NOT_FOUND`, `SESSION_CONFLICT` and `IDEMPOTENCY_MISMATCH`. */
  grow (tenant: string, id: string, after: number, growth: SessionGrowth, idempotency?: SessionKey): () => SessionRecord
}
type SessionKey = Omit<IdempotencyRecord, 'subject'>

export interface HostSessionParts { db: DatabaseSync, segments: Segments, sessions: Sessions, keys: Keys, now: () => number }

export function createHostSessions ({ db, segments, sessions, keys, now }: HostSessionParts): HostSessions {
  const sql = {
    insert: db.prepare(`INSERT INTO sessions
      (tenant, id, segment, header, registered, touched_at, length, model, format, metadata, tail, losses)
      VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`),
    grow: db.prepare('UPDATE sessions SET length = ?, tail = ?, losses = ?, touched_at = ? WHERE tenant = ? AND id = ?'),
    run: db.prepare('SELECT 1 FROM runs WHERE tenant = ? AND id = ?')
  }
  const checkKey = (tenant: string, key: SessionKey | undefined): void => {
    if (keys.check(tenant, key) !== undefined) throw usedKey()
  }
  const written = (tenant: string, id: string, key: SessionKey | undefined): SessionRecord => {
    if (key) keys.bind(tenant, { ...key, subject: id }, false)
    return sessions.get(tenant, id) as SessionRecord
  }

  return {
    create ({ header, events, tail, length, model, format, metadata, losses = [] }, key) {
      const { tenant, id } = header
      const at = now()
      const rows = encodeNewEvents(events, 0, at)
      const headerText = JSON.stringify(header)
      const texts = [model === null ? null : JSON.stringify(model), format, JSON.stringify(metadata), JSON.stringify(tail), JSON.stringify(losses)]
      return () => {
        checkKey(tenant, key)
        if (sessions.segmentOf(tenant, id) !== undefined || sql.run.get(tenant, id)) {
          throw refuse('SESSION_CONFLICT', { detail: `a session with the id "${id}" exists already` })
        }
        const segment = segments.create()
        segments.append(segment, rows)
        sql.insert.run(tenant, id, segment, headerText, at, length, ...texts)
        return written(tenant, id, key)
      }
    },
    grow (tenant, id, after, growth, key) {
      const at = now()
      const rows = encodeNewEvents(growth.events, 0, at)
      const tail = JSON.stringify(growth.tail)
      const losses = JSON.stringify(growth.losses ?? [])
      const { length } = growth
      return () => {
        const session = sessions.get(tenant, id)
        if (!session) throw refuse('SESSION_NOT_FOUND', { id })
        checkKey(tenant, key)
        if (!session.registered) {
          throw refuse('SESSION_CONFLICT', { detail: `session "${id}" was made by a run: send messages to the run` })
        }
        if (session.length !== after) {
          const detail = `session "${id}" has ${session.length} messages, not ${after}`
          throw refuse('SESSION_CONFLICT', { detail, length: session.length })
        }
        const from = segments.state(session.segment)?.length ?? 0
        segments.append(session.segment, rows.map((row) => ({ ...row, seq: row.seq + from })))
        sql.grow.run(length, tail, losses, at, tenant, id)
        return written(tenant, id, key)
      }
    }
  }
}
