import type { Block, Cancellation, NewEvent, Outcome, RunResult, SessionHeader, StopReason, SystemSection, ToolDefinition, Usage } from './events.ts'
import type { Json, JsonObject } from './json.ts'

export type RunStatus = 'queued' | 'running' | 'waiting' | 'idle' | 'settled'

export interface RunLimits {
  steps?: number
  timeoutMs?: number
  totalTokens?: number
  toolTimeoutMs?: number
  treeRuns?: number
  treeTokens?: number
}

export interface AgentOptions { model?: string, maxTokens?: number, temperature?: number, providerOptions?: string, script?: Json }
export interface ToolFilter { allow?: string[], deny?: string[] }
export type CodeMode = 'native' | 'code' | 'both'
/** How a result is handed to the host's model (http-api.md 5.2). */
export type RelayFormat = 'mcp' | 'anthropic' | 'openai-chat' | 'openai-responses' | 'ai-sdk'
export interface RelayOptions { format?: RelayFormat, toolCallId?: string, toolName?: string }

/** What an agent is built from: settled before publication, kept with the run, so that a restart builds the same one. */
export interface RunSpec {
  prompt: Block[]
  /** The full name of the model that answers. */
  model: string
  agentOptions: AgentOptions
  persona?: string
  /** The system prompt that came with the turns a fork inherits; a persona shadows it. */
  system?: SystemSection[]
  toolFilter?: ToolFilter
  outputSchema?: JsonObject
  hostTools: ToolDefinition[]
  /** They came with the parent's transcript, not with the start. */
  toolsFrom?: 'transcript'
  codeMode: CodeMode
  /** Every limit in force, the parent's tree limits included. */
  limits: RunLimits
  /** The child's runtime depth; the header holds the same value. */
  depth: number
  relay: RelayOptions
  /** Models that the key of its start allows, for its children too; absent: all. */
  allowedModels?: string[]
  /** The deepest depth in its tree, as its start said. */
  maxDepth?: number
  /** The call of its parent's delegation tool that made it. */
  delegation?: Delegation
  /** Of a chat with an external CLI. */
  external?: ExternalSpec
  /** Where its host's trace stood when it started it; only where traces are on. */
  trace?: TraceHeaders
}
/** How a chat with an external CLI comes in; `child`: a run that was only seen in one. */
export interface ExternalSpec { way: 'ingest' | 'drive' | 'child', /** Stays open after its first turn. */ keepOpen?: true, cwd?: string, /** The CLI's session that it goes on with. */ resumes?: string, /** What the ids of the runs seen in it are made of. */ nonce?: string }
/** What a run has to do with an external CLI. */
export interface External {
  /** The CLI's own id: of the session, or of the subagent within it. */
  id?: string
  /** How many lines of the CLI's output are in the journal; of an ingested chat alone. */
  framesAccepted?: number
  /** Children that somebody stopped, each with how many lines were in the journal then: it does not tell. */
  stops?: readonly (readonly [lines: number, child: number])[]
  /** The process of a driven chat, as it can be told from others after a restart. */
  process?: { pid: number, startTime: string | null }
}
/** The headers of W3C Trace Context, verbatim. */
export interface TraceHeaders { traceparent: string, tracestate?: string }
export interface Delegation { toolCallId: string, background: boolean }

export interface PendingToolCall { toolCallId: string, name: string, input: Json, deadline: number | null }

/** A log as the store keeps it: an immutable base shared by reference, and own events from `firstSeq` on. */
export interface RunRecord {
  id: string
  tenant: string
  sessionId: string
  /** The store's key of the session's log. */
  segment: number
  /** The run's own events are [firstSeq, …) of the session's log. */
  firstSeq: number
  continues: string | null
  provider: string
  label: string | null
  status: RunStatus
  stopReason: StopReason | null
  error: Outcome | null
  depth: number
  parentRunId: string | null
  parentSessionId: string | null
  rootId: string
  model: string
  seed: { turns: number, events: number }
  notices: string[]
  createdAt: number
  startedAt: number | null
  settledAt: number | null
  expiresAt: number | null
  cancel: Cancellation | null
  usage: Usage
  pendingToolCalls: PendingToolCall[]
  metadata: Record<string, string>
  result: RunResult | null
  external?: External
}

/** The columns that change while a run lives; always written in the transaction of the events they follow from. */
export type RunPatch = Partial<Pick<RunRecord,
  'status' | 'stopReason' | 'error' | 'startedAt' | 'settledAt' | 'expiresAt' | 'cancel' | 'usage' | 'pendingToolCalls' | 'result' | 'notices' | 'model' | 'external'>>

/** A conversation that runs can fork: a host's own, kept here (http-api.md §1), or the one a run made. */
export interface SessionRecord {
  id: string
  tenant: string
  segment: number
  header: SessionHeader
  /** Kept for a host, not made by a run. */
  registered: boolean
  /** Registered: how many messages the host gave, the open ones included. A run's: how many events. */
  length: number
  /** Events of the completed turns: the seed of a fork. */
  completedLength: number
  /** Completed turns. */
  turns: number
  /** Registered: the verbatim messages after the cut, which later ones may complete. */
  tail: string[]
  model: string | null
  format: string | null
  metadata: Record<string, string>
  /** Registered: what a model of another kind does not see of it, in words. */
  losses?: string[]
}
/** What an append to a registered session makes of it; `losses` is of the whole. */
export interface SessionGrowth { events: readonly NewEvent[], tail: string[], length: number, losses?: string[] }

export interface RunFilter {
  status?: RunStatus[]
  stopReason?: StopReason[]
  provider?: string
  parent?: string
  root?: string
  label?: string
  metadata?: Record<string, string>
  createdAfter?: number
  settledAfter?: number
}
