import type { AssistantPart, ModelStop, Outcome, SystemSection, ToolDefinition, Usage } from './events.ts'
import type { DeltaKind } from './deltas.ts'
import type { ModelMessage } from './fold.ts'
import type { Json } from './json.ts'

export type ModelKind = 'openai-chat' | 'anthropic' | 'scripted'

/** Everything one model call is made of; the same request gives the same bytes upstream. */
export interface ModelRequest {
  system: readonly SystemSection[]
  messages: readonly ModelMessage[]
  /** Empty: the request carries no `tools` field (driver.md 8.2). */
  tools: readonly ToolDefinition[]
  maxTokens?: number
  temperature?: number
  /** The verbatim text of a JSON object, joined to the upstream request as it is (http-api.md §2). */
  providerOptions?: string
  /** For scripted models: the steps to play, and which model call of this run it is, from 0 (earlier runs of the session not counted). */
  script?: Json
  call: number
}

export interface ModelReply { content: AssistantPart[], usage: Omit<Usage, 'steps'>, model: string, stop: Exclude<ModelStop, 'aborted' | 'error'> }

/** `retryAfterMs`: what the upstream asked for. `status`: its HTTP status, where it had one. */
export interface ModelFailure { outcome: Outcome, retryAfterMs?: number, status?: number }

export type ModelStreamEvent =
  | { type: 'delta', kind: DeltaKind, text: string, toolCallId?: string }
  | { type: 'reply', reply: ModelReply }
  | { type: 'failure', failure: ModelFailure }

/**
 * A model. `stream` yields deltas and then exactly one `reply` or `failure`; it throws nothing. After an abort of `signal`
 * the upstream request is gone and the last event is a failure (its content is not read: ask the signal).
 * It never retries: the loop does.
 */
export interface Model {
  /** `<endpoint>/<model>`. */
  readonly id: string
  readonly kind: ModelKind
  stream (request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelStreamEvent>
}

/** The models a deployment offers. */
export interface Models {
  /** The model of a full name `<endpoint>/<model>`; without an endpoint, of the endpoint of `kind` (http-api.md 4.4), else of the default endpoint. Throws `MODEL_UNKNOWN`. */
  resolve (name: string, kind?: ModelKind): Model
  readonly defaultModel: string
  list (): { id: string, endpoint: string, kind: ModelKind, default: boolean }[]
  close (): Promise<void>
}
