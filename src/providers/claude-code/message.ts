import type { AssistantPart } from '../../core/events.ts'
import { MOST_PARTS, MOST_TEXT } from './bounds.ts'
import { partSize, type Call, type CallResult, type Tokens } from './frames.ts'
import { emptyMap, find, put, type PersistentMap } from './persistent-map.ts'

/** A model's message in the making. */
export interface Message {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly parts: readonly AssistantPart[]
  /** By their ids; their order is that of `parts`. */
  readonly calls: PersistentMap<Call>
  /** Results that came before the message had ended. */
  readonly results: PersistentMap<CallResult>
  /** Where the text of a streamed block stands in `parts`, or which call it writes. */
  readonly blocks: PersistentMap<number | string>
  /** Characters of its parts and results. */
  readonly size: number
  readonly streamed: boolean
  readonly tokens: Tokens
  /** Those of them that are counted already. */
  readonly before: Tokens
  readonly stop: string | undefined
  readonly error: string | undefined
}

/** `before`: of the tokens of this message those that are counted already. */
export const emptyMessage = (id: string | undefined, streamed: boolean, before: Tokens): Message => ({
  id, model: undefined, parts: [], calls: emptyMap(), results: emptyMap(), blocks: emptyMap(), size: 0, streamed, tokens: before, before,
  stop: undefined, error: undefined
})

/** It takes no more: bounds.ts. */
export const isFull = ({ parts, blocks, size }: Message): boolean => parts.length >= MOST_PARTS || blocks.size >= MOST_PARTS || size > MOST_TEXT

/** The text goes on in its own block; where that is unknown, in a new part. */
export function withText (m: Message, index: unknown, type: 'text' | 'reasoning', more: string): Message {
  const at = blockAt(m, index)
  const part = typeof at === 'number' ? m.parts[at] : undefined
  if (typeof at !== 'number' || part?.type !== type) return withPart(m, index, { type, text: more })
  return { ...m, parts: m.parts.with(at, { ...part, text: part.text + more }), size: m.size + more.length }
}

export function signed (m: Message, index: unknown, more: string): Message {
  const at = blockAt(m, index)
  const part = typeof at === 'number' ? m.parts[at] : undefined
  if (typeof at !== 'number' || part?.type !== 'reasoning' || more === '') return m
  return { ...m, parts: m.parts.with(at, { ...part, signature: (part.signature ?? '') + more }), size: m.size + more.length }
}

export const withPart = (m: Message, index: unknown, part: AssistantPart): Message =>
  ({ ...m, parts: [...m.parts, part], blocks: withBlock(m, index, m.parts.length), size: m.size + partSize(part) })

const isIndex = (index: unknown): index is number | undefined => typeof index === 'number' || index === undefined
export const blockAt = (m: Message, index: unknown): number | string | undefined => isIndex(index) ? find(m.blocks, String(index)) : undefined
export const withBlock = (m: Message, index: unknown, at: number | string): Message['blocks'] => isIndex(index) ? put(m.blocks, String(index), at) : m.blocks
