import { createHash } from 'node:crypto'
import { refuse } from '../core/errors.ts'
import { noUsage } from '../core/events.ts'
import type { Models } from '../core/model.ts'
import type { Provider, SubagentRequest, SubagentRun } from '../core/provider.ts'
import type { RunLimits, RunRecord, ToolFilter } from '../core/run.ts'
import type { Store } from '../core/store.ts'
import type { Tool } from '../core/tool.ts'
import type { ImportTranscript } from '../core/transcript.ts'
import type { Caller, RunView } from './api.ts'
import type { Registry } from './registry.ts'

/** Defaults of a start that names it; the start's own fields win (http-api.md §2). */
export interface NamedAgent { name: string, description: string, persona?: string, toolFilter?: ToolFilter, model?: string, maxDepth?: number }

/** What the application calls stand on; tied together in app.ts. */
export interface RunsContext {
  store: Store
  registry: Registry
  models: Models
  providers: {
    list (): Provider[]
    get (name: string): Provider | undefined
    start (name: string, request: SubagentRequest): Promise<SubagentRun>
  }
  /** What this deployment's tools are, those of MCP servers included. */
  tools: () => Promise<readonly Tool[]>
  agents: readonly NamedAgent[]
  importTranscript: ImportTranscript
  /** Violations of a scripted model's script, each with a pointer below it. */
  scriptViolations: (script: unknown) => string[]
  limits: RunLimits
  /** So many runs may be open; one of several tenants has at most half. */
  open: { most: number, shared: () => boolean }
  newId: () => string
  now: () => number
  /** False from the time on at which a stopping service takes no starts. */
  accepting: () => boolean
  /** Aborts when the service stops: what waits ends cleanly. */
  closing: AbortSignal
}

/** Rows as readers get them, with what is counted over their trees. */
export async function viewsOf ({ store }: RunsContext, tenant: string, records: readonly RunRecord[]): Promise<RunView[]> {
  const ids = records.map((record) => record.id)
  const [children, usage] = await Promise.all([store.runningChildren(tenant, ids), store.treeUsage(tenant, ids)])
  return records.map((record) => ({ ...record, runningChildren: children.get(record.id) ?? 0, treeUsage: usage.get(record.id) ?? noUsage() }))
}

export const viewOf = async (context: RunsContext, record: RunRecord): Promise<RunView> =>
  (await viewsOf(context, record.tenant, [record]))[0] as RunView

/** The run's row as it is committed. Throws `RUN_NOT_FOUND`, also for another tenant's. */
export async function findRun ({ store }: RunsContext, caller: Caller, id: string): Promise<RunRecord> {
  const record = await store.getRun(caller.tenant, id)
  if (!record) throw refuse('RUN_NOT_FOUND', { id })
  return record
}

/** Nobody executes an open run: the service is stopping and left it to its next start, or its store was lost. */
export const leftToNextStart = ({ accepting }: RunsContext): Error =>
  accepting() ? refuse('STORE_UNAVAILABLE', { retryAfter: 5 }) : refuse('SHUTTING_DOWN', { retryAfter: 5 })

/** Whether a key may use a model; a trailing `*` matches any rest. */
export const mayUse = ({ models }: Caller, model: string): boolean =>
  models === undefined || models.some((allowed) => allowed.endsWith('*') ? model.startsWith(allowed.slice(0, -1)) : allowed === model)

/** A short name of a stream, so that a cursor of another one is told apart. */
export const fingerprint = (stream: string): string => createHash('sha256').update(stream).digest('base64url').slice(0, 8)

/** Seconds after which a start past a bound of open runs may come again. */
const RETRY_AFTER = 1

/**
 * Before a start from outside; what is starting counts. Throws `QUOTA_EXCEEDED` past the open runs that a key may have, or a tenant among
 * several, `OVERLOADED` past those of all.
 */
export function checkQuota ({ registry, open: { most, shared } }: RunsContext, { tenant, limits }: Caller): void {
  const count = registry.count(tenant)
  if (limits?.running !== undefined && count > limits.running) {
    throw refuse('QUOTA_EXCEEDED', { detail: `this key may have ${limits.running} runs open at once`, retryAfter: RETRY_AFTER })
  }
  const share = shared() ? Math.ceil(most / 2) : most
  if (share < most && count > share) {
    throw refuse('QUOTA_EXCEEDED', { detail: `${share} runs of this tenant are open, its share of the service`, retryAfter: RETRY_AFTER })
  }
  if (registry.count() > most) throw refuse('OVERLOADED', { open: most, retryAfter: RETRY_AFTER })
}
