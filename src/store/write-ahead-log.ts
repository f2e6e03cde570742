import { closeSync, fdatasync, openSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'

/**
 * SQLite's write-ahead log as a file to flush. PRIVATE: the only one that touches it; never the database file itself, whose lock
 * the system drops when any descriptor of it is closed.
 */
export interface WriteAheadLog {
  /** Resolves once every write before the call is on the disk, without holding the event loop. */
  readonly flush: () => Promise<void>
  close (): void
}

/**
 * The log of an open database; `undefined` where nothing is on a disk. The connection keeps one file from its first access to its
 * close (checkpoints write it from the start again or cut it), so a descriptor opened now stays the right one.
 */
export function openWriteAheadLog (db: DatabaseSync): WriteAheadLog | undefined {
  const path = db.location()
  if (path === null) return undefined
  const file = openSync(`${path}-wal`, 'r+')
  return {
    flush: () => new Promise((resolve, reject) => {
      fdatasync(file, (error) => { if (error) reject(error); else resolve() })
    }),
    close: () => closeSync(file)
  }
}
