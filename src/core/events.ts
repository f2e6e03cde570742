import type { Json } from './json.ts'

/** The vocabulary of a session log: a closed union, an append-only list of it is a session (driver.md §2). */

export interface TextBlock { type: 'text', text: string }
export interface ImageBlock { type: 'image', data: string, mimeType: string }
export type Block = TextBlock | ImageBlock

export type WireFormat = 'openai-chat' | 'anthropic'
/**
 * The verbatim wire text that an imported event stands for: zero or more array elements, comma-joined. `''` means that
 * an earlier event of the same message carries the text. A model of the same format sends it as it is.
 */
export interface Wire { format: WireFormat, json: string }

export interface TextPart { type: 'text', text: string }
/** `signature` and `redacted` are the upstream's proof of the thought: sent back to it unchanged. */
export interface ReasoningPart { type: 'reasoning', text: string, signature?: string, redacted?: string }
/** `arguments` is the text the model wrote, verbatim; it need not be valid JSON. */
export interface ToolCallPart { type: 'tool-call', toolCallId: string, name: string, arguments: string }
export type AssistantPart = TextPart | ReasoningPart | ToolCallPart

export interface Usage {
  /** Includes the cached ones. */
  inputTokens: number
  cachedInputTokens: number
  cacheWriteTokens: number
  outputTokens: number
  reasoningTokens: number
  steps: number
  /** In US dollars, where the upstream tells it: an external CLI's for its whole session. */
  cost?: number
}

export type ModelStop = 'end' | 'tool-calls' | 'max-tokens' | 'refusal' | 'aborted' | 'error'

export type OutcomeCode =
  | 'MODEL_ERROR' | 'MODEL_RATE_LIMITED' | 'MODEL_AUTH' | 'CONTEXT_TOO_LONG' | 'NO_STRUCTURED_OUTPUT'
  | 'LIMIT_STEPS' | 'LIMIT_TIME' | 'LIMIT_TOKENS' | 'LIMIT_TREE' | 'SETUP_FAILED' | 'INTERRUPTED' | 'INTERNAL'
/** Why a run ended as `error`. `message` is safe to show: no secret, no payload. */
export interface Outcome { code: OutcomeCode, message: string, retryable: boolean }

export type TurnEndReason = 'completed' | 'max-tokens' | 'aborted' | 'refusal' | 'error' | 'interrupted'
export type StopReason = 'completed' | 'aborted' | 'error' | 'max-tokens' | 'refusal'

/**
 * What the model is told about a tool. `wire`: the host's own definition, sent verbatim to a model of that format.
 * `serverTool`: the upstream executes it itself; it has no schema here and is only sent where `wire` is.
 */
export interface ToolDefinition { name: string, description: string, inputSchema: Json, wire?: Wire, serverTool?: true }

/** One section of a system prompt. `wire`: the host's own system prompt (a JSON value, or openai-chat messages). */
export interface SystemSection { text: string, wire?: Wire }

export interface RunResult {
  output: Block[]
  structured?: Json
  stopReason: StopReason
  diagnostic?: string
  error?: Outcome
  usage: Usage
}

/** Who asked for a cancellation: a host's call, a lost client, a parent's cancellation, a DELETE. */
export type CancelledBy = 'request' | 'disconnect' | 'parent' | 'dispose'
export interface Cancellation { at: number, reason: string | null, by: CancelledBy }

export interface EventMap {
  /** `origin`: who opened it. Only `task` and `message` turns consume a user's message. */
  'turn/start': { turn: number, origin: 'task' | 'message' | 'transcript' | 'service' }
  'turn/end': { turn: number, reason: TurnEndReason, error?: Outcome }
  /** `attempt` counts the tries of this step from 1, across restarts. */
  'step/start': { turn: number, step: number, attempt: number }
  'step/end': { turn: number, step: number }
  'user/message': { content: Block[], messageId?: string, wire?: Wire }
  'assistant/message': { content: AssistantPart[], usage: Usage, model: string, stop: ModelStop, /** Of `stop: error`. */ error?: Outcome, wire?: Wire }
  /** The execution began (driver.md 2.7, 2.8): from here on the tool may have run. `deadline` in epoch ms, host calls only. */
  'tool/call': { toolCallId: string, name: string, input: Json, executor: 'service' | 'host', idempotent: boolean, deadline?: number, parent?: string }
  /** `ended`: a host call that got no answer, and why. `parent`: the `run_code` call whose program made it; the model does not see it. */
  'tool/result': { toolCallId: string, name: string, content: Block[], isError: boolean, structured?: Json, ended?: 'expired' | 'cancelled', parent?: string, wire?: Wire }
  /** How far a call is, as its tool tells it: at most one a second, and the last. The model does not see it. */
  'tool/progress': { toolCallId: string, progress: number, total?: number, message?: string }
  'request/header': { system: SystemSection[], tools: ToolDefinition[], model: string | null, reason: 'first' | 'changed' | 'transcript' }
  'subagent/start': { runId: string, toolCallId?: string, label: string | null }
  'subagent/end': { runId: string, toolCallId?: string, stopReason: StopReason }
  'run/cancel': Cancellation
  /** A message to a run under way, accepted; it joins the turn as `user/message` at the next step. `from`: its host, or a child that settled. */
  'run/message': { messageId: string, content: Block[], from: 'host' | 'child' }
  'run/resumed': { attempt: number }
  /** A model call failed and is tried again after `delayMs`. */
  'run/retry': { step: number, attempt: number, code: OutcomeCode, message: string, delayMs: number }
  /** The structured value the child reported, captured (driver.md 9.4). */
  'run/structured': { toolCallId: string, value: Json }
  'run/settled': { runId: string, result: RunResult }
}

export type EventType = keyof EventMap
export type SessionEventOf<T extends EventType> = { [K in T]: { type: K, seq: number, time: number, data: EventMap[K] } }[T]
/** `seq` is the index in the log, `time` epoch ms. */
export type SessionEvent = SessionEventOf<EventType>
/** An event before the log gave it a place. */
export type NewEvent = { [K in EventType]: { type: K, data: EventMap[K] } }[EventType]

export const EVENT_TYPES = [
  'turn/start', 'turn/end', 'step/start', 'step/end', 'user/message', 'assistant/message', 'tool/call', 'tool/progress', 'tool/result',
  'request/header', 'subagent/start', 'subagent/end', 'run/cancel', 'run/message', 'run/resumed', 'run/retry', 'run/structured', 'run/settled'
] as const satisfies readonly EventType[]

/** Immutable, outside the log (driver.md 2.2). `delegationDepth` is `unknown` where it was read, not minted: depth.ts judges it. */
export interface SessionHeader {
  id: string
  tenant: string
  createdAt: number
  provider?: string
  parentSession?: string
  delegationDepth?: unknown
  seedLength?: number
  cwd?: string
  label?: string
}

export const text = (value: string): TextBlock => ({ type: 'text', text: value })
export const noUsage = (): Usage =>
  ({ inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0, steps: 0 })

export function addUsage (a: Usage, b: Usage): Usage {
  const cost = a.cost === undefined ? b.cost : Math.min(a.cost + (b.cost ?? 0), Number.MAX_VALUE)
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    steps: a.steps + b.steps,
    ...(cost === undefined ? {} : { cost })
  }
}
