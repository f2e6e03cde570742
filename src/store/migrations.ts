import type { DatabaseSync } from 'node:sqlite'
import { initial } from './migrations/0001-initial.ts'
import { externalChats } from './migrations/0002-external-chats.ts'
import { retention } from './migrations/0003-retention.ts'

/** The schema's versions, in order. PRIVATE: touches `user_version` and `application_id`; only connection.ts calls it. */
const MIGRATIONS: readonly string[] = [initial, externalChats, retention]
export const SCHEMA_VERSION = MIGRATIONS.length
/** Marks the file as ours, so that another program's database is not migrated into one. */
const APPLICATION_ID = 0x5b_a6_e7_d0

/** Brings the database to `SCHEMA_VERSION`, each version in its own transaction. Throws an `Error` that says what is wrong. */
export function migrate (db: DatabaseSync): void {
  const version = pragma(db, 'user_version')
  if (version > SCHEMA_VERSION) {
    throw new Error(`it was written by a newer version (schema ${version}, this one knows ${SCHEMA_VERSION}): run that version`)
  }
  const owner = pragma(db, 'application_id')
  const foreign = owner === 0 ? db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() !== undefined : owner !== APPLICATION_ID
  if (foreign) throw new Error('it is a database of another program')
  for (let at = version; at < SCHEMA_VERSION; at++) {
    const mark = `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${at + 1}`
    db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[at]}; ${mark}; COMMIT`)
  }
}

const pragma = (db: DatabaseSync, name: string): number => Number(db.prepare(`PRAGMA ${name}`).get()?.[name])
