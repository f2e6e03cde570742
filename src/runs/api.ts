import type { Block, RunResult, ToolDefinition, Usage } from '../core/events.ts'
import type { JsonObject } from '../core/json.ts'
import type { Capabilities, ExternalStart } from '../core/provider.ts'
import type { Snapshot, Delta } from '../core/deltas.ts'
import type { FrameSink } from '../core/live.ts'
import type { ModelKind } from '../core/model.ts'
import type { AgentOptions, CodeMode, RelayOptions, RunFilter, RunLimits, RunRecord, SessionRecord, ToolFilter } from '../core/run.ts'
import type { ImportedTranscript, RawTranscript, TranscriptFormat } from '../core/transcript.ts'

/** The application calls: what every face (HTTP, later MCP and A2A) offers, in no protocol's terms. */

export interface Caller {
  tenant: string
  /** Full model names the key may use; absent: all. A trailing `*` matches any rest. */
  models?: string[]
  /** The least depth an inline parent of this key stands at (http-api.md 8.1). */
  minDepth?: number
  limits?: { running?: number, startsPerMinute?: number }
}

export type { ImportedTranscript, RawTranscript, TranscriptFormat }

export type ParentInput =
  | { runId: string }
  | { sessionId: string }
  | { delegationDepth?: unknown, subagentDepth?: unknown, model?: string, maxTokens?: number, cwd?: string, transcript?: RawTranscript }

export interface StartInput {
  provider: string
  /** Chosen by the host, lower case. */
  id?: string
  task: Block[]
  label?: string
  parent?: ParentInput
  agentOptions?: AgentOptions
  maxDepth?: unknown
  persona?: string
  toolFilter?: ToolFilter
  codeMode: CodeMode
  agent?: string
  tools?: ToolDefinition[]
  outputSchema?: JsonObject
  limits: RunLimits
  relay: RelayOptions
  metadata: Record<string, string>
  /** For an external provider alone. */
  external?: ExternalStart
}

/** A run as a reader gets it: its row, and what is counted over its tree. */
export interface RunView extends RunRecord { treeUsage: Usage, runningChildren: number }
export interface RunTree extends RunView { children: RunTree[] }

export interface Key { key: string, /** Hash of the body's canonical JSON. */ bodyHash: string }

/**
 * One item of a live stream. `cursor` is opaque and only on log events; `settled` ends the stream. `shared`: other readers get the
 * same `event`, or `delta`, with the same of everything else.
 */
export type StreamItem =
  | { type: 'run', run: RunView }
  | { type: 'event', runId: string, cursor: string, event: { seq: number, time: number, type: string, data: unknown }, shared?: boolean }
  | { type: 'settled', runId: string, cursor: string, seq: number, time: number, result: RunResult }
  | { type: 'delta', runId: string, delta: Delta, shared?: boolean }
  | { type: 'snapshot', runId: string, snapshot: Snapshot }
  | { type: 'gap', oldest: string }

export interface EventPage { events: { runId: string, seq: number, time: number, type: string, data: unknown }[], after: string | null, settled: boolean }

export interface ToolAnswer { toolCallId: string, content: Block[], isError: boolean }

export interface Runs {
  /**
   * Starts a run. Resolves once it is published (or was, under the same key: `replayed`); rejects with a `Refusal`, and then
   * nothing of it exists. `signal` ends the start if it aborts before publication; afterwards it is not watched. The run is
   * durable then; with `follows` only once the `wait` or `stream` answers that the caller goes on to.
   */
  start (caller: Caller, input: StartInput, options: { signal: AbortSignal, idempotency?: Key, follows?: boolean }): Promise<{ run: RunView, replayed: boolean }>
  get (caller: Caller, id: string): Promise<RunView>
  list (caller: Caller, filter: RunFilter, page: { limit: number, cursor?: string }): Promise<{ runs: RunView[], nextCursor: string | null }>
  tree (caller: Caller, id: string): Promise<RunTree>
  /** Waits until the run is settled (with `orWaiting`: or waits for its host), the signal aborts, or `ms` passed; answers the run as it is then. */
  wait (caller: Caller, id: string, until: { ms: number, signal: AbortSignal, orWaiting: boolean }): Promise<RunView>
  /** The relay options that the start gave: defaults of a result's. */
  relayOptions (caller: Caller, id: string): Promise<RelayOptions>

  /** Asks the run and its descendants to stop; resolves once that is durable. A start under way with this id: `starting`. */
  cancel (caller: Caller, id: string, reason: string | null): Promise<{ run: RunView } | { starting: true }>
  /** Resolves when the run and its descendants have settled, or at `ms`, or when the signal aborts. */
  waitTree (caller: Caller, id: string, until: { ms: number, signal: AbortSignal }): Promise<RunView>
  cancelMany (caller: Caller, which: { ids?: string[], root?: string, label?: string, metadata?: Record<string, string> }, reason: string | null): Promise<number>
  /** The client of a start went away: cancels the run `by: disconnect`. */
  disconnected (caller: Caller, id: string): Promise<void>
  /** Disposes the run and its descendants, then forgets them. Idempotent. */
  dispose (caller: Caller, id: string): Promise<void>

  /**
   * Steers a run under way (`messageId`, durable), or goes on with a settled one's session in a new run (http-api.md 7.3). Rejects
   * with `RUN_SETTLED` or `SESSION_CONFLICT`.
   */
  sendMessage (caller: Caller, id: string, input: { content: Block[], mode: 'steer' | 'follow-up' | 'interrupt' }, options: { signal: AbortSignal, key?: Key }): Promise<{ messageId: string, replayed: boolean } | { run: RunView, replayed: boolean }>
  /** Answers pending host calls, all or nothing. The same answers again change nothing; under the same key they are `replayed`. */
  answerTools (caller: Caller, id: string, answers: ToolAnswer[], idempotency?: Key): Promise<{ run: RunView, replayed: boolean }>

  /**
   * A way in for the output of an ingested chat from line `from` on. Rejects with `FRAME_GAP`, and with `UNSUPPORTED_CAPABILITY`
   * for a run that takes none. `RUN_SETTLED`, unless the lines end where the run did: then nothing is new.
   */
  openFrames (caller: Caller, id: string, from: number): Promise<FrameSink>
  /** Lines of a chat's journal from number `from` on, about `limit`. */
  readFrames (caller: Caller, id: string, from: number, limit: number): Promise<string[]>

  /** A page of the log after `after`. Waits up to `waitMs` for the first event. Throws `CURSOR_EXPIRED` where the run is no more. */
  eventPage (caller: Caller, id: string, options: { after?: string, tree: boolean, limit: number, waitMs: number, signal: AbortSignal }): Promise<EventPage>
  /**
   * The run's stream from `after` on. Resolves with `ended` when nothing can follow that cursor. Throws
   * `INVALID_REQUEST` for a cursor of another stream. The iteration ends with `settled`, with the signal, or with shutdown; of a
   * run that is no more, with the one `gap` that its own cursor gets.
   */
  stream (caller: Caller, id: string, options: { after?: string, tree: boolean, signal: AbortSignal }): Promise<{ ended: true } | { ended: false, items: AsyncIterable<StreamItem[]> }>

  createSession (caller: Caller, input: { id?: string, transcript?: RawTranscript, model?: string, delegationDepth?: unknown, cwd?: string, metadata: Record<string, string> }, idempotency?: Key): Promise<{ session: SessionRecord, replayed: boolean }>
  getSession (caller: Caller, id: string): Promise<SessionRecord>
  appendSession (caller: Caller, id: string, after: number, messages: string[], idempotency?: Key): Promise<{ session: SessionRecord, replayed: boolean }>
  /** Cancels the session's runs and forgets it. Idempotent. */
  deleteSession (caller: Caller, id: string): Promise<void>

  providers (): { name: string, available: boolean, reason?: string, capabilities: Capabilities, inheritsParentContext: boolean }[]
  tools (): Promise<ToolDefinition[]>
  agents (): { name: string, description: string, model: string | null }[]
  models (caller: Caller): { id: string, endpoint: string, kind: ModelKind, default: boolean }[]
}
