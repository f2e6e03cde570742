import type { DatabaseSync } from 'node:sqlite'
import { at } from '../core/fault-point.ts'
import type { Store } from '../core/store.ts'
import { CommitQueue, type Transaction } from './commit-queue.ts'
import { cannotOpen, isStoreFault, openDatabase } from './connection.ts'
import { createDrafts, type Held } from './drafts.ts'
import { Durability } from './durability.ts'
import { createGarbage } from './garbage.ts'
import { createHostSessions } from './host-sessions.ts'
import { createJournals } from './journals.ts'
import { createKeys } from './keys.ts'
import { createObserve, createPlaceOf } from './observations.ts'
import { createPositions, type Positions } from './positions.ts'
import { createReads } from './reads.ts'
import { createRetention } from './retention.ts'
import { createRunPatches, type RunPatches } from './run-patches.ts'
import { createRunWrites } from './runs.ts'
import { createSegments, type Segments } from './segments.ts'
import { createSessionWrites } from './session-writes.ts'
import { createSessions } from './sessions.ts'
import { sweep } from './sweep.ts'
import { openWriteAheadLog, type WriteAheadLog } from './write-ahead-log.ts'

/**
 * The embedded store: one SQLite file, one connection, one writer. PRIVATE: wires the modules of this folder and touches no
 * table but `counters`, to try a write. Reads see what is committed; nothing is kept in memory of what the file holds.
 */
export interface SqliteStoreOptions {
  /** A file, made with its folder where missing; `:memory:` for a store that goes with the process. */
  path: string
  now: () => number
  /** How long a settled run stays where its patch does not say, and a host's session that nobody touches. */
  retentionMs?: number
  /** So many settled runs of a tenant are kept at most, the newest. */
  retentionRuns?: number
  /** Told of each failure of the store itself (disk full, I/O error), once. */
  onFault?: (error: unknown) => void
  /** The file grows no further; past it writes fail as on a full disk. */
  maxBytes?: number
}

/** Opens the store. Rejects with an `Error` that names the path and what to do about it. */
export async function openSqliteStore (options: SqliteStoreOptions): Promise<Store> {
  const db = openDatabase(options.path, options.maxBytes)
  let wal: WriteAheadLog | undefined
  try {
    wal = openWriteAheadLog(db)
    // What a killed process had written but not flushed is read from here on: now it stays.
    await wal?.flush()
    at('store/opened')
    return createStore(db, wal, options)
  } catch (error) {
    wal?.close()
    db.close()
    throw cannotOpen(options.path, error)
  }
}

function createStore (db: DatabaseSync, wal: WriteAheadLog | undefined, options: SqliteStoreOptions): Store {
  const { now, retentionMs, retentionRuns, onFault = () => {} } = options
  const positions = createPositions(db)
  const patches = createRunPatches(db)
  const held: Held = new Set()
  const segments = createSegments(db, positions, held)
  const garbage = createGarbage(db, held)
  const keys = createKeys(db, now)
  const sessions = createSessions(db, segments, garbage, now)
  const hostSessions = createHostSessions({ db, segments, sessions, garbage, keys, now })
  const journals = createJournals(db)
  const runs = createRunWrites({ db, segments, sessions, journals, keys, patches, now, retentionMs })
  const retention = createRetention({ db, runs, patches, keys })
  const durability = new Durability({ flush: wal?.flush, onFault })
  const transaction = createTransaction({ db, positions, patches, segments, onFault })
  const queue = new CommitQueue(transaction, durability)
  const drafts = createDrafts({ queue, segments, garbage, held })
  let closing: Promise<void> | undefined
  const reads = createReads({ db, segments, sessions, journals, keys, durability, onFault, isClosed: () => closing !== undefined })
  const observe = createObserve({ queue, runs, journals, placeOf: createPlaceOf(db) })
  const pinged = db.prepare("UPDATE counters SET value = value + 1 WHERE name = 'ping'")

  return {
    async publish (publication) {
      const { seed } = publication
      const place = await queue.write(runs.publish(publication), 'written')
      if (seed && 'segment' in seed) drafts.letGo(seed.segment)
      return place
    },
    keepSeed: async (events, signal) => {
      const { segment, length } = await drafts.write(events, now(), () => undefined, signal)
      return { segment, length }
    },
    dropSeed: (segment) => drafts.letGo(segment),
    append: async (append) => queue.write(runs.append(append)),
    observe,
    patchRun: async (tenant, id, patch) => queue.write(runs.patch(tenant, id, patch)),
    deleteRuns: async (tenant, ids) => queue.write(runs.remove(tenant, [...ids])),
    ...createSessionWrites({ queue, drafts, hostSessions, now }),
    deleteSession: async (tenant, id) => queue.write(() => sessions.remove(tenant, id)),
    ...reads,
    durable: () => durability.reach(),
    sweep: (now, signal) => sweep({ queue, retention, sessions, garbage, journals, keys, retentionMs, retentionRuns, signal }, now),
    ping: () => queue.write(() => { pinged.run() }),
    close () {
      closing ??= queue.close().then(() => {
        closeDatabase(db, durability, onFault)
      }).finally(() => wal?.close())
      return closing
    }
  }
}

type OnFault = (error: unknown) => void

interface TransactionParts { db: DatabaseSync, positions: Positions, patches: RunPatches, segments: Segments, onFault: OnFault }

function createTransaction ({ db, positions, patches, segments, onFault }: TransactionParts): Transaction {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const rollback = db.prepare('ROLLBACK')
  return {
    begin: () => { begin.run() },
    commit () {
      patches.flush()
      segments.forget()
      commit.run()
    },
    rollback () {
      patches.forget()
      segments.forget()
      positions.forget()
      if (db.isTransaction) rollback.run()
    },
    isStoreFault,
    onFault
  }
}

/**
 * The write-ahead log goes into the file; where that fails it stays beside it, and the next start reads it. One that could not
 * be flushed is not read here: the next start checks each of its pages.
 */
function closeDatabase (db: DatabaseSync, { lost }: Durability, onFault: OnFault): void {
  try {
    at('store/closing')
    if (!lost) db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    at('store/checkpointed')
  } catch (error) {
    onFault(error)
  } finally {
    db.close()
  }
}
