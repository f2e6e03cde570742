import { hash } from 'node:crypto'
import { outcome } from '../../core/errors.ts'
import { text, type AssistantPart, type Block, type ModelStop, type Outcome, type Usage } from '../../core/events.ts'
import { isObject, MAX_NESTING, plainJsonFault, type Json } from '../../core/json.ts'
import { MOST_ID, MOST_PARTS } from './bounds.ts'
import type { ChildReason, Frame } from './vocabulary.ts'

/** Reads of frames. Every field is optional; one of an unexpected type reads as absent and costs nothing else (A1). */

export const stringIn = (frame: Frame, key: string): string | undefined => {
  const value = frame[key]
  return typeof value === 'string' ? value : undefined
}
/** A text: an empty one counts as none. */
export const wordsIn = (frame: Frame, key: string): string | undefined => stringIn(frame, key) || undefined
/** An id: an empty one, or one that is too long, counts as none. */
export const idIn = (frame: Frame, key: string): string | undefined => {
  const id = wordsIn(frame, key)
  return id === undefined || id.length > MOST_ID ? undefined : id
}
/** What something is called: an empty name counts as none, one that is too long is cut. */
export const nameIn = (frame: Frame, key: string): string | undefined => {
  const name = wordsIn(frame, key)
  return name === undefined || name.length <= MOST_ID ? name : name.slice(0, MOST_ID).toWellFormed()
}
const NOTHING: Frame = {}
export const objectIn = (frame: Frame, key: string): Frame => {
  const value = frame[key]
  return isObject(value) ? value : NOTHING
}
export const listIn = (frame: Frame, key: string): readonly unknown[] => {
  const value = frame[key]
  return Array.isArray(value) ? value : []
}
/** The blocks of a message or a result, as many as are read. */
const blocksIn = (frame: Frame): readonly unknown[] => listIn(frame, 'content').slice(0, MOST_PARTS)
const countIn = (frame: Frame, key: string): number => {
  const value = frame[key]
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}
export const amountIn = (frame: Frame, key: string): number | undefined => {
  const value = frame[key]
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value + 0 : undefined
}

/** What tells a frame that comes twice from another of the same message; `undefined` where it has no uuid. */
export function keyOf (frame: Frame): string | undefined {
  const uuid = idIn(frame, 'uuid')
  if (uuid === undefined) return undefined
  return markOf(blocksIn(objectIn(frame, 'message')).reduce<string>((key, block) => !isObject(block) ? key
    : `${key} ${stringIn(block, 'type')}:${stringIn(block, 'id') ?? stringIn(block, 'tool_use_id') ?? stringIn(block, 'text')?.length}`, uuid))
}

/** Stands for a text that is only ever compared: itself where it is short. */
export const markOf = (said: string): string => said.length <= MOST_ID ? said : hash('sha256', said)

/** Tokens as a message's frames tell them; each frame tells what is known so far. */
export interface Tokens { fresh: number, written: number, cached: number, output: number, reasoning: number }
export const NO_TOKENS: Tokens = { fresh: 0, written: 0, cached: 0, output: 0, reasoning: 0 }

export function tokensIn (frame: Frame, known: Tokens = NO_TOKENS): Tokens {
  const usage = frame['usage']
  if (!isObject(usage)) return known
  return {
    fresh: Math.max(known.fresh, countIn(usage, 'input_tokens')),
    written: Math.max(known.written, countIn(usage, 'cache_creation_input_tokens')),
    cached: Math.max(known.cached, countIn(usage, 'cache_read_input_tokens')),
    output: Math.max(known.output, countIn(usage, 'output_tokens')),
    reasoning: Math.max(known.reasoning, countIn(objectIn(usage, 'output_tokens_details'), 'thinking_tokens'))
  }
}

/** What came since `known`. */
export const tokensSince = (now: Tokens, known: Tokens): Tokens => ({
  fresh: now.fresh - known.fresh, written: now.written - known.written, cached: now.cached - known.cached,
  output: now.output - known.output, reasoning: now.reasoning - known.reasoning
})

export const usageOf = ({ fresh, written, cached, output, reasoning }: Tokens, steps: number): Usage => ({
  inputTokens: fresh + written + cached, cachedInputTokens: cached, cacheWriteTokens: written, outputTokens: output, reasoningTokens: reasoning, steps
})

export interface Call { readonly toolCallId: string, readonly name: string, readonly input: Json }
export interface CallResult { readonly toolCallId: string, readonly content: Block[], readonly isError: boolean }

/** What an assistant frame says: its parts in block order, and of its calls the arguments as values. */
export function partsIn (message: Frame): { parts: AssistantPart[], calls: Call[] } {
  const said = message['content']
  if (typeof said === 'string') return { parts: said === '' ? [] : [text(said)], calls: [] }
  const parts: AssistantPart[] = []
  const calls: Call[] = []
  for (const block of blocksIn(message)) {
    if (!isObject(block)) continue
    const call = callIn(block)
    if (call) {
      calls.push(call)
      parts.push({ type: 'tool-call', toolCallId: call.toolCallId, name: call.name, arguments: JSON.stringify(call.input) })
      continue
    }
    const part = partIn(block)
    if (part) parts.push(part)
  }
  return { parts, calls }
}

/** A text or a thought; what a block of another type holds is the journal's alone. */
export function partIn (block: Frame): AssistantPart | undefined {
  switch (block['type']) {
    case 'text': return text(stringIn(block, 'text') ?? '')
    case 'thinking': {
      const signature = wordsIn(block, 'signature')
      return { type: 'reasoning', text: stringIn(block, 'thinking') ?? '', ...(signature === undefined ? {} : { signature }) }
    }
    case 'redacted_thinking': {
      const redacted = wordsIn(block, 'data')
      return redacted === undefined ? undefined : { type: 'reasoning', text: '', redacted }
    }
    default: return undefined
  }
}

function callIn (block: Frame): Call | undefined {
  if (block['type'] !== 'tool_use') return undefined
  const toolCallId = idIn(block, 'id')
  const name = nameIn(block, 'name')
  return toolCallId === undefined || name === undefined ? undefined : { toolCallId, name, input: plainInput(block['input']) }
}

/** A value that a log takes (driver.md 2.1), as a field of an event. What nests past its limit is lost; the journal has it. */
export function plainInput (value: unknown): Json {
  if (value !== undefined && !plainJsonFault(value, 1)) return value as Json
  return plainCopy(value, 1) ?? {}
}

/** `undefined` where it nests too deep. Numbers that JSON does not keep become what shows them. */
function plainCopy (value: unknown, nesting: number): Json | undefined {
  if (nesting > MAX_NESTING) return undefined
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : String(value)
  if (typeof value !== 'object' || value === null) return value as Json | undefined
  const copies = Object.entries(value).map(([key, item]) => [key, plainCopy(item, nesting + 1)] as const)
  if (copies.some(([, copy]) => copy === undefined)) return undefined
  return Array.isArray(value) ? copies.map(([, copy]) => copy as Json) : Object.fromEntries(copies) as Json
}

/** A user frame: what the user says, without what the CLI itself puts in the user's mouth (A5), and what answers calls. */
export function userIn (message: Frame): { content: Block[], results: CallResult[] } {
  const said = message['content']
  if (typeof said === 'string') return { content: isNoise(said) ? [] : [text(said)], results: [] }
  const content: Block[] = []
  const results: CallResult[] = []
  for (const block of blocksIn(message)) {
    if (!isObject(block)) continue
    if (block['type'] === 'tool_result') {
      const toolCallId = idIn(block, 'tool_use_id')
      if (toolCallId !== undefined) results.push({ toolCallId, content: resultContent(block), isError: block['is_error'] === true })
      continue
    }
    const read = blockIn(block)
    if (read && !(read.type === 'text' && isNoise(read.text))) content.push(read)
  }
  return { content, results }
}

const NOISE = ['<system-reminder>', '<task-notification>', '[Request interrupted']
function isNoise (said: string): boolean {
  const start = said.trimStart()
  return start === '' || NOISE.some((mark) => start.startsWith(mark))
}

function blockIn (block: Frame): Block | undefined {
  if (block['type'] === 'text') return text(stringIn(block, 'text') ?? '')
  if (block['type'] !== 'image') return undefined
  const source = objectIn(block, 'source')
  const [data, mimeType] = [wordsIn(source, 'data'), nameIn(source, 'media_type')]
  return data === undefined || mimeType === undefined ? undefined : { type: 'image', data, mimeType }
}

function resultContent (block: Frame): Block[] {
  const said = stringIn(block, 'content')
  if (said !== undefined) return [text(said)]
  const blocks = blocksIn(block).flatMap((item) => isObject(item) ? blockIn(item) ?? [] : [])
  return blocks.length === 0 ? [text('')] : blocks
}

/** Characters of a content, roughly what it holds in memory. */
export const sizeOf = (content: readonly Block[]): number =>
  content.reduce((sum, block) => sum + (block.type === 'text' ? block.text.length : block.type === 'image' ? block.data.length : 0), 0)
export const partSize = (part: AssistantPart): number => part.type === 'text' ? part.text.length
  : part.type === 'tool-call' ? part.arguments.length
    : part.text.length + (part.signature?.length ?? 0) + (part.redacted?.length ?? 0)

export const wordsOf = (content: readonly Block[]): string => content.map((block) => block.type === 'text' ? block.text : '').join('')

const REASONS = new Map<string, ChildReason>([
  ...['completed', 'complete', 'succeeded', 'success'].map((word) => [word, 'completed'] as const),
  ...['failed', 'errored', 'error'].map((word) => [word, 'error'] as const),
  ...['killed', 'cancelled', 'canceled', 'stopped', 'interrupted'].map((word) => [word, 'aborted'] as const)
])
/** B7: what a status word ends a child as; `undefined` where it is not terminal. */
export const reasonOf = (status: string | undefined): ChildReason | undefined => status === undefined ? undefined : REASONS.get(status)

export function modelStopOf (reason: string | undefined, calls: boolean): ModelStop {
  switch (reason) {
    case 'max_tokens': return 'max-tokens'
    case 'refusal': return 'refusal'
    default: return calls ? 'tool-calls' : 'end'
  }
}

/** The outcome that the `error` word of an assistant frame stands for. */
export function modelError (word: string): Outcome {
  const message = `the CLI reports: ${shown(word)}`
  if (word === 'rate_limit' || word === 'overloaded') return outcome('MODEL_RATE_LIMITED', message)
  return outcome(word.startsWith('auth') || word.startsWith('billing') || word.startsWith('oauth') ? 'MODEL_AUTH' : 'MODEL_ERROR', message, false)
}

/** A text of the CLI within a message: short, and whole characters. */
export const shown = (said: string): string => said.slice(0, 1000).toWellFormed()
