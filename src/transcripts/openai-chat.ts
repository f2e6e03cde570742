import type { AssistantPart } from '../core/events.ts'
import { isObject } from '../core/json.ts'
import { contentOf, imageFromUrl, objectsOf, shown, textOf, type Content, type Fail, type Fields } from './fields.ts'
import {
  freeTextArguments, modelReading, resultReading, toolCall, userReading, type Format, type ModelReading, type Reading
} from './reading.ts'

/** Messages of the chat completions API, and of the many servers that speak it. */
export const openaiChat: Format = {
  read,
  isSystem: (message) => message.role === 'system' || message.role === 'developer'
}

function read (message: Fields, fail: Fail): Reading {
  switch (message.role) {
    case 'system':
    case 'developer':
    case 'user':
      return userReading(contentOf(message.content, fail, partReader(fail)))
    case 'assistant':
      return assistant(message, fail)
    case 'tool':
      return resultReading(textOf(message, 'tool_call_id', fail), contentOf(message.content, fail, partReader(fail)))
    case 'function':
      return resultReading(legacyId(textOf(message, 'name', fail)), contentOf(message.content ?? '', fail, partReader(fail)))
    default:
      throw fail(`unknown role ${shown(message.role)}`)
  }
}

const partReader = (fail: Fail) => (part: Fields, into: Content): void => {
  switch (part.type) {
    case 'text':
      into.blocks.push({ type: 'text', text: textOf(part, 'text', fail) })
      return
    case 'refusal':
      into.blocks.push({ type: 'text', text: textOf(part, 'refusal', fail) })
      return
    case 'image_url':
      imageFromUrl(isObject(part.image_url) ? part.image_url.url : part.image_url, into)
      return
    case 'input_audio':
      into.losses.add('audio')
      return
    case 'file':
      into.losses.add('files')
      return
    default:
      if (typeof part.type !== 'string') throw fail('a content part has no "type"')
      into.losses.add('other content')
  }
}

const EMPTY_OR_ELSE = ['tool_calls', 'function_call', 'refusal', 'audio']

function assistant (message: Fields, fail: Fail): ModelReading {
  const { content } = message
  if (content === undefined && !EMPTY_OR_ELSE.some((name) => (message[name] ?? null) !== null)) throw fail('"content" is missing')
  const said = contentOf(content ?? [], fail, partReader(fail))
  const parts: AssistantPart[] = said.blocks.filter((block) => block.type === 'text' && block.text !== '') as AssistantPart[]
  const { losses } = said
  if (said.blocks.some((block) => block.type === 'image')) losses.add('images')
  if (typeof message.refusal === 'string' && message.refusal !== '') parts.push({ type: 'text', text: message.refusal })
  if ((message.audio ?? null) !== null) losses.add('audio')
  if (message.reasoning_content || message.reasoning || message.reasoning_details) losses.add('reasoning')
  for (const call of objectsOf(message.tool_calls ?? [], 'tool_calls', fail)) parts.push(readCall(call, fail))
  const legacy = message.function_call ?? null
  if (legacy !== null) parts.push(readLegacyCall(legacy, fail))
  return modelReading(parts, losses)
}

function readCall (call: Fields, fail: Fail): AssistantPart {
  const id = textOf(call, 'id', fail)
  const { custom } = call
  if (isObject(custom)) return toolCall(id, textOf(custom, 'name', fail), freeTextArguments(textOf(custom, 'input', fail)))
  if (!isObject(call.function)) throw fail('a tool call has neither "function" nor "custom"')
  return toolCall(id, textOf(call.function, 'name', fail), argumentsOf(call.function, fail))
}

/** The text the model wrote, verbatim; some servers send it parsed, or not at all where it is empty. */
function argumentsOf (call: Fields, fail: Fail): string {
  const args = call.arguments ?? ''
  if (isObject(args)) return JSON.stringify(args)
  if (typeof args !== 'string') throw fail('"arguments" must be a string')
  return args
}

function readLegacyCall (call: unknown, fail: Fail): AssistantPart {
  if (!isObject(call)) throw fail('"function_call" must be an object')
  const name = textOf(call, 'name', fail)
  return toolCall(legacyId(name), name, argumentsOf(call, fail))
}

/** Calls of the first function API have no id: their result names the function. */
const legacyId = (name: string): string => `function_${name}`
