import { isObject } from '../core/json.ts'
import {
  contentOf, imageFromUrl, objectsOf, shown, textContent, textOf, type Content, type Fail, type Fields, type Loss
} from './fields.ts'
import {
  modelReading, toolCall, userReading, type Format, type ModelReading, type Reading, type ResultReading
} from './reading.ts'

/** `ModelMessage`s of the AI SDK, versions 4 to 7. They are no API's own, so nothing of them is kept verbatim. */
export const aiSdk: Format = { read, isSystem: (message) => message.role === 'system' }

function read (message: Fields, fail: Fail): Reading {
  switch (message.role) {
    case 'system': return userReading(textContent(textOf(message, 'content', fail)))
    case 'user': return userReading(contentOf(message.content, fail, partReader(fail)))
    case 'assistant': return assistant(message.content, fail)
    case 'tool': return toolMessage(message.content, fail)
    default: throw fail(`unknown role ${shown(message.role)}`)
  }
}

const partReader = (fail: Fail) => (part: Fields, into: Content): void => {
  switch (part.type) {
    case 'text':
      into.blocks.push({ type: 'text', text: textOf(part, 'text', fail) })
      return
    case 'image':
    case 'image-data':
    case 'image-url':
      readMedia(part.image ?? part.data ?? part.url, mediaTypeOf(part) ?? 'image/*', into)
      return
    case 'file':
    case 'media':
    case 'file-data':
    case 'file-url':
      readMedia(part.data ?? part.url, mediaTypeOf(part) ?? '', into)
      return
    case 'file-id':
    case 'image-file-id':
      into.losses.add('files')
      return
    default:
      if (typeof part.type !== 'string') throw fail('a content part has no "type"')
      into.losses.add('other content')
  }
}

function mediaTypeOf (part: Fields): string | undefined {
  const given = part.mediaType ?? part.mimeType
  return typeof given === 'string' ? given : undefined
}

/** Data are base64, a data URL or a link, bare or in a tagged object; bytes that JSON turned into an object are lost. */
function readMedia (source: unknown, mediaType: string, into: Content): void {
  const data = isObject(source) ? source.data ?? source.url : source
  if (!/^image\b/.test(mediaType)) into.losses.add('files')
  else if (typeof data !== 'string') into.losses.add('images')
  else if (/^(?:https?|data):/i.test(data)) imageFromUrl(data, into)
  else into.blocks.push({ type: 'image', data, mimeType: /^image\/[a-z]/.test(mediaType) ? mediaType : guessedType(data) })
}

const MAGIC = [['/9j/', 'image/jpeg'], ['R0lG', 'image/gif'], ['UklG', 'image/webp']] as const
const guessedType = (data: string): string => MAGIC.find(([magic]) => data.startsWith(magic))?.[1] ?? 'image/png'

function assistant (content: unknown, fail: Fail): ModelReading {
  if (typeof content === 'string') return modelReading(content === '' ? [] : [{ type: 'text', text: content }])
  const parts = objectsOf(content, 'content', fail)
  const answered = new Set(parts.filter((part) => part.type === 'tool-result').map((part) => textOf(part, 'toolCallId', fail)))
  const reading = modelReading()
  for (const part of parts) readOwn(part, reading, answered, fail)
  return reading
}

function readOwn (part: Fields, { content, losses }: ModelReading, answered: ReadonlySet<string>, fail: Fail): void {
  switch (part.type) {
    case 'text':
      content.push({ type: 'text', text: textOf(part, 'text', fail) })
      return
    case 'reasoning':
    case 'redacted-reasoning':
    case 'reasoning-file':
      losses.add('reasoning')
      return
    case 'tool-call': {
      const id = textOf(part, 'toolCallId', fail)
      if (part.providerExecuted === true || answered.has(id)) losses.add('server tool calls')
      else content.push(toolCall(id, textOf(part, 'toolName', fail), argumentsOf(part, fail)))
      return
    }
    case 'tool-result':
      losses.add('server tool calls')
      return
    case 'tool-approval-request':
      return
    case 'file':
      losses.add('files')
      return
    default:
      if (typeof part.type !== 'string') throw fail('a content part has no "type"')
      losses.add('other content')
  }
}

/** `args` is the name of version 4. An input that is a text is what the model wrote and nobody could parse. */
function argumentsOf (part: Fields, fail: Fail): string {
  const input = part.input ?? part.args
  if (input === undefined) throw fail('a "tool-call" part has no "input"')
  return typeof input === 'string' ? input : JSON.stringify(input)
}

function toolMessage (content: unknown, fail: Fail): Reading {
  const results: ResultReading[] = []
  const lost = new Set<Loss>()
  for (const part of objectsOf(content, 'content', fail)) {
    if (part.type === 'tool-approval-response') continue
    if (part.type !== 'tool-result') throw fail(`a tool message holds no part of type ${shown(part.type)}`)
    const { blocks, losses, isError } = resultOf(part, fail)
    results.push({ toolCallId: textOf(part, 'toolCallId', fail), content: blocks, isError })
    for (const loss of losses) lost.add(loss)
  }
  return { from: 'user', results, losses: lost }
}

function resultOf (part: Fields, fail: Fail): Content & { isError: boolean } {
  const { output } = part
  const said = (value: unknown, isError: boolean) =>
    ({ ...textContent(typeof value === 'string' ? value : JSON.stringify(value ?? null)), isError })
  if (output === undefined && 'result' in part) return said(part.result, part.isError === true)
  if (!isObject(output) || typeof output.type !== 'string') throw fail('a "tool-result" part has no "output" with a "type"')
  switch (output.type) {
    case 'content': return { ...contentOf(output.value, fail, partReader(fail), 'output.value'), isError: false }
    case 'execution-denied': return said(typeof output.reason === 'string' ? output.reason : 'Tool execution denied.', true)
    case 'error-text':
    case 'error-json': return said(output.value, true)
    default: return said(output.value, false)
  }
}
