import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { refuse } from '../core/errors.ts'
import type { RunPatch, RunStatus } from '../core/run.ts'
import { patchColumns } from './run-rows.ts'

/** Changes of runs, merged to one UPDATE a run and transaction. PRIVATE: touches `runs`, its mutable columns only. */
export interface RunPatches {
  /** A run that may still change. Throws `RUN_NOT_FOUND`, and `RUN_SETTLED`: a settled run never changes (http-api.md 7.3). */
  open (tenant: string, id: string): OpenRun
  /** `end`: the length of the log after the write that the patch belongs to. */
  add (run: OpenRun, patch: EncodedPatch, end: number | null): void
  /** Writes what was added. Before the commit, and before any other statement that reads what runs are. */
  flush (): void
  /** After a rollback. */
  forget (): void
}

export interface OpenRun { n: number, settled: boolean, columns: Map<string, SQLInputValue> }
export interface EncodedPatch { columns: Record<string, SQLInputValue>, settles: boolean }

/** As the row will hold it; a run that settles expires `retentionMs` later where the patch says nothing of it. */
export function encodePatch (patch: RunPatch, retentionMs: number | undefined): EncodedPatch {
  const settles = patch.status === 'settled'
  const { settledAt, expiresAt } = patch
  const expires = settles && expiresAt === undefined && retentionMs !== undefined && typeof settledAt === 'number'
  return { columns: patchColumns(expires ? { ...patch, expiresAt: settledAt + retentionMs } : patch), settles }
}

export function createRunPatches (db: DatabaseSync): RunPatches {
  const find = db.prepare('SELECT n, status FROM runs WHERE tenant = ? AND id = ?')
  const updates = new Map<string, StatementSync>()
  const touched = new Map<string, OpenRun>()

  function update (columns: string): StatementSync {
    const known = updates.get(columns)
    if (known) return known
    const made = db.prepare(`UPDATE runs SET ${columns} WHERE n = ?`)
    updates.set(columns, made)
    return made
  }

  return {
    open (tenant, id) {
      const key = `${tenant}\n${id}`
      let run = touched.get(key)
      if (!run) {
        const row = find.get(tenant, id) as { n: number, status: RunStatus } | undefined
        if (!row) throw refuse('RUN_NOT_FOUND', { id })
        run = { n: row.n, settled: row.status === 'settled', columns: new Map() }
        touched.set(key, run)
      }
      if (run.settled) throw refuse('RUN_SETTLED', { id })
      return run
    },
    add (run, { columns, settles }, end) {
      for (const [column, value] of Object.entries(columns)) run.columns.set(column, value)
      if (!settles) return
      run.settled = true
      if (end !== null) run.columns.set('end_seq', end)
    },
    flush () {
      for (const { n, columns } of touched.values()) {
        if (columns.size > 0) update([...columns.keys()].map((column) => `${column} = ?`).join(', ')).run(...columns.values(), n)
      }
      touched.clear()
    },
    forget () { touched.clear() }
  }
}
