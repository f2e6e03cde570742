import type { DatabaseSync } from 'node:sqlite'
import type { SessionEvent } from '../core/events.ts'
import type { TreeEvent } from '../core/store.ts'
import { TREE } from './run-queries.ts'
import type { Room } from './segments.ts'

/** The events of a tree in the one order of the store (http-api.md 6.1). PRIVATE: reads `runs`, `segments`, `events`. */
export type ReadTree = (tenant: string, runId: string, afterPos: number, limit: number, room?: Room) => TreeEvent[]

/** Rows read at a time of each log that is merged. */
const CHUNK = 16

interface Range { id: string, segment: number, first_seq: number, end_seq: number | null }
type Row = [seq: number, pos: number, type: string, time: number, data: string]

export function createReadTree (db: DatabaseSync): ReadTree {
  const sql = {
    ranges: db.prepare(`${TREE} SELECT runs.id, runs.segment, runs.first_seq, runs.end_seq
      FROM tree CROSS JOIN runs ON runs.tenant = ?1 AND runs.id = tree.id
      CROSS JOIN segments ON segments.id = runs.segment AND segments.owned = 1`),
    last: db.prepare('SELECT seq, pos FROM events WHERE segment = ? AND seq >= ? AND seq < ? ORDER BY seq DESC LIMIT 1'),
    pos: db.prepare('SELECT pos FROM events WHERE segment = ? AND seq = ?'),
    rows: db.prepare(`SELECT seq, pos, type, time, data FROM events WHERE segment = ? AND seq >= ? AND seq < ?
      ORDER BY seq LIMIT ?`)
  }
  sql.rows.setReturnArrays(true)

  /** The first event of the range after `pos`; `undefined` when there is none. Within a segment pos grows with seq. */
  function firstAfter ({ segment, first_seq: first, end_seq: end }: Range, pos: number): number | undefined {
    const last = sql.last.get(segment, first, end ?? Number.MAX_SAFE_INTEGER) as { seq: number, pos: number } | undefined
    if (!last || last.pos <= pos) return undefined
    let low = first
    let high = last.seq
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (Number(sql.pos.get(segment, middle)?.pos) > pos) high = middle
      else low = middle + 1
    }
    return low
  }

  return (tenant, runId, afterPos, limit, room = { chars: Infinity }) => {
    const readers: RangeReader[] = []
    for (const range of sql.ranges.all(tenant, JSON.stringify([runId])) as unknown as Range[]) {
      const seq = firstAfter(range, afterPos)
      if (seq === undefined) continue
      const read = (from: number): Row[] =>
        sql.rows.all(range.segment, from, range.end_seq ?? Number.MAX_SAFE_INTEGER, Math.min(limit, CHUNK)) as unknown as Row[]
      readers.push(new RangeReader(range.id, seq, read))
    }
    return merge(readers, limit, room)
  }
}

function merge (readers: RangeReader[], limit: number, room: Room): TreeEvent[] {
  const events: TreeEvent[] = []
  while (events.length < limit && room.chars > 0) {
    let next: RangeReader | undefined
    let other = Infinity
    for (const reader of readers) {
      if (reader.pos < (next?.pos ?? Infinity)) {
        other = next?.pos ?? Infinity
        next = reader
      } else if (reader.pos < other) other = reader.pos
    }
    if (!next) break
    while (next.pos < other && events.length < limit && room.chars > 0) {
      room.chars -= next.chars
      events.push(next.take())
    }
  }
  return events
}

/** Goes through one run's own events, a chunk in memory at a time. */
class RangeReader {
  readonly #id: string
  readonly #read: (from: number) => Row[]
  #rows: Row[]
  #at = 0

  constructor (id: string, from: number, read: (from: number) => Row[]) {
    this.#id = id
    this.#read = read
    this.#rows = read(from)
  }

  /** Place of the next event; `Infinity` when there is none. */
  get pos (): number { return this.#rows[this.#at]?.[1] ?? Infinity }

  /** How long its text is. */
  get chars (): number { return this.#rows[this.#at]?.[4].length ?? 0 }

  take (): TreeEvent {
    const [seq, pos, type, time, data] = this.#rows[this.#at++] as Row
    if (this.#at === this.#rows.length) {
      this.#rows = this.#read(seq + 1)
      this.#at = 0
    }
    return { runId: this.#id, pos, event: { type, seq, time, data: JSON.parse(data) } as SessionEvent }
  }
}
