import type { DatabaseSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { IdempotencyRecord } from '../core/store.ts'

/** Idempotency keys (http-api.md 2.4). PRIVATE: touches `idempotency`. */
export interface Keys {
  find (tenant: string, route: string, key: string): IdempotencyRecord | undefined
  /** What the key named, for the same body; `undefined` for a new key. Throws `IDEMPOTENCY_MISMATCH` for another body. */
  check (tenant: string, key: Omit<IdempotencyRecord, 'subject'> | undefined): string | undefined
  /** `withRun`: kept as long as the run it names; else for a day. */
  bind (tenant: string, key: IdempotencyRecord, withRun: boolean): void
  /** The run is gone: its keys stay until they are a day old. */
  releaseOf (tenant: string, runId: string): void
  /** Removes up to `limit` keys whose time has passed; how many. */
  expire (now: number, limit: number): number
}

const DAY = 86_400_000

interface KeyRow { body_hash: string, subject: string }

/** The refusal of a write that would repeat one; a caller looks the key up first, so only a race comes here. */
export const usedKey = (): Error =>
  refuse('SESSION_CONFLICT', { detail: 'the Idempotency-Key was used before, for the same body' })

export function createKeys (db: DatabaseSync, now: () => number): Keys {
  const sql = {
    find: db.prepare(`SELECT body_hash, subject FROM idempotency
      WHERE tenant = ? AND route = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)`),
    bind: db.prepare(`INSERT OR REPLACE INTO idempotency (tenant, route, key, body_hash, subject, created_at, expires_at)
      VALUES (?, ?, ?, ?, ?, ?, ?)`),
    release: db.prepare(`UPDATE idempotency INDEXED BY idempotency_run SET expires_at = created_at + ${DAY}
      WHERE tenant = ? AND subject = ? AND expires_at IS NULL`),
    expire: db.prepare(`DELETE FROM idempotency WHERE (tenant, route, key) IN
      (SELECT tenant, route, key FROM idempotency WHERE expires_at <= ? LIMIT ?)`)
  }
  const find: Keys['find'] = (tenant, route, key) => {
    const row = sql.find.get(tenant, route, key, now()) as KeyRow | undefined
    return row && { route, key, bodyHash: row.body_hash, subject: row.subject }
  }
  return {
    find,
    check (tenant, key) {
      const bound = key && find(tenant, key.route, key.key)
      if (bound && bound.bodyHash !== key.bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
      return bound?.subject
    },
    bind (tenant, { route, key, bodyHash, subject }, withRun) {
      const at = now()
      sql.bind.run(tenant, route, key, bodyHash, subject, at, withRun ? null : at + DAY)
    },
    releaseOf: (tenant, runId) => { sql.release.run(tenant, runId) },
    expire: (at, limit) => Number(sql.expire.run(at, limit).changes)
  }
}
