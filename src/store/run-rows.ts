import type { SQLInputValue } from 'node:sqlite'
import type { Cancellation, Outcome, RunResult, StopReason, Usage } from '../core/events.ts'
import type { External, PendingToolCall, RunPatch, RunRecord, RunStatus } from '../core/run.ts'

/** A run as its row holds it. PRIVATE and pure: names of columns and their JSON, no statement. */
export interface RunRow {
  n: number
  tenant: string
  id: string
  session: string
  segment: number
  first_seq: number
  end_seq: number | null
  continues: string | null
  provider: string
  label: string | null
  status: RunStatus
  stop_reason: StopReason | null
  depth: number
  parent_run: string | null
  parent_session: string | null
  root: string
  seed_turns: number
  seed_events: number
  created_at: number
  started_at: number | null
  settled_at: number | null
  expires_at: number | null
  usage: string
  model: string
  metadata: string
  cancel: string | null
  error: string | null
  notices: string
  pending: string
  result: string | null
  external: string | null
}

type Columns = Record<string, SQLInputValue>

const json = (value: unknown): string => JSON.stringify(value)
const jsonOrNull = (value: unknown): string | null => value === null ? null : JSON.stringify(value)
const parse = <T>(value: string): T => JSON.parse(value) as T
const parseOrNull = <T>(value: string | null): T | null => value === null ? null : JSON.parse(value) as T

/** The columns of a new run, all but `segment` and `first_seq`. */
export function insertColumns (run: Omit<RunRecord, 'segment' | 'firstSeq'>): Columns {
  return {
    tenant: run.tenant,
    id: run.id,
    session: run.sessionId,
    continues: run.continues,
    provider: run.provider,
    label: jsonOrNull(run.label),
    depth: run.depth,
    parent_run: run.parentRunId,
    parent_session: run.parentSessionId,
    root: run.rootId,
    seed_turns: run.seed.turns,
    seed_events: run.seed.events,
    created_at: run.createdAt,
    metadata: json(run.metadata),
    ...patchColumns(run)
  }
}

/** The columns that a patch changes; what it does not name stays. */
export function patchColumns (patch: RunPatch): Columns {
  const columns: Columns = {}
  if (patch.status !== undefined) columns.status = patch.status
  if (patch.stopReason !== undefined) columns.stop_reason = patch.stopReason
  if (patch.startedAt !== undefined) columns.started_at = patch.startedAt
  if (patch.settledAt !== undefined) columns.settled_at = patch.settledAt
  if (patch.expiresAt !== undefined) columns.expires_at = patch.expiresAt
  if (patch.usage !== undefined) columns.usage = json(patch.usage)
  if (patch.cancel !== undefined) columns.cancel = jsonOrNull(patch.cancel)
  if (patch.error !== undefined) columns.error = jsonOrNull(patch.error)
  if (patch.notices !== undefined) columns.notices = json(patch.notices)
  if (patch.pendingToolCalls !== undefined) columns.pending = json(patch.pendingToolCalls)
  if (patch.result !== undefined) columns.result = jsonOrNull(patch.result)
  if (patch.model !== undefined) columns.model = json(patch.model)
  if (patch.external !== undefined) columns.external = json(patch.external)
  return columns
}

export const labelColumn = (label: string): string => json(label)
/** Found in the `metadata` column exactly where it has this pair: JSON escapes every quote inside a string. */
export const metadataPair = (key: string, value: string): string => `${json(key)}:${json(value)}`

export function recordOf (row: RunRow): RunRecord {
  return {
    id: row.id,
    tenant: row.tenant,
    sessionId: row.session,
    segment: row.segment,
    firstSeq: row.first_seq,
    continues: row.continues,
    provider: row.provider,
    label: parseOrNull<string>(row.label),
    status: row.status,
    stopReason: row.stop_reason,
    error: parseOrNull<Outcome>(row.error),
    depth: row.depth,
    parentRunId: row.parent_run,
    parentSessionId: row.parent_session,
    rootId: row.root,
    model: parse<string>(row.model),
    seed: { turns: row.seed_turns, events: row.seed_events },
    notices: parse<string[]>(row.notices),
    createdAt: row.created_at,
    startedAt: row.started_at,
    settledAt: row.settled_at,
    expiresAt: row.expires_at,
    cancel: parseOrNull<Cancellation>(row.cancel),
    usage: parse<Usage>(row.usage),
    pendingToolCalls: parse<PendingToolCall[]>(row.pending),
    metadata: parse<Record<string, string>>(row.metadata),
    result: parseOrNull<RunResult>(row.result),
    ...(row.external === null ? {} : { external: parse<External>(row.external) })
  }
}
