import type { NewEvent, SystemSection, ToolDefinition } from './events.ts'
import type { ModelKind } from './model.ts'

export type TranscriptFormat = 'events' | 'openai-chat' | 'openai-responses' | 'anthropic' | 'ai-sdk'

/** A host's transcript. `system`, each tool and each message are the verbatim JSON texts that the host sent. */
export interface RawTranscript { format: TranscriptFormat, system?: string, tools?: string[], messages: string[] }

/** Events of its completed turns, and what is left of it. Made by `transcripts/`. */
export interface ImportedTranscript {
  /** Balanced; a `request/header` of reason `transcript` first where the host gave a system prompt or tools. */
  events: NewEvent[]
  turns: number
  /** The messages after the cut, verbatim. */
  tail: string[]
  system: SystemSection[]
  tools: ToolDefinition[]
  /** The kind of model that takes the wire texts as they are. */
  kind?: ModelKind
  /** What a model of another kind will not see, in words. */
  losses: string[]
}

export interface ImportOptions {
  /** The number of the first turn, 1 unless the messages continue a session (driver.md 3.5). */
  firstTurn?: number
  /** Where the transcript stands in the request body, for the pointers of refusals: `/parent/transcript` unless given. */
  pointer?: string
  /** How many messages at the head the host sent earlier: refusals count the messages after them. */
  known?: number
}

/** Pure work that pauses now and then, so that whoever does it can let others have their turn. */
export type Steps<T> = Generator<undefined, T, undefined>
export type ImportTranscript = (raw: RawTranscript, options?: ImportOptions) => Steps<ImportedTranscript>

/** Whose endpoint a model without an endpoint name means beside a transcript of this format, if there is one (http-api.md 4.4). */
export function endpointKind (format: string | null | undefined): ModelKind | undefined {
  if (format === 'anthropic') return 'anthropic'
  return format === 'openai-chat' || format === 'openai-responses' ? 'openai-chat' : undefined
}
