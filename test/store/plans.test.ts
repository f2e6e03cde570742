import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { Durability } from '../../src/store/durability.ts'
import { createGarbage } from '../../src/store/garbage.ts'
import { createHostSessions } from '../../src/store/host-sessions.ts'
import { createJournals } from '../../src/store/journals.ts'
import { createKeys } from '../../src/store/keys.ts'
import { migrate } from '../../src/store/migrations.ts'
import { createPositions } from '../../src/store/positions.ts'
import { createReads } from '../../src/store/reads.ts'
import { createRetention } from '../../src/store/retention.ts'
import { createRunPatches } from '../../src/store/run-patches.ts'
import { createRunWrites } from '../../src/store/runs.ts'
import { createSegments } from '../../src/store/segments.ts'
import { createSessions } from '../../src/store/sessions.ts'

/** Keeps the text of every statement that is prepared. */
class WatchedDatabase extends DatabaseSync {
  readonly statements = new Set<string>()
  override prepare (sql: string): ReturnType<DatabaseSync['prepare']> {
    this.statements.add(sql)
    return super.prepare(sql)
  }
}

/** All rows of a table, or all of a tenant's. */
const WIDE = /^SCAN (?!tree\b|json_each\b|\(subquery)|\((tenant=\?|ANY\(\w+\).*)\)$/
/** The one list of a tenant in its order, which stops at a page; the open runs, few; the work list of sweep. */
const ALLOWED = [
  /^SEARCH runs USING INDEX runs_open \(tenant=\?\)$/, /^SCAN runs USING INDEX runs_open$/, /^SCAN (frame_)?garbage$/
]

test('every statement finds its rows by a narrow index: none goes through a table, nor through all of a tenant', async () => {
  const db = new WatchedDatabase(':memory:')
  migrate(db)
  db.statements.clear()
  const now = () => 0
  const positions = createPositions(db)
  const segments = createSegments(db, positions)
  const keys = createKeys(db, now)
  const garbage = createGarbage(db)
  const sessions = createSessions(db, segments, garbage, now)
  createHostSessions({ db, segments, sessions, garbage, keys, now })
  const patches = createRunPatches(db)
  const journals = createJournals(db)
  const runs = createRunWrites({ db, segments, sessions, journals, keys, patches, now, retentionMs: undefined })
  createRetention({ db, runs, patches, keys })
  const durability = new Durability({ onFault: () => {} })
  const onFault = (error: unknown): never => { throw error }
  const reads = createReads({ db, segments, sessions, journals, keys, durability, onFault, isClosed: () => false })
  const before = { createdAt: 1, id: 'x' }
  const status = ['running' as const]
  for (const filter of [{}, { label: 'l' }, { root: 'r' }, { parent: 'p' }, { status }, { metadata: { a: 'b' } }]) {
    await reads.listRuns('t', filter, { limit: 10, before })
  }
  const plans = [...db.statements].filter((sql) => !sql.startsWith('EXPLAIN')).flatMap((sql) =>
    (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => ({ sql, detail })))
  expect(plans.length).toBeGreaterThan(40)
  expect(plans.filter(({ detail }) => WIDE.test(detail) && !ALLOWED.some((allowed) => allowed.test(detail)))).toEqual([])
  db.close()
})
