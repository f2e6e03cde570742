import type { DatabaseSync } from 'node:sqlite'
import type { Keys } from './keys.ts'
import type { RunPatches } from './run-patches.ts'
import type { ForgottenRun, RunWrites } from './runs.ts'

/**
 * Which settled runs go, and when (http-api.md §9). PRIVATE: touches `expires_at` of settled rows in `runs`; runs.ts forgets.
 *
 * A run goes when its time has come and its parent is gone: so whoever is still there has all its descendants, and its tree, its
 * usage and its cancellation are whole. One that waits for its parent alone has no time of its own (`expires_at` NULL, or the
 * parent's) until that is gone. What nobody has settled never goes.
 */
export interface Retention {
  /** The first tenant after one, in their order; `undefined` after the last. */
  tenantAfter (tenant: string): string | undefined
  /** The place so many runs before another; `undefined` when there are no more than those. */
  before (tenant: string, place: Due, runs: number): Due | undefined
  /** Gives the operation that forgets some of a tenant's runs up to `due`; `handled` is 0 when nothing is left to do. */
  expire (tenant: string, due: Due): () => { gone: number, handled: number }
}

/** A place in the order in which a tenant's runs expire. */
export interface Due { expiresAt: number, n: number }

/** All of them; all that expire by a time. */
export const LAST: Due = { expiresAt: Number.MAX_SAFE_INTEGER, n: Number.MAX_SAFE_INTEGER }
export const dueBy = (time: number): Due => ({ expiresAt: time, n: Number.MAX_SAFE_INTEGER })
export const laterOf = (a: Due, b: Due | undefined): Due =>
  !b || a.expiresAt > b.expiresAt || (a.expiresAt === b.expiresAt && a.n >= b.n) ? a : b

/** Runs looked at in one operation; it ends sooner when it took long: a result may be large. */
const RUNS = 100
const STEP_MS = 5

interface Row extends ForgottenRun { parent_run: string | null, expires_at: number }
interface Parent { n: number, status: string, expires_at: number | null }

export interface RetentionParts {
  db: DatabaseSync
  runs: Pick<RunWrites, 'forget'>
  patches: Pick<RunPatches, 'flush'>
  keys: Keys
}

export function createRetention ({ db, runs, patches, keys }: RetentionParts): Retention {
  const sql = {
    tenant: db.prepare('SELECT min(tenant) AS tenant FROM runs WHERE tenant > ?'),
    before: db.prepare(`SELECT expires_at AS expiresAt, n FROM runs INDEXED BY runs_expiry
      WHERE tenant = ?1 AND expires_at <= ?2 AND (expires_at < ?2 OR n < ?3) ORDER BY expires_at DESC, n DESC LIMIT 1 OFFSET ?4`),
    due: db.prepare(`SELECT n, tenant, id, session, segment, first_seq, external, parent_run, expires_at
      FROM runs INDEXED BY runs_expiry WHERE tenant = ?1 AND expires_at <= ?2 AND (expires_at < ?2 OR n <= ?3)
      AND status = 'settled' ORDER BY expires_at, n LIMIT ${RUNS}`),
    parent: db.prepare('SELECT n, status, expires_at FROM runs WHERE tenant = ? AND id = ?'),
    wait: db.prepare('UPDATE runs SET expires_at = ? WHERE n = ?'),
    waiting: db.prepare(`UPDATE runs SET expires_at = ?1 WHERE n IN (SELECT n FROM runs INDEXED BY runs_parent
      WHERE tenant = ?2 AND parent_run = ?3 AND status = 'settled' AND expires_at IS NULL LIMIT ${RUNS})`)
  }

  /** The parent that a run waits for. An id that was used again is no parent: its run came later. */
  function parentOf ({ tenant, parent_run: id, n, expires_at: at }: Row): Parent | undefined {
    const parent = id === null ? undefined : sql.parent.get(tenant, id) as Parent | undefined
    if (!parent || parent.n > n) return undefined
    return parent.status === 'settled' && parent.expires_at !== null && parent.expires_at <= at ? undefined : parent
  }

  /** False: its children are too many for one operation. */
  function forget (run: Row): boolean {
    if (Number(sql.waiting.run(run.expires_at, run.tenant, run.id).changes) === RUNS) return false
    runs.forget(run)
    keys.releaseOf(run.tenant, run.id)
    return true
  }

  return {
    tenantAfter: (tenant) => sql.tenant.get(tenant)?.tenant as string | undefined ?? undefined,
    before: (tenant, { expiresAt, n }, count) => sql.before.get(tenant, expiresAt, n, count - 1) as Due | undefined,
    expire: (tenant, due) => () => {
      patches.flush()
      const until = performance.now() + STEP_MS
      let gone = 0
      let handled = 0
      for (const run of sql.due.all(tenant, due.expiresAt, due.n) as unknown as Row[]) {
        const parent = parentOf(run)
        handled++
        if (parent) sql.wait.run(parent.status === 'settled' ? parent.expires_at : null, run.n)
        else if (forget(run)) gone++
        else break
        if (performance.now() > until) break
      }
      return { gone, handled }
    }
  }
}
