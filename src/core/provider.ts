import type { DelegationDepths } from './depth.ts'
import type { Block, RunResult, SessionEvent, SystemSection, ToolDefinition, WireFormat } from './events.ts'
import type { JsonObject } from './json.ts'
import type { AgentOptions, CodeMode, Delegation, RelayOptions, RunLimits, RunRecord, RunSpec, ToolFilter } from './run.ts'
import type { IdempotencyRecord, StoredSeed } from './store.ts'
import type { ModelKind } from './model.ts'

export type Capability = 'outputSchema' | 'depthLimit' | 'toolFilter' | 'persona'
export type Availability = { available: true } | { available: false, reason: string }
export type Capabilities = Record<Capability, boolean>

/** Turns a child inherits, by reference or as a host's transcript. `events` is the length, `turns` the completed turns. */
export interface Seed { stored: StoredSeed, turns: number, events: number, /** In memory already, where the parent is live. */ loaded?: readonly SessionEvent[] }

/** The delegating agent, wherever it lives: a run or a session here, or the host's own (http-api.md §2). */
export interface ParentAgent {
  depths: DelegationDepths
  model?: string
  /** The format of the transcript the parent came with: a model without an endpoint means that kind's (4.4). */
  kind?: ModelKind
  /** The kind of model that takes the inherited messages as they were sent; any other loses what does not translate (4.2). */
  wire?: WireFormat
  maxTokens?: number
  /** The system prompt its host gave it; a fork's prefix keeps it. */
  system?: SystemSection[]
  cwd?: string
  runId: string | null
  sessionId: string | null
  rootId: string | null
  /** Limits of the tree the parent stands in; a child's can only be tighter. */
  limits?: RunLimits
  /** Its completed turns at this instant; `undefined` when it has none (driver.md 3.3, 3.4). */
  completedTurns (): Seed | undefined
}

export interface SubagentRequest {
  prompt: Block[]
  parent: ParentAgent
  /** Covers the start and the live run. */
  signal: AbortSignal
  label?: string
  agentOptions?: AgentOptions
  /** As given: the registry and the driver judge it. */
  maxDepth?: unknown
  toolFilter?: ToolFilter
  persona?: string
  outputSchema?: JsonObject
  /** What only a start over the service carries. */
  service: {
    tenant: string
    id?: string
    hostTools: ToolDefinition[]
    toolsFrom?: 'transcript'
    codeMode: CodeMode
    limits: RunLimits
    relay: RelayOptions
    metadata: Record<string, string>
    notices: string[]
    delegation?: Delegation
    /** For a provider that is external. */
    external?: ExternalStart
    allowedModels?: string[]
    idempotency?: Omit<IdempotencyRecord, 'subject'>
    /** Full names the caller may use; absent: all. Throws `MODEL_FORBIDDEN`. */
    allowModel?: (model: string) => void
  }
}

/** `ingest`: the host runs the CLI itself, and posts its output. `keepOpen`: the run takes messages after its first turn. */
export interface ExternalStart { ingest?: boolean, keepOpen?: boolean }

/** A later run on the session of a settled one (http-api.md 7.3). */
export interface FollowUp {
  /** The run that it continues, and what that was built from. */
  previous: RunRecord
  spec: RunSpec
  id: string
  content: Block[]
  signal: AbortSignal
  idempotency?: Omit<IdempotencyRecord, 'subject'>
}

export interface SubagentRun {
  readonly id: string
  /** Never rejects: after publication a failure of the child is a result (driver.md 4.2). */
  readonly result: Promise<RunResult>
  /** Cancels what is left, reaches quiescence, releases. The second call gets the first one's promise (5.3). */
  dispose (): Promise<void>
}

/** How a child is made. Fulfilment of `start` means published; a rejection leaves nothing behind (driver.md 4.1). */
export interface Provider {
  readonly name: string
  readonly capabilities: Capabilities
  readonly inheritsParentContext: boolean
  /** Its children are another program's, run here or elsewhere. */
  readonly external?: true
  /** Whether a start can be executed here now, and why not. Absent: always. */
  availability? (): Availability
  start (request: SubagentRequest): Promise<SubagentRun>
  /** Goes on with a settled run's session in a new run. Absent: this provider's sessions end with their run. */
  followUp? (request: FollowUp): Promise<SubagentRun>
}
