import type { DatabaseSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { NewEvent, SessionEvent } from '../core/events.ts'
import { unavailable } from './commit-queue.ts'
import type { Held } from './drafts.ts'
import type { Positions } from './positions.ts'
import { lengthOf, OWNED, type GetSegment, type SegmentRow } from './segment-rows.ts'
import { createSeedFinder, type SegmentSeed } from './seeds.ts'

/**
 * Logs as shared segments (driver.md 3.7): a base prefix by reference, own events after it. PRIVATE: touches `segments` and
 * `events`; garbage.ts removes from them, seeds.ts and tree.ts read them.
 */
export interface Segments {
  /** A segment that a session stands for, after `seed` events of another. */
  create (seed?: SegmentSeed): number
  /** A segment that nobody reads and that only those keep which refer to it. */
  createUnowned (seed?: SegmentSeed): number
  /** As `createUnowned`, and the seed that its events make. */
  createShared (events: readonly EncodedEvent[]): SegmentSeed
  /** A session stands for an unowned segment from here on; for `before`, its log so far, too, as long as the session is. */
  adopt (segment: number, before?: number): void
  /** The first `length` events of an owned segment, or of a draft; `undefined` when they are not there (any more). */
  seedOf (segment: number, length: number): SegmentSeed | undefined
  state (segment: number): SegmentState | undefined
  lengthOf (segment: number): number | undefined
  /** Throws unless an event `seq` is the log's next; writes nothing. */
  checkNext (segment: number, seq: number): void
  /** The transaction is over, or this segment lost its owner: what `checkNext` found is looked up anew. */
  forget (segment?: number): void
  /** Adds events at the end; a `turn/end` among them moves the completed length. */
  append (segment: number, events: readonly EncodedEvent[]): void
  /** The next events of [from, to), at most `limit`, and none once there is no room; none of a segment that nobody owns. */
  read (segment: number, from: number, to: number, limit: number, room?: Room): SessionEvent[]
}

/** Characters that events may still take; goes down as they are read. */
export interface Room { chars: number }
export interface SegmentState { length: number, completedLength: number, turns: number }
/** An event as its row holds it; made when the write is asked for, so that later changes of the object do not matter. */
export interface EncodedEvent { seq: number, time: number, type: string, data: string, /** Of a `turn/end`. */ turn?: number }

export function encodeEvents (events: readonly SessionEvent[]): EncodedEvent[] {
  return events.map((event, i) => {
    const expected = (events[0] as SessionEvent).seq + i
    if (event.seq !== expected) throw new Error(`an append's events must be contiguous: ${event.seq} where ${expected} follows`)
    const row = { seq: event.seq, time: event.time, type: event.type, data: JSON.stringify(event.data) }
    return event.type === 'turn/end' ? { ...row, turn: event.data.turn } : row
  })
}

export const encodeNewEvents = (events: readonly NewEvent[], from: number, time: number): EncodedEvent[] =>
  encodeEvents(events.map((event, i) => ({ ...event, seq: from + i, time }) as SessionEvent))

export function createSegments (db: DatabaseSync, positions: Positions, held: Held = new Set()): Segments {
  const sql = {
    get: db.prepare(`SELECT base, base_length, completed_length, turns, owned,
      (SELECT max(seq) FROM events WHERE segment = segments.id) AS last FROM segments WHERE id = ?`),
    insert: db.prepare('INSERT INTO segments (id, base, base_length, completed_length, turns, owned) VALUES (?, ?, ?, ?, ?, ?)'),
    own: db.prepare('UPDATE segments SET owned = ? WHERE id = ?'),
    complete: db.prepare('UPDATE segments SET completed_length = ?, turns = ? WHERE id = ?'),
    event: db.prepare('INSERT INTO events (segment, seq, pos, type, time, data) VALUES (?, ?, ?, ?, ?, ?)')
  }
  const get: GetSegment = (id) => sql.get.get(id) as unknown as SegmentRow | undefined
  const { grew, ...ends } = createEnds(get)

  function create (seed: SegmentSeed | undefined, owned: number): number {
    const id = positions.next()
    sql.insert.run(id, seed?.base ?? null, seed?.length ?? 0, seed?.completed ?? 0, seed?.turns ?? 0, owned)
    return id
  }

  function append (segment: number, events: readonly EncodedEvent[]): void {
    let end: EncodedEvent | undefined
    for (const event of events) {
      sql.event.run(segment, event.seq, positions.next(), event.type, event.time, event.data)
      if (event.turn !== undefined) end = event
    }
    if (end?.turn !== undefined) sql.complete.run(end.seq + 1, end.turn, segment)
    const last = events.at(-1)
    if (last) grew(segment, last.seq + 1)
  }

  return {
    create: (seed) => create(seed, OWNED.yes),
    createUnowned: (seed) => create(seed, OWNED.no),
    createShared (events) {
      const base = create(undefined, OWNED.no)
      append(base, events)
      const { completed_length: completed, turns } = get(base) as SegmentRow
      return { base, length: events.length, completed, turns }
    },
    adopt (segment, before) {
      sql.own.run(OWNED.yes, segment)
      if (before !== undefined) sql.own.run(OWNED.earlier, before)
    },
    seedOf: createSeedFinder(db, get, held),
    state (segment) {
      const row = get(segment)
      return row && { length: lengthOf(row), completedLength: row.completed_length, turns: row.turns }
    },
    ...ends,
    append,
    read: createReader(db, get)
  }
}

interface Ends extends Pick<Segments, 'lengthOf' | 'checkNext' | 'forget'> { readonly grew: (segment: number, length: number) => void }

/** Where the logs end that the open transaction appends to: a run's appends come several at a time. */
function createEnds (get: GetSegment): Ends {
  const lengths = new Map<number, number>()
  return {
    lengthOf (segment) {
      const row = lengths.has(segment) ? undefined : get(segment)
      return row ? lengthOf(row) : lengths.get(segment)
    },
    checkNext (segment, seq) {
      let next = lengths.get(segment)
      if (next === undefined) {
        const row = get(segment)
        if (!row || row.owned !== OWNED.yes) throw refuse('SESSION_NOT_FOUND', { id: `segment ${segment}` })
        next = lengthOf(row)
        lengths.set(segment, next)
      }
      // An earlier append of this log was lost: what follows it must not leave a hole.
      if (seq !== next) throw unavailable(new Error(`append of event ${seq} to segment ${segment}: its next is ${next}`))
    },
    grew (segment, length) { if (lengths.has(segment)) lengths.set(segment, length) },
    forget (segment) {
      if (segment === undefined) lengths.clear()
      else lengths.delete(segment)
    }
  }
}

type EventRow = [seq: number, type: string, time: number, data: string]

function createReader (db: DatabaseSync, get: GetSegment): Segments['read'] {
  const rows = db.prepare(`SELECT seq, type, time, data FROM events
    WHERE segment = ? AND seq >= ? AND seq < ? ORDER BY seq LIMIT ?`)
  rows.setReturnArrays(true)

  /** The segments that hold [from, to), the oldest first. */
  function partsOf (segment: number, from: number, to: number): { segment: number, from: number, to: number }[] {
    const parts = []
    let id: number | null = segment
    let end = to
    while (id !== null && from < end) {
      const row: SegmentRow | undefined = get(id)
      if (!row || (id === segment && row.owned === OWNED.no)) return []
      if (row.base_length < end) parts.unshift({ segment: id, from: Math.max(from, row.base_length), to: end })
      end = Math.min(end, row.base_length)
      id = row.base
    }
    return parts
  }

  return (segment, from, to, limit, room = { chars: Infinity }) => {
    const events: SessionEvent[] = []
    for (const part of partsOf(segment, from, to)) {
      if (events.length >= limit || room.chars <= 0) break
      for (const row of rows.iterate(part.segment, part.from, part.to, limit - events.length)) {
        const [seq, type, time, data] = row as unknown as EventRow
        events.push({ type, seq, time, data: JSON.parse(data) } as SessionEvent)
        room.chars -= data.length
        if (room.chars <= 0) break
      }
    }
    return events
  }
}
