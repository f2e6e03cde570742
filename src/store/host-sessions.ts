import type { DatabaseSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { SessionGrowth, SessionRecord } from '../core/run.ts'
import type { IdempotencyRecord, NewSession } from '../core/store.ts'
import { usedKey, type Keys } from './keys.ts'
import type { Garbage } from './garbage.ts'
import type { SegmentSeed } from './seeds.ts'
import { encodeNewEvents, type Segments } from './segments.ts'
import type { Sessions } from './sessions.ts'

/**
 * Writes of the sessions that a host keeps here (http-api.md §1). PRIVATE: touches `sessions`. Each function encodes its
 * argument at once and gives the operation to run in a transaction, which checks before it writes.
 */
export interface HostSessions {
  /** The operation throws `SESSION_CONFLICT` and `IDEMPOTENCY_MISMATCH`. `draft`: a segment of its first events. */
  create (session: NewSession, idempotency?: SessionKey, draft?: number): () => SessionRecord
  /**
   * The operation throws `SESSION_NOT_FOUND`, `SESSION_CONFLICT` and `IDEMPOTENCY_MISMATCH`. `draft`: its first new events.
   */
  grow (
    tenant: string, id: string, after: number, growth: SessionGrowth, idempotency?: SessionKey, draft?: GrownDraft
  ): () => SessionRecord
  /** What `create` checks, before a draft is written for it. Within a transaction only. */
  checkNew (tenant: string, id: string, idempotency?: SessionKey): undefined
  /** The log that `grow` goes on from, after the same checks. Within a transaction only. */
  seedOf (tenant: string, id: string, after: number, idempotency?: SessionKey): SegmentSeed
}
/** A segment of events on those that the session had as it was begun. */
export interface GrownDraft { segment: number, on: SegmentSeed }
type SessionKey = Omit<IdempotencyRecord, 'subject'>

export interface HostSessionParts {
  db: DatabaseSync, segments: Segments, sessions: Sessions, garbage: Garbage, keys: Keys, now: () => number
}

export function createHostSessions (parts: HostSessionParts): HostSessions {
  const { db, segments, sessions, garbage, keys, now } = parts
  const sql = {
    insert: db.prepare(`INSERT INTO sessions
      (tenant, id, segment, header, registered, touched_at, length, model, format, metadata, tail, losses)
      VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`),
    grow: db.prepare('UPDATE sessions SET segment = ?, length = ?, tail = ?, losses = ?, touched_at = ? WHERE tenant = ? AND id = ?')
  }
  const { checkGrown, ...checks } = createChecks(parts)
  const written = (tenant: string, id: string, key: SessionKey | undefined): SessionRecord => {
    if (key) keys.bind(tenant, { ...key, subject: id }, false)
    return sessions.get(tenant, id) as SessionRecord
  }

  function adopt (draft: number, before?: number): number {
    segments.adopt(draft, before)
    garbage.unmark(draft)
    return draft
  }

  return {
    ...checks,
    create ({ header, events, tail, length, model, format, metadata, losses = [] }, key, draft) {
      const { tenant, id } = header
      const at = now()
      const rows = encodeNewEvents(events, 0, at)
      const headerText = JSON.stringify(header)
      const texts = [model === null ? null : JSON.stringify(model), format, JSON.stringify(metadata), JSON.stringify(tail), JSON.stringify(losses)]
      return () => {
        checks.checkNew(tenant, id, key)
        const segment = draft === undefined ? segments.create() : adopt(draft)
        segments.append(segment, rows)
        sql.insert.run(tenant, id, segment, headerText, at, length, ...texts)
        return written(tenant, id, key)
      }
    },
    grow (tenant, id, after, growth, key, draft) {
      const at = now()
      const rows = encodeNewEvents(growth.events, 0, at)
      const tail = JSON.stringify(growth.tail)
      const losses = JSON.stringify(growth.losses ?? [])
      const { length } = growth
      return () => {
        const log = checkGrown(tenant, id, after, key)
        if (draft && (draft.on.base !== log.segment || draft.on.length !== log.from)) {
          throw refuse('SESSION_CONFLICT', { detail: `session "${id}" went on meanwhile`, length: after })
        }
        const segment = draft ? adopt(draft.segment, log.segment) : log.segment
        segments.append(segment, rows.map((row) => ({ ...row, seq: row.seq + log.from })))
        sql.grow.run(segment, length, tail, losses, at, tenant, id)
        return written(tenant, id, key)
      }
    }
  }
}

const wrongLength = (id: string, length: number, after: number): Error =>
  refuse('SESSION_CONFLICT', { detail: `session "${id}" has ${length} messages, not ${after}`, length })

interface Checks extends Pick<HostSessions, 'checkNew' | 'seedOf'> {
  /** The session's segment and how long its log is. */
  readonly checkGrown: (tenant: string, id: string, after: number, key: SessionKey | undefined) => { segment: number, from: number }
}

function createChecks ({ db, segments, sessions, keys }: HostSessionParts): Checks {
  const run = db.prepare('SELECT 1 FROM runs WHERE tenant = ? AND id = ?')
  const checkKey = (tenant: string, key: SessionKey | undefined): void => {
    if (keys.check(tenant, key) !== undefined) throw usedKey()
  }

  function checkGrown (tenant: string, id: string, after: number, key: SessionKey | undefined): { segment: number, from: number } {
    const session = sessions.get(tenant, id)
    if (!session) throw refuse('SESSION_NOT_FOUND', { id })
    checkKey(tenant, key)
    if (!session.registered) {
      throw refuse('SESSION_CONFLICT', { detail: `session "${id}" was made by a run: send messages to the run` })
    }
    if (session.length !== after) throw wrongLength(id, session.length, after)
    return { segment: session.segment, from: segments.state(session.segment)?.length ?? 0 }
  }

  return {
    checkGrown,
    checkNew (tenant, id, key) {
      checkKey(tenant, key)
      if (sessions.segmentOf(tenant, id) !== undefined || run.get(tenant, id)) {
        throw refuse('SESSION_CONFLICT', { detail: `a session with the id "${id}" exists already` })
      }
    },
    seedOf (tenant, id, after, key) {
      const { segment, from } = checkGrown(tenant, id, after, key)
      const seed = segments.seedOf(segment, from)
      if (!seed) throw refuse('SESSION_NOT_FOUND', { id })
      return { ...seed, base: segment }
    }
  }
}
