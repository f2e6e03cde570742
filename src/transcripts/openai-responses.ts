import type { AssistantPart } from '../core/events.ts'
import { isObject } from '../core/json.ts'
import {
  contentOf, imageFromUrl, shown, textContent, textOf, textsOf, type Content, type Fail, type Fields, type Loss
} from './fields.ts'
import { freeTextArguments, modelReading, resultReading, toolCall, userReading, type Format, type Reading } from './reading.ts'

/** Items of the responses API. No model here speaks it, so they are translated, and nothing of them is kept verbatim. */
export const openaiResponses: Format = {
  read,
  isSystem: (item) => isMessage(item) && (item.role === 'system' || item.role === 'developer')
}

/** Calls of the host's built-in tools: the item's type, the tool's name, and the fields that say what is asked. */
const HOST_CALLS = new Map<unknown, { name: string, input: string[] }>([
  ['computer_call', { name: 'computer', input: ['action', 'actions'] }],
  ['local_shell_call', { name: 'local_shell', input: ['action'] }],
  ['shell_call', { name: 'shell', input: ['action'] }],
  ['apply_patch_call', { name: 'apply_patch', input: ['operation'] }],
  ['tool_search_call', { name: 'tool_search', input: ['arguments'] }]
])
const HOST_OUTPUTS = new Set<unknown>([
  'function_call_output', 'custom_tool_call_output', 'computer_call_output', 'local_shell_call_output', 'shell_call_output',
  'apply_patch_call_output', 'tool_search_output'
])
/** Items of work that the upstream did itself. */
const SERVER_ITEMS = new Set<unknown>([
  'web_search_call', 'file_search_call', 'code_interpreter_call', 'image_generation_call', 'mcp_call', 'mcp_list_tools',
  'program', 'program_output'
])

function read (item: Fields, fail: Fail): Reading {
  if (isMessage(item)) return readMessage(item, fail)
  const { type } = item
  if (type === 'reasoning') return modelReading([], new Set(['reasoning items']))
  if (SERVER_ITEMS.has(type) || isHostedSearch(item)) return modelReading([], new Set(['server tool calls']))
  const call = readCall(item, fail)
  if (call) return modelReading([toolCall(callIdOf(item, fail), call.name, call.args)])
  if (HOST_OUTPUTS.has(type)) return resultReading(callIdOf(item, fail), outputOf(item, fail))
  return readRest(item, fail)
}

function readCall (item: Fields, fail: Fail): { name: string, args: string } | undefined {
  if (item.type === 'function_call') return { name: textOf(item, 'name', fail), args: textOf(item, 'arguments', fail) }
  if (item.type === 'custom_tool_call') {
    return { name: textOf(item, 'name', fail), args: freeTextArguments(textOf(item, 'input', fail)) }
  }
  const call = HOST_CALLS.get(item.type)
  return call && { name: call.name, args: JSON.stringify(Object.fromEntries(call.input.map((name) => [name, item[name]]))) }
}

const isMessage = (item: Fields): boolean => item.type === 'message' || (item.type === undefined && item.role !== undefined)

/** Tool search runs upstream unless the item says that the client ran it. */
const isHostedSearch = (item: Fields): boolean =>
  (item.type === 'tool_search_call' || item.type === 'tool_search_output') && item.execution !== 'client'

/** The output of the first generation's shell names its call by `id`. */
const callIdOf = (item: Fields, fail: Fail): string =>
  textOf(item, item.type === 'local_shell_call_output' && item.call_id === undefined ? 'id' : 'call_id', fail)

const lost = (loss: Loss): Reading => ({ from: 'none', losses: new Set([loss]) })

function readRest (item: Fields, fail: Fail): Reading {
  const { type } = item
  if (type === 'mcp_approval_request') {
    return { ...modelReading([], new Set(['server tool calls'])), asked: [textOf(item, 'id', fail)] }
  }
  if (type === 'item_reference' || (type === undefined && typeof item.id === 'string')) return lost('item references')
  if (typeof type !== 'string') throw fail('the item has neither "type" nor "role"')
  if (type === 'mcp_approval_response') return { from: 'user', results: [], losses: new Set() }
  return lost('other content')
}

function readMessage (item: Fields, fail: Fail): Reading {
  const content = contentOf(item.content, fail, partReader(fail))
  switch (item.role) {
    case 'user':
    case 'system':
    case 'developer':
      return userReading(content)
    case 'assistant': {
      const texts = textsOf(content.blocks).filter((text) => text !== '')
      const parts: AssistantPart[] = texts.map((text) => ({ type: 'text', text }))
      if (content.blocks.some((block) => block.type === 'image')) content.losses.add('images')
      return modelReading(parts, content.losses)
    }
    default: throw fail(`unknown role ${shown(item.role)}`)
  }
}

const partReader = (fail: Fail) => (part: Fields, into: Content): void => {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      into.blocks.push({ type: 'text', text: textOf(part, 'text', fail) })
      return
    case 'refusal':
      into.blocks.push({ type: 'text', text: textOf(part, 'refusal', fail) })
      return
    case 'input_image':
    case 'computer_screenshot':
      if (typeof part.image_url === 'string') imageFromUrl(part.image_url, into)
      else into.losses.add('files')
      return
    case 'input_file':
      into.losses.add('files')
      return
    case 'input_audio':
      into.losses.add('audio')
      return
    default:
      if (typeof part.type !== 'string') throw fail('a content part has no "type"')
      into.losses.add('other content')
  }
}

/** What a tool gave: a text, parts, a screenshot; the shell's structured output as its JSON. */
function outputOf (item: Fields, fail: Fail): Content {
  const output = item.output ?? item.tools ?? ''
  if (item.type === 'shell_call_output' || item.type === 'tool_search_output') {
    return textContent(typeof output === 'string' ? output : JSON.stringify(output))
  }
  return contentOf(isObject(output) ? [output] : output, fail, partReader(fail), 'output')
}
