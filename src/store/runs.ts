import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { RunPatch } from '../core/run.ts'
import type { Append, Publication } from '../core/store.ts'
import type { Journals } from './journals.ts'
import { usedKey, type Keys } from './keys.ts'
import { encodePatch, type EncodedPatch, type RunPatches } from './run-patches.ts'
import { insertColumns, type RunRow } from './run-rows.ts'
import type { SegmentSeed } from './seeds.ts'
import { encodeEvents, encodeNewEvents, type EncodedEvent, type Segments } from './segments.ts'
import type { Sessions } from './sessions.ts'

/**
 * Writes of runs. PRIVATE: touches `runs` and `specs`; sessions, logs and keys through their own modules. Each function
 * encodes its argument at once and gives the operation to run in a transaction, which checks before it writes.
 */
export interface RunWrites {
  publish (publication: Publication): () => { segment: number, firstSeq: number }
  append (append: Append): () => void
  /** As `append`, of a log whose segment is known only in the transaction. */
  appendTo (append: Omit<Append, 'segment'>): (segment: number) => void
  patch (tenant: string, id: string, patch: RunPatch): () => void
  /** Forgets those of the runs that are settled, and each session whose last run goes. */
  remove (tenant: string, ids: readonly string[]): () => void
  /** Forgets a settled run, and its session with the last of its runs; within a transaction. */
  forget (run: ForgottenRun): void
}

export type ForgottenRun = Pick<RunRow, 'n' | 'tenant' | 'id' | 'session' | 'segment' | 'first_seq' | 'external'>

export interface RunWriteParts {
  db: DatabaseSync
  segments: Segments
  sessions: Sessions
  journals: Journals
  keys: Keys
  patches: RunPatches
  now: () => number
  retentionMs: number | undefined
}

type EncodedSeed = { segment: number, length: number } | { events: EncodedEvent[] } | undefined

export function createRunWrites (parts: RunWriteParts): RunWrites {
  const { db, segments, keys, patches, retentionMs } = parts
  const publish = createPublish(parts)
  const forget = createForget(parts)
  const find = db.prepare(`SELECT n, tenant, id, session, segment, first_seq, external FROM runs
    WHERE tenant = ? AND id = ? AND status = 'settled'`)
  const segmentOf = db.prepare('SELECT segment FROM runs WHERE n = ?')
  /** A run's own events end where its log ends as it settles; what follows is a follow-up's. */
  const endOf = (segment: number, { settles }: EncodedPatch): number | null =>
    settles ? segments.lengthOf(segment) ?? null : null

  function appendTo ({ events, run, idempotency }: Omit<Append, 'segment'>): (segment: number) => void {
    const rows = encodeEvents(events)
    const patch = run && encodePatch(run.patch, retentionMs)
    return (segment) => {
      const open = run && patches.open(run.tenant, run.id)
      if (idempotency && keys.check(idempotency.tenant, idempotency) !== undefined) throw usedKey()
      if (rows[0]) segments.checkNext(segment, rows[0].seq)
      segments.append(segment, rows)
      if (open && patch) patches.add(open, patch, endOf(segment, patch))
      if (idempotency) keys.bind(idempotency.tenant, idempotency, false)
    }
  }

  return {
    publish,
    append ({ segment, ...append }) {
      const write = appendTo(append)
      return () => write(segment)
    },
    appendTo,
    patch (tenant, id, change) {
      const patch = encodePatch(change, retentionMs)
      return () => {
        const open = patches.open(tenant, id)
        patches.add(open, patch, patch.settles ? endOf(Number(segmentOf.get(open.n)?.segment), patch) : null)
      }
    },
    remove: (tenant, ids) => () => {
      patches.flush()
      for (const id of ids) {
        const row = find.get(tenant, id) as unknown as ForgottenRun | undefined
        if (!row) continue
        forget(row)
        keys.releaseOf(tenant, id)
      }
    },
    forget
  }
}

/** The run that made the session ?2 of the tenant ?1, and those that continue it. Two searches: an OR would scan. */
const runsOfSession = (condition: string): string =>
  `SELECT 1 FROM runs INDEXED BY runs_id WHERE tenant = ?1 AND id = ?2 AND ${condition} UNION ALL
   SELECT 1 FROM runs INDEXED BY runs_session WHERE tenant = ?1 AND session = ?2 AND continues IS NOT NULL AND ${condition}`

function createPublish ({ db, segments, sessions, keys, patches, now }: RunWriteParts): RunWrites['publish'] {
  const check = createPublishCheck(db, keys)
  const insert = createInsert(db)
  const openRun = db.prepare(`${runsOfSession("status <> 'settled'")} LIMIT 1`)

  /** The segment to share; refuses when it is gone. */
  function seedOf (seed: EncodedSeed, sessionId: string): (() => SegmentSeed) | undefined {
    if (seed === undefined) return undefined
    if ('events' in seed) return () => segments.createShared(seed.events)
    const found = segments.seedOf(seed.segment, seed.length)
    if (!found) throw refuse('SESSION_NOT_FOUND', { id: sessionId })
    return () => found
  }

  return (publication) => {
    const { run, header, idempotency } = publication
    const seed = encodeSeed(publication, now)
    const columns = insertColumns(run)
    const spec = JSON.stringify(publication.spec)
    const headerText = JSON.stringify(header)
    return () => {
      if (run.parentRunId !== null || run.continues !== null) patches.flush()
      check(publication)
      if (run.continues !== null) {
        const session = sessions.segmentOf(run.tenant, run.sessionId)
        const state = session === undefined ? undefined : segments.state(session)
        if (session === undefined || !state) throw refuse('SESSION_NOT_FOUND', { id: run.sessionId })
        if (openRun.get(run.tenant, run.sessionId)) {
          throw refuse('SESSION_CONFLICT', { detail: `session "${run.sessionId}" has an open run`, length: state.length })
        }
        if (publication.after !== undefined && state.length !== publication.after) {
          throw refuse('SESSION_CONFLICT', { detail: `session "${run.sessionId}" went on meanwhile`, length: state.length })
        }
        insert(columns, session, state.length, spec)
        if (idempotency) keys.bind(run.tenant, { ...idempotency, subject: run.id }, true)
        return { segment: session, firstSeq: state.length }
      }
      if (sessions.segmentOf(run.tenant, run.sessionId) !== undefined) throw refuse('RUN_EXISTS', { id: run.id })
      const shared = seedOf(seed, run.parentSessionId ?? run.sessionId)?.()
      const segment = segments.create(shared)
      const firstSeq = shared?.length ?? 0
      sessions.insertOwn(run.tenant, run.sessionId, segment, headerText)
      insert(columns, segment, firstSeq, spec)
      if (idempotency) keys.bind(run.tenant, { ...idempotency, subject: run.id }, true)
      return { segment, firstSeq }
    }
  }
}

/** Throws when the seed is not what the run's row says of it: then a reader would take a seeded message for the child's. */
function encodeSeed ({ run, seed }: Publication, now: () => number): EncodedSeed {
  if (run.continues !== null) return undefined
  const length = seed === undefined ? 0 : 'events' in seed ? seed.events.length : seed.length
  if (length !== run.seed.events) throw new Error(`run ${run.id} says its seed has ${run.seed.events} events, it has ${length}`)
  if (seed === undefined || length === 0) return undefined
  return 'events' in seed ? { events: encodeNewEvents(seed.events, 0, now()) } : seed
}

/** Whatever can refuse a publication, but for its session and its seed; in the order of http-api.md 5.4. */
function createPublishCheck (db: DatabaseSync, keys: Keys): (publication: Publication) => void {
  const exists = db.prepare('SELECT 1 FROM runs WHERE tenant = ? AND id = ?')
  // An id that was used again is no parent of those that its first run started.
  const parentCancel = db.prepare(`SELECT cancel FROM runs WHERE tenant = ?1 AND id = ?2
    AND n < coalesce((SELECT n FROM runs WHERE tenant = ?1 AND id = ?3), ${Number.MAX_SAFE_INTEGER})`)
  const treeSize = db.prepare(`SELECT count(*) AS runs FROM (SELECT 1 FROM runs WHERE tenant = ?1 AND root = ?2 AND root <> id
    UNION ALL SELECT 1 FROM runs WHERE tenant = ?1 AND id = ?2 LIMIT ?3)`)
  return ({ run, treeRuns, idempotency, observed }) => {
    const bound = keys.check(run.tenant, idempotency)
    if (bound !== undefined) throw refuse('RUN_EXISTS', { id: bound })
    if (exists.get(run.tenant, run.id)) throw refuse('RUN_EXISTS', { id: run.id })
    if (run.parentRunId !== null) {
      const parent = parentCancel.get(run.tenant, run.parentRunId, run.continues)
      // Whoever goes on with a run outlives its parent: that one may have expired, and then nobody's cancellation reaches it.
      const isGone = !parent && run.continues === null
      if (isGone || (parent && parent.cancel !== null && !observed)) throw refuse('PARENT_ABORTED', { id: run.parentRunId })
    }
    if (treeRuns === undefined) return
    const size = run.rootId === run.id ? 0 : Number(treeSize.get(run.tenant, run.rootId, treeRuns)?.runs)
    if (size + 1 > treeRuns) throw refuse('TREE_LIMIT', { limit: treeRuns })
  }
}

const NEW_RUN_COLUMNS = [
  'tenant', 'id', 'session', 'continues', 'provider', 'label', 'depth', 'parent_run', 'parent_session', 'root', 'seed_turns',
  'seed_events', 'created_at', 'model', 'metadata', 'status', 'stop_reason', 'started_at', 'settled_at', 'expires_at', 'usage',
  'cancel', 'error', 'notices', 'pending', 'result', 'external'
] as const

type InsertRun = (columns: Record<string, SQLInputValue>, segment: number, firstSeq: number, spec: string) => void

function createInsert (db: DatabaseSync): InsertRun {
  const run = db.prepare(`INSERT INTO runs (segment, first_seq, end_seq, ${NEW_RUN_COLUMNS.join(', ')})
    VALUES (?, ?, ?, ${NEW_RUN_COLUMNS.map(() => '?').join(', ')})`)
  const specs = db.prepare('INSERT INTO specs (run, spec) VALUES (?, ?)')
  return (columns, segment, firstSeq, spec) => {
    const values = NEW_RUN_COLUMNS.map((column) => columns[column] ?? null)
    const { lastInsertRowid } = run.run(segment, firstSeq, columns.status === 'settled' ? firstSeq : null, ...values)
    specs.run(lastInsertRowid, spec)
  }
}

function createForget ({ db, sessions, journals }: RunWriteParts): (run: ForgottenRun) => void {
  const removeSpec = db.prepare('DELETE FROM specs WHERE run = ?')
  const removeRun = db.prepare('DELETE FROM runs WHERE n = ?')
  const other = db.prepare(`${runsOfSession('true')} LIMIT 1`)
  return (run) => {
    removeSpec.run(run.n)
    removeRun.run(run.n)
    if (run.external !== null) journals.release({ segment: run.segment, firstSeq: run.first_seq })
    if (!other.get(run.tenant, run.session)) sessions.remove(run.tenant, run.session)
  }
}
