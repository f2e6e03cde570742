import { accessSync, closeSync, constants, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import { migrate } from './migrations.ts'

/** The one connection. PRIVATE: touches the file system and the pragmas; every other file here gets the open database. */

/** Primary result codes of SQLite. */
const SQLITE = {
  busy: 5, readOnly: 8, ioError: 10, corrupt: 11, cannotOpen: 14, notDatabase: 26,
  tooBig: 18, constraint: 19, mismatch: 20, range: 25
}
const OTHER_FILE = 'or set DATABASE_URL to another file'

/**
 * Opens (or creates, with its folder) the database and brings its schema up to date. The file is this process's alone
 * until it is closed. Throws an `Error` that names the path and what to do. `maxBytes`: the file grows no further.
 */
export function openDatabase (path: string, maxBytes?: number): DatabaseSync {
  let db: DatabaseSync | undefined
  try {
    if (path !== ':memory:') touch(path)
    db = new DatabaseSync(path, { enableForeignKeyConstraints: false, timeout: 0 })
    // Exclusive before WAL: the lock is held from the first access on, and no shared memory file is made.
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
    db.exec('PRAGMA temp_store = MEMORY; PRAGMA cache_size = -6000')
    // A log that is written over is cheaper to flush than one that grows, and a rare checkpoint copies less in all.
    db.exec('PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 33554432')
    db.exec('BEGIN IMMEDIATE; COMMIT')
    at('store/migrating')
    migrate(db)
    if (maxBytes !== undefined) db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / 4096))}`)
    return db
  } catch (error) {
    db?.close()
    throw cannotOpen(path, error)
  }
}

/** The error of a database that cannot be opened: its path, and what to do. */
export const cannotOpen = (path: string, error: unknown): Error =>
  new Error(`cannot open the database "${path}": ${reasonOf(error)}`, { cause: error })

/**
 * Transcripts are private: a new file and folder are the owner's alone. SQLite gives its side files the same mode. A file that is
 * there is not opened: closing it would drop the lock of another store of this process.
 */
function touch (path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) return closeSync(openSync(path, 'ax', 0o600))
  if (found.isDirectory()) throw Object.assign(new Error(`${path} is a folder`), { code: 'EISDIR' })
  accessSync(path, constants.R_OK | constants.W_OK)
}

function reasonOf (error: unknown): string {
  const { code } = error as { code?: unknown }
  switch (code) {
    case 'EACCES':
    case 'EPERM': return `permission denied. Give this user write access to the file and its folder, ${OTHER_FILE}`
    case 'EROFS': return `the file system is read-only. Mount it writable, ${OTHER_FILE}`
    case 'EISDIR': return 'it is a folder. Set DATABASE_URL to a file in it'
    case 'ENOTDIR':
    case 'EEXIST': return 'a part of the path is a file, not a folder. Set DATABASE_URL to another path'
    case 'ENOENT': return 'its folder cannot be created. Set DATABASE_URL to another path'
    case 'ENOSPC': return 'the disk is full. Make room'
    default:
  }
  switch (resultCode(error)) {
    case SQLITE.busy: return `it is in use by another process. Stop that process, ${OTHER_FILE}`
    case SQLITE.notDatabase: return `it is no SQLite database, or a damaged one. Restore it from a backup, ${OTHER_FILE}`
    case SQLITE.corrupt: return `the file is damaged. Restore it from a backup, ${OTHER_FILE}`
    case SQLITE.readOnly:
    case SQLITE.ioError:
    case SQLITE.cannotOpen:
      return `${messageOf(error)}. Give this user write access to the file and to its whole folder, ${OTHER_FILE}`
    default: return messageOf(error)
  }
}

/** SQLite's primary result code of an error; `undefined` when it is none of SQLite's. */
function resultCode (error: unknown): number | undefined {
  const { code, errcode } = error as { code?: unknown, errcode?: unknown }
  return code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number' ? errcode & 0xff : undefined
}

const OPERATIONS_OWN: ReadonlySet<number | undefined> = new Set([SQLITE.tooBig, SQLITE.constraint, SQLITE.mismatch, SQLITE.range])
/** The store itself failed (disk full, I/O error, …), whatever it was asked to do. Else the operation was wrong. */
export const isStoreFault = (error: unknown): boolean => {
  const code = resultCode(error)
  return code !== undefined && !OPERATIONS_OWN.has(code)
}
