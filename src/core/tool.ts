import type { Block, ToolDefinition } from './events.ts'
import type { Json } from './json.ts'

export interface ToolOutcome { content: Block[], isError: boolean, structured?: Json }
/** How far an execution is. `progress` grows; `total`, where it is known, is what it grows to. */
export interface ToolProgress { progress: number, total?: number, message?: string }
/** `execution` is the identity of this one execution: call ids may repeat, it does not (driver.md 9.4). */
export interface ToolContext {
  toolCallId: string
  execution: object
  runId: string
  tenant: string
  signal: AbortSignal
  /** Tells the run's readers. News may come as often as it likes; what comes after the call ended is dropped. Never throws. */
  progress?: (news: ToolProgress) => void
}

/** A tool as the child's view holds it. `execute` may throw: the loop makes an error result of it. */
export interface Tool {
  readonly definition: ToolDefinition
  /** `host`: the call waits for the host's answer; `execute` is never called. */
  readonly executor: 'service' | 'host'
  /** May run again after a crash that left its outcome unknown (driver.md 2.8). */
  readonly idempotent: boolean
  /** Waits for a run: it ends by itself soon after its signal aborts and is waited for then; the tool timeout is not its own. */
  readonly delegates?: boolean
  /** Ends by itself soon after its signal aborts and is waited for then. */
  readonly awaited?: boolean
  /** Runs alone among the calls of a message: earlier ones finish first, later ones wait (driver.md 9.6). */
  readonly barrier?: boolean
  /** Violations of the input schema, each naming its place; empty when valid. */
  validate (input: Json): string[]
  execute (input: Json, context: ToolContext): Promise<ToolOutcome>
}

/** Schema violations of a value; from one compiled schema. `compile` throws an `Error` naming what is unsupported. */
export type CompileSchema = (schema: Json) => (value: Json) => string[]

export const toolError = (message: string): ToolOutcome => ({ content: [{ type: 'text', text: `Error: ${message}` }], isError: true })

/** The tools of a child that makes children of its own (driver.md §11). */
export const DELEGATION_TOOLS: ReadonlySet<string> = new Set(['subagent', 'subagent_fork', 'subagent_result'])
/** Names that belong to the service: no tool of a host or a configuration may take one, no filter can name one (driver.md 8.3). */
export const RESERVED_TOOLS: ReadonlySet<string> = new Set(['structured_output', 'run_code', ...DELEGATION_TOOLS])
