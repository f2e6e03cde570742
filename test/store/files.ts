import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'

/** Stores in files that go with the test. */

export const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
export const newPath = (): string => join(newFolder(), 'data', 'store.db')

/** Counts of rows, read from the closed file. */
export function rowsOf (path: string): Record<string, number> {
  const db = new DatabaseSync(path, { readOnly: true })
  const count = (table: string): number => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n)
  const tables = ['events', 'segments', 'runs', 'specs', 'sessions', 'idempotency', 'garbage']
  const counts = Object.fromEntries(tables.map((table) => [table, count(table)]))
  db.close()
  return counts
}
