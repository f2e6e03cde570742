import type { Block } from '../core/events.ts'
import { isObject, MAX_NESTING } from '../core/json.ts'

/** The fields of one message, tool or system prompt as the host sent it. */
export type Fields = Record<string, unknown>
/** Makes the refusal that says where the transcript is malformed. */
export type Fail = (reason: string) => Error

/** What a model of another kind does not get to see, in the words of the notice. */
export type Loss =
  | 'image URLs' | 'images' | 'audio' | 'files' | 'documents' | 'search results' | 'reasoning' | 'reasoning items'
  | 'server tool calls' | 'item references' | 'other content'

/** Content read from a message: what every kind of model can see, and what only the host's own kind can. */
export interface Content { blocks: Block[], losses: Set<Loss> }
export const textContent = (text: string): Content => ({ blocks: [{ type: 'text', text }], losses: new Set() })

export function textOf (fields: Fields, name: string, fail: Fail): string {
  const value = fields[name]
  if (typeof value !== 'string') throw fail(`"${name}" must be a string`)
  return value
}

export function objectsOf (value: unknown, name: string, fail: Fail): Fields[] {
  if (!Array.isArray(value) || !value.every(isObject)) throw fail(`"${name}" must be an array of objects`)
  return value
}

/** Content that is a text, or parts of which each is read by `read`. */
export function contentOf (value: unknown, fail: Fail, read: (part: Fields, into: Content) => void, name = 'content'): Content {
  if (typeof value === 'string') return textContent(value)
  if (!Array.isArray(value)) throw fail(`"${name}" must be a string or an array`)
  const into: Content = { blocks: [], losses: new Set() }
  for (const part of objectsOf(value, name, fail)) read(part, into)
  return into
}

/** Text in its blocks, for the places where a model takes nothing else. */
export const textsOf = (blocks: readonly Block[]): string[] =>
  blocks.flatMap((block) => block.type === 'text' ? [block.text] : [])

/** A system prompt's text: a string, an array of texts, or messages with such a `content`. */
export function systemText (value: unknown, fail: Fail): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return value.map((item) => systemText(item, fail)).join('\n\n')
  if (isObject(value) && typeof value.text === 'string') return value.text
  if (isObject(value) && 'content' in value && typeof value.content !== 'object') return systemText(value.content, fail)
  throw fail('must be a text or an array of texts')
}

const DATA_URL = /^data:([a-z]+\/[a-z0-9.+-]+)(?:;[a-z0-9=.-]+)*;base64,/i

/** An image given as a URL: its data where the URL holds them, else a loss. */
export function imageFromUrl (url: unknown, into: Content): void {
  const match = typeof url === 'string' ? DATA_URL.exec(url.slice(0, 256)) : null
  if (match === null || typeof url !== 'string') into.losses.add('image URLs')
  else into.blocks.push({ type: 'image', data: url.slice(match[0].length), mimeType: (match[1] as string).toLowerCase() })
}

/** Says why a value cannot be walked: a stack must never be the limit. */
export function nestingFault (value: unknown, nesting = 0): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (nesting >= MAX_NESTING) return `nests deeper than ${MAX_NESTING} levels`
  for (const item of Array.isArray(value) ? value : Object.values(value)) {
    const fault = nestingFault(item, nesting + 1)
    if (fault !== undefined) return fault
  }
  return undefined
}

/** Says what a message is in a refusal: short, on one line, whatever the host sent. */
export const shown = (value: unknown): string => {
  const json = JSON.stringify(value) ?? 'nothing'
  return json.length > 64 ? `${json.slice(0, 60)}…` : json
}
