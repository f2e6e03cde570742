import type { DatabaseSync } from 'node:sqlite'
import { setImmediate as turn } from 'node:timers/promises'
import { isRefusal } from '../core/errors.ts'
import type { SessionEvent } from '../core/events.ts'
import type { Page, PageSize, Store } from '../core/store.ts'
import { unavailable } from './commit-queue.ts'
import { isStoreFault } from './connection.ts'
import type { Durability } from './durability.ts'
import type { Journals } from './journals.ts'
import type { Keys } from './keys.ts'
import { createRunQueries } from './run-queries.ts'
import type { Room, Segments } from './segments.ts'
import type { Sessions } from './sessions.ts'
import { createReadTree, type ReadTree } from './tree.ts'

/** The reading half of the store. PRIVATE: touches no table; asks the other modules, long reads a piece at a time. */
export interface ReadParts {
  db: DatabaseSync
  segments: Segments
  sessions: Sessions
  journals: Journals
  keys: Keys
  durability: Pick<Durability, 'pending' | 'reach' | 'lost'>
  onFault: (error: unknown) => void
  isClosed: () => boolean
}

export type Reads = Pick<Store,
  'getRun' | 'getSpec' | 'listRuns' | 'descendants' | 'runningChildren' | 'treeUsage' | 'unsettledRuns' | 'runsOfSession' |
  'readEvents' | 'readEventPage' | 'readFrames' | 'readTree' | 'readTreePage' | 'getSession' | 'findIdempotency'>

/** Events read in one go, so that a long log does not hold the event loop. */
const STEP = 1000

/**
 * Reads see what is committed, and answer once no loss of power undoes what they saw. A failure of the store is a
 * `STORE_UNAVAILABLE` refusal, and its cause is told to `onFault`.
 */
export function createReads ({ db, segments, sessions, journals, keys, durability, onFault, isClosed }: ReadParts): Reads {
  const queries = createRunQueries(db)
  const readTree = createReadTree(db)

  function checkOpen (): void {
    if (isClosed()) throw unavailable(new Error('the store is closed'))
    if (durability.lost) throw durability.lost
  }

  async function read<T> (query: () => T | Promise<T>): Promise<T> {
    checkOpen()
    try {
      const found = await query()
      if (durability.pending) await durability.reach()
      return found
    } catch (error) {
      if (isRefusal(error) || !isStoreFault(error)) throw error
      onFault(error)
      throw unavailable(error)
    }
  }

  async function between (): Promise<void> {
    await turn()
    checkOpen()
  }

  async function readEvents (segment: number, from: number, to: number, limit: number): Promise<SessionEvent[]> {
    const events: SessionEvent[] = []
    while (events.length < limit) {
      if (events.length > 0) await between()
      const wanted = Math.min(STEP, limit - events.length)
      const piece = segments.read(segment, from + events.length, to, wanted)
      for (const event of piece) events.push(event)
      if (piece.length < wanted) break
    }
    return events
  }

  return {
    getRun: (tenant, id) => read(() => queries.get(tenant, id)),
    getSpec: (tenant, id) => read(() => queries.spec(tenant, id)),
    listRuns: (tenant, filter, page) => read(() => queries.list(tenant, filter, page, between)),
    descendants: (tenant, id) => read(() => queries.descendants(tenant, id)),
    runningChildren: (tenant, ids) => read(() => queries.runningChildren(tenant, ids)),
    treeUsage: (tenant, ids) => read(() => queries.treeUsage(tenant, ids)),
    unsettledRuns: () => read(() => queries.unsettled()),
    runsOfSession: (tenant, sessionId) => read(() => queries.ofSession(tenant, sessionId)),
    readEvents: (segment, from, to = Number.MAX_SAFE_INTEGER, limit = Number.MAX_SAFE_INTEGER) =>
      read(() => readEvents(segment, from, to, limit)),
    readFrames: (tenant, chat, from, limit) => read(() => {
      const run = queries.get(tenant, chat)
      return run ? journals.read(run, from, limit) : []
    }),
    ...createPages(read, segments, readTree),
    readTree: (tenant, runId, afterPos, limit) => read(() => readTree(tenant, runId, afterPos, limit)),
    getSession: (tenant, id) => read(() => sessions.get(tenant, id)),
    findIdempotency: (tenant, route, key) => read(() => keys.find(tenant, route, key))
  }
}

type Read = <T>(query: () => T) => Promise<T>

const createPages = (read: Read, segments: Segments, readTree: ReadTree): Pick<Store, 'readEventPage' | 'readTreePage'> => ({
  readEventPage: (segment, from, size) =>
    read(() => pageOf(size, (limit, room) => segments.read(segment, from, Number.MAX_SAFE_INTEGER, limit, room))),
  readTreePage: (tenant, runId, afterPos, size) =>
    read(() => pageOf(size, (limit, room) => readTree(tenant, runId, afterPos, limit, room)))
})

function pageOf<T> ({ limit, chars }: PageSize, readSome: (limit: number, room: Room) => T[]): Page<T> {
  const room = { chars }
  const events = readSome(limit, room)
  return { events, more: events.length >= limit || room.chars <= 0 }
}
