import type { AssistantPart, Block, ToolCallPart } from '../core/events.ts'
import type { Content, Fail, Fields, Loss } from './fields.ts'

/** What one message of a host says, in no format's terms. */
export type Reading = UserReading | ModelReading | NoReading

/** `content` is absent where the message says nothing of its own; results stand before the content. */
export interface UserReading { from: 'user', results: ResultReading[], content?: Block[], losses: Set<Loss> }
/** `asked` and `answered` name calls that the upstream executes itself: they wait for no host (http-api.md 4.1). */
export interface ModelReading { from: 'model', content: AssistantPart[], asked: string[], answered: string[], losses: Set<Loss> }
/** An item that no model is told of. */
export interface NoReading { from: 'none', losses: Set<Loss> }
export interface ResultReading { toolCallId: string, content: Block[], isError: boolean }

/** A host's way to write conversations. */
export interface Format {
  /** Reads one message; throws what `fail` makes when it is malformed. */
  read: (message: Fields, fail: Fail) => Reading
  /** A message that at the head of a conversation is its system prompt. */
  isSystem?: (message: Fields) => boolean
}

export const userReading = ({ blocks, losses }: Content): UserReading => ({ from: 'user', results: [], content: blocks, losses })
export const resultReading = (toolCallId: string, { blocks, losses }: Content, isError = false): UserReading =>
  ({ from: 'user', results: [{ toolCallId, content: blocks, isError }], losses })
export const modelReading = (content: AssistantPart[] = [], losses = new Set<Loss>()): ModelReading =>
  ({ from: 'model', content, asked: [], answered: [], losses })

export const toolCall = (toolCallId: string, name: string, args: string): ToolCallPart =>
  ({ type: 'tool-call', toolCallId, name, arguments: args })

/** Arguments of a tool whose input is one free text: as JSON for models that know only JSON. */
export const freeTextArguments = (input: string): string => JSON.stringify({ input })
