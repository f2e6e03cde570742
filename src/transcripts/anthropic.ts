import { isObject } from '../core/json.ts'
import { contentOf, imageFromUrl, objectsOf, shown, textOf, type Content, type Fail, type Fields } from './fields.ts'
import {
  modelReading, toolCall, userReading, type Format, type ModelReading, type Reading, type ResultReading, type UserReading
} from './reading.ts'

/** Messages of Anthropic's messages API. A system message among them stays where it is: it is that API's own. */
export const anthropic: Format = { read }

function read (message: Fields, fail: Fail): Reading {
  switch (message.role) {
    case 'user': return user(message.content, fail)
    case 'system': return userReading(contentOf(message.content, fail, blockReader(fail)))
    case 'assistant': return assistant(message.content, fail)
    default: throw fail(`unknown role ${shown(message.role)}`)
  }
}

function user (content: unknown, fail: Fail): UserReading {
  if (!Array.isArray(content)) return userReading(contentOf(content, fail, blockReader(fail)))
  const blocks = objectsOf(content, 'content', fail)
  const others = blocks.filter((block) => block.type !== 'tool_result')
  const results: ResultReading[] = []
  const { blocks: said, losses } = contentOf(others, fail, blockReader(fail))
  for (const block of blocks) {
    if (block.type !== 'tool_result') continue
    const { blocks: told, losses: lost } = contentOf(block.content ?? [], fail, blockReader(fail))
    results.push({ toolCallId: textOf(block, 'tool_use_id', fail), content: told, isError: block.is_error === true })
    for (const loss of lost) losses.add(loss)
  }
  return { from: 'user', results, losses, ...(others.length > 0 || results.length === 0 ? { content: said } : {}) }
}

const blockReader = (fail: Fail) => (block: Fields, into: Content): void => {
  switch (block.type) {
    case 'text':
      into.blocks.push({ type: 'text', text: textOf(block, 'text', fail) })
      return
    case 'image':
      readImage(block.source, into, fail)
      return
    case 'document':
      into.losses.add('documents')
      return
    case 'search_result':
      into.losses.add('search results')
      return
    case 'container_upload':
      into.losses.add('files')
      return
    case 'tool_use':
    case 'tool_result':
    case 'thinking':
      throw fail(`a "${block.type}" block does not belong here`)
    default:
      if (typeof block.type !== 'string') throw fail('a content block has no "type"')
      into.losses.add('other content')
  }
}

function readImage (source: unknown, into: Content, fail: Fail): void {
  if (!isObject(source)) throw fail('an image block has no "source"')
  if (source.type === 'base64') {
    into.blocks.push({ type: 'image', data: textOf(source, 'data', fail), mimeType: textOf(source, 'media_type', fail) })
  } else if (source.type === 'url') imageFromUrl(source.url, into)
  else into.losses.add('files')
}

function assistant (content: unknown, fail: Fail): ModelReading {
  if (typeof content === 'string') return modelReading(content === '' ? [] : [{ type: 'text', text: content }])
  const reading = modelReading()
  for (const block of objectsOf(content, 'content', fail)) readOwn(block, reading, fail)
  return reading
}

const signatureOf = ({ signature }: Fields): { signature?: string } => typeof signature === 'string' ? { signature } : {}

function readOwn (block: Fields, reading: ModelReading, fail: Fail): void {
  const { content, losses } = reading
  switch (block.type) {
    case 'text':
      content.push({ type: 'text', text: textOf(block, 'text', fail) })
      return
    case 'thinking':
      content.push({ type: 'reasoning', text: textOf(block, 'thinking', fail), ...signatureOf(block) })
      losses.add('reasoning')
      return
    case 'redacted_thinking':
      content.push({ type: 'reasoning', text: '', redacted: textOf(block, 'data', fail) })
      losses.add('reasoning')
      return
    case 'tool_use':
      if (!('input' in block)) throw fail('a "tool_use" block has no "input"')
      content.push(toolCall(textOf(block, 'id', fail), textOf(block, 'name', fail), JSON.stringify(block.input)))
      return
    case 'server_tool_use':
    case 'mcp_tool_use':
      reading.asked.push(textOf(block, 'id', fail))
      losses.add('server tool calls')
      return
    case 'tool_result':
      throw fail('a "tool_result" block belongs in a user message')
    default:
      if (typeof block.type !== 'string') throw fail('a content block has no "type"')
      if (!block.type.endsWith('_tool_result')) losses.add(block.type === 'image' ? 'images' : 'other content')
      else {
        reading.answered.push(textOf(block, 'tool_use_id', fail))
        losses.add('server tool calls')
      }
  }
}
