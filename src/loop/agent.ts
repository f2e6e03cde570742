import type { DeltaFeed } from '../core/deltas.ts'
import type { SystemSection, ToolDefinition } from '../core/events.ts'
import type { SessionLog } from '../core/log.ts'
import type { Model } from '../core/model.ts'
import type { ModelFailure } from '../core/model.ts'
import type { AgentOptions, RunLimits } from '../core/run.ts'
import type { Json } from '../core/json.ts'
import type { Tool, ToolOutcome } from '../core/tool.ts'
import type { HostDesk } from './host-desk.ts'
import type { Occupancy } from './occupancy.ts'

/** The one view of tools that a child has: it governs schemas, lookup and execution alike (driver.md 8.3). */
export interface ToolView {
  /** What the request's `tools` field carries, in its order. */
  readonly definitions: readonly ToolDefinition[]
  find (name: string): Tool | undefined
  /** What a program of `run_code` may call: the same tools, wherever the wire carries them. */
  findInCode (name: string): Tool | undefined
  /** Why a name is not callable, where there is more to say than that it is unknown. */
  explain? (name: string): string | undefined
}

/** One execution of a tool; its identity, not its call id, is what a result belongs to (driver.md 9.4). */
export interface Execution { readonly toolCallId: string, readonly name: string, readonly input: Json }

/** What a child's own scope adds to the loop; gone with the child. */
export interface ToolScope {
  /** The refusal of a call, or `undefined`. Once it refuses it never allows again (driver.md 9.6). */
  guard (name: string): string | undefined
  /** The authoritative final result of an execution, before it is logged. */
  onResult (execution: Execution, result: ToolOutcome): void
  /** Ends the turn after this step, whatever is queued (driver.md 9.7). */
  stopsTurn (): boolean
}

/** Everything a turn runs on. Built by the driver, used by one turn at a time. */
export interface Agent {
  readonly runId: string
  readonly tenant: string
  readonly log: SessionLog
  /** Index in `log.own` at which this run's own events begin. */
  readonly ownFrom: number
  readonly deltas: DeltaFeed
  readonly model: Model
  readonly system: readonly SystemSection[]
  readonly tools: ToolView
  readonly options: AgentOptions
  readonly limits: RunLimits
  readonly scope?: ToolScope
  readonly host: HostDesk
  /** Whose slot it is while it works or waits. */
  readonly occupancy: Occupancy
  readonly now: () => number
  readonly random: () => number
  /** Tokens of the whole tree so far; asked only where `limits.treeTokens` is set. */
  treeTokens (): Promise<number>
  onModelCall? (outcome: { model: string, failure?: ModelFailure, durationMs: number }): void
}

/** A place among the runs that execute. Given up while only the host can go on (http-api.md §2, `waiting`). */
export interface Slot {
  release (): void
  /** Resolves with a place again; rejects with the signal's reason. */
  acquire (signal: AbortSignal): Promise<void>
}

/** The reason on the run's signal when a limit was reached: an error, not a cancellation (driver.md 2.5). */
export class LimitReason extends Error {
  override readonly name = 'LimitReason'
  readonly code: 'LIMIT_STEPS' | 'LIMIT_TIME' | 'LIMIT_TOKENS' | 'LIMIT_TREE'
  constructor (code: LimitReason['code'], limit: keyof RunLimits, value: number) {
    super(`${limit} ${value} reached`)
    this.code = code
  }
}
