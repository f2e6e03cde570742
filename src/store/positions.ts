import type { DatabaseSync } from 'node:sqlite'

/** Numbers that only grow, over restarts too. PRIVATE: touches `counters`. */
export interface Positions {
  /** The next number. Within a transaction only. */
  next (): number
  /** After a rollback: what was reserved in it is reserved anew. */
  forget (): void
}

/** Numbers are reserved in blocks, so that most transactions write no counter; a restart leaves a gap. */
const BLOCK = 100_000

export function createPositions (db: DatabaseSync): Positions {
  const reserve = db.prepare("UPDATE counters SET value = ? WHERE name = 'position'")
  let last = Number(db.prepare("SELECT value FROM counters WHERE name = 'position'").get()?.value)
  let reserved = last
  return {
    next () {
      if (last >= reserved) {
        reserve.run(last + BLOCK)
        reserved = last + BLOCK
      }
      return ++last
    },
    forget () { reserved = last }
  }
}
