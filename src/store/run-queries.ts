import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { addUsage, noUsage, type Usage } from '../core/events.ts'
import type { RunFilter, RunRecord, RunSpec } from '../core/run.ts'
import { labelColumn, metadataPair, recordOf, type RunRow } from './run-rows.ts'

/** Reads of runs. PRIVATE: reads `runs` and `specs`, writes nothing. */
export interface RunQueries {
  get (tenant: string, id: string): RunRecord | undefined
  spec (tenant: string, id: string): RunSpec | undefined
  /** A page, newest first; `between` is awaited after each piece of a long search. */
  list (tenant: string, filter: RunFilter, page: RunPage, between: () => Promise<void>): Promise<RunRecord[]>
  descendants (tenant: string, id: string): RunRecord[]
  runningChildren (tenant: string, ids: readonly string[]): Map<string, number>
  treeUsage (tenant: string, ids: readonly string[]): Map<string, Usage>
  unsettled (): RunRecord[]
  ofSession (tenant: string, sessionId: string): RunRecord[]
}
export interface RunPage { limit: number, before?: { createdAt: number, id: string } }

/**
 * Each of the ids ?2 as `top`, with itself and its descendants. UNION: an id used again may have made a circle. CROSS JOIN
 * holds SQLite to this order: it knows no sizes, and would go through all of a tenant's runs.
 */
export const TREE = `WITH RECURSIVE tree (top, id) AS (
  SELECT value, value FROM json_each(?2)
  UNION SELECT tree.top, runs.id FROM tree CROSS JOIN runs ON runs.tenant = ?1 AND runs.parent_run = tree.id)`

export function createRunQueries (db: DatabaseSync): RunQueries {
  const sql = {
    get: db.prepare('SELECT * FROM runs WHERE tenant = ? AND id = ?'),
    spec: db.prepare('SELECT spec FROM specs WHERE run = (SELECT n FROM runs WHERE tenant = ? AND id = ?)'),
    // A parent's row is older than its child's.
    descendants: db.prepare(`${TREE} SELECT runs.* FROM tree CROSS JOIN runs ON runs.tenant = ?1 AND runs.id = tree.id
      WHERE tree.id <> tree.top ORDER BY runs.n`),
    running: db.prepare(`SELECT parent_run AS id, count(*) AS runs FROM runs
      WHERE tenant = ? AND parent_run IN (SELECT value FROM json_each(?)) AND status <> 'settled' GROUP BY parent_run`),
    child: db.prepare('SELECT 1 FROM runs WHERE tenant = ? AND parent_run = ? LIMIT 1'),
    ownUsage: db.prepare('SELECT usage FROM runs WHERE tenant = ? AND id = ?'),
    usage: db.prepare(`${TREE} SELECT tree.top, runs.usage FROM tree CROSS JOIN runs ON runs.tenant = ?1 AND runs.id = tree.id`),
    unsettled: db.prepare("SELECT * FROM runs INDEXED BY runs_open WHERE status <> 'settled' ORDER BY created_at, n"),
    ofSession: db.prepare('SELECT * FROM runs WHERE tenant = ? AND parent_session = ? ORDER BY n')
  }
  const records = (rows: unknown[]): RunRecord[] => (rows as RunRow[]).map(recordOf)
  // Most runs have no child: one look tells, and their tree is their own row.
  const hasChild = (tenant: string, id: string): boolean => sql.child.get(tenant, id) !== undefined
  return {
    get (tenant, id) {
      const row = sql.get.get(tenant, id)
      return row && recordOf(row as unknown as RunRow)
    },
    spec (tenant, id) {
      const row = sql.spec.get(tenant, id)
      return row && JSON.parse(row.spec as string) as RunSpec
    },
    list: createList(db),
    descendants: (tenant, id) => records(sql.descendants.all(tenant, JSON.stringify([id]))),
    runningChildren (tenant, ids) {
      const counts = new Map(ids.map((id) => [id, 0]))
      const parents = ids.filter((id) => hasChild(tenant, id))
      if (parents.length === 0) return counts
      const rows = sql.running.all(tenant, JSON.stringify(parents)) as { id: string, runs: number }[]
      for (const { id, runs } of rows) counts.set(id, runs)
      return counts
    },
    treeUsage (tenant, ids) {
      const sums = new Map<string, Usage>()
      const parents: string[] = []
      for (const id of ids) {
        if (hasChild(tenant, id)) parents.push(id)
        else {
          const own = sql.ownUsage.get(tenant, id)
          if (own) sums.set(id, JSON.parse(own.usage as string) as Usage)
        }
      }
      if (parents.length === 0) return sums
      for (const { top, usage } of sql.usage.all(tenant, JSON.stringify(parents)) as { top: string, usage: string }[]) {
        sums.set(top, addUsage(sums.get(top) ?? noUsage(), JSON.parse(usage) as Usage))
      }
      return sums
    },
    unsettled: () => records(sql.unsettled.all()),
    ofSession: (tenant, sessionId) => records(sql.ofSession.all(tenant, sessionId))
  }
}

interface Clause { sql: string, values: SQLInputValue[] }
interface Place { createdAt: number, id: string }

/** Rows that one statement of a search looks at, so that a rare match does not hold the event loop. */
const PIECE = 5000
const NEWEST: Place = { createdAt: Number.MAX_SAFE_INTEGER, id: '' }

function createList (db: DatabaseSync): RunQueries['list'] {
  const statements = new Map<string, StatementSync>()
  const pieceEnd = db.prepare(`SELECT created_at AS createdAt, id FROM runs WHERE tenant = ? AND (created_at, id) < (?, ?)
    ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ${PIECE - 1}`)

  function select (clauses: Clause[], limit: number): RunRecord[] {
    const where = clauses.map((clause) => clause.sql).join(' AND ')
    const text = `SELECT * FROM runs WHERE ${where} ORDER BY created_at DESC, id DESC LIMIT ?`
    const statement = statements.get(where) ?? db.prepare(text)
    if (statements.size < 100) statements.set(where, statement)
    const rows = statement.all(...clauses.flatMap((clause) => clause.values), limit)
    return (rows as unknown as RunRow[]).map(recordOf)
  }

  return async (tenant, filter, { limit, before = NEWEST }, between) => {
    const filters = filterClauses(filter)
    const few = fewCandidates(tenant, filter)
    if (few) return select([few, olderThan(before), ...filters], limit)
    const found: RunRecord[] = []
    let from: Place | undefined = before
    const inTenant = { sql: 'tenant = ?', values: [tenant] }
    while (from && found.length < limit) {
      if (from !== before) await between()
      const end = filters.length === 0 ? undefined : pieceEnd.get(tenant, from.createdAt, from.id)
      const until = end as Place | undefined
      const piece = until ? [{ sql: '(created_at, id) >= (?, ?)', values: [until.createdAt, until.id] }] : []
      found.push(...select([inTenant, olderThan(from), ...piece, ...filters], limit - found.length))
      from = until && until.createdAt > (filter.createdAfter ?? -Infinity) ? until : undefined
    }
    return found
  }
}

const olderThan = ({ createdAt, id }: Place): Clause => ({ sql: '(created_at, id) < (?, ?)', values: [createdAt, id] })

/** What an index narrows to a few rows: a tree, the children of a run, the open runs. */
function fewCandidates (tenant: string, { root, parent, status }: RunFilter): Clause | undefined {
  if (root !== undefined) {
    const tree = 'SELECT n FROM runs WHERE tenant = ? AND root = ? AND root <> id'
    const top = 'SELECT n FROM runs WHERE tenant = ? AND id = ? AND root = id'
    return { sql: `n IN (${tree} UNION ALL ${top})`, values: [tenant, root, tenant, root] }
  }
  if (parent !== undefined) {
    return { sql: 'n IN (SELECT n FROM runs WHERE tenant = ? AND parent_run = ?)', values: [tenant, parent] }
  }
  if (!status || status.length === 0 || status.includes('settled')) return undefined
  return { sql: "n IN (SELECT n FROM runs INDEXED BY runs_open WHERE tenant = ? AND status <> 'settled')", values: [tenant] }
}

function filterClauses (filter: RunFilter): Clause[] {
  const clauses: Clause[] = []
  const equal = (column: string, value: string | undefined): void => {
    if (value !== undefined) clauses.push({ sql: `+${column} = ?`, values: [value] })
  }
  const among = (column: string, values: readonly string[] | undefined): void => {
    if (!values || values.length === 0) return
    clauses.push({ sql: `${column} IN (SELECT value FROM json_each(?))`, values: [JSON.stringify(values)] })
  }
  const after = (column: string, time: number | undefined): void => {
    if (time !== undefined) clauses.push({ sql: `${column} > ?`, values: [time] })
  }
  among('status', filter.status)
  among('stop_reason', filter.stopReason)
  equal('provider', filter.provider)
  equal('parent_run', filter.parent)
  equal('root', filter.root)
  equal('label', filter.label === undefined ? undefined : labelColumn(filter.label))
  after('created_at', filter.createdAfter)
  after('settled_at', filter.settledAfter)
  for (const [key, value] of Object.entries(filter.metadata ?? {})) {
    clauses.push({ sql: 'instr(metadata, ?) > 0', values: [metadataPair(key, value)] })
  }
  return clauses
}
