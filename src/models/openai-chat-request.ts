import type { Block, ToolCallPart, ToolDefinition } from '../core/events.ts'
import type { ModelMessage } from '../core/fold.ts'
import type { ModelRequest } from '../core/model.ts'
import { joinElements } from './json-text.ts'
import { joinSections, objectSchema, ownWire, sendableTools, plainText, requestText } from './request-parts.ts'

const FORMAT = 'openai-chat'
const RULES = {
  reserved: new Set(['model', 'messages', 'stream']),
  replaces: { max_tokens: 'max_completion_tokens', max_completion_tokens: 'max_tokens' }
} as const

/** `official`: OpenAI's own API, which reads `max_completion_tokens`; compatible servers read `max_tokens`. */
export interface OpenAiChatTarget { model: string, official: boolean }

/**
 * The body of a chat completion request. Pure: the same request gives the same bytes, and a longer conversation only adds
 * messages at the end (driver.md 2.6). Texts of this wire format go out verbatim (http-api.md 4.2). Throws an `UpstreamFault` for
 * `providerOptions` that is not a JSON object.
 */
export function encodeOpenAiChat (request: ModelRequest, { model, official }: OpenAiChatTarget): string {
  const { temperature, maxTokens } = request
  const tools = sendableTools(request.tools, FORMAT)
  return requestText([
    ['model', JSON.stringify(model)],
    ['messages', `[${joinElements([...systemTexts(request), ...request.messages.map(messageText)])}]`],
    ['tools', tools.length === 0 ? undefined : `[${joinElements(tools.map(toolText))}]`],
    ['temperature', temperature?.toString()],
    [official ? 'max_completion_tokens' : 'max_tokens', maxTokens?.toString()],
    ['stream', 'true'],
    ['stream_options', '{"include_usage":true}']
  ], request.providerOptions, RULES)
}

/** The host's own system messages first, then ours as one. */
function systemTexts ({ system }: ModelRequest): string[] {
  const ours = joinSections(system.filter((section) => ownWire(section, FORMAT) === undefined))
  const wires = system.map((section) => ownWire(section, FORMAT) ?? '')
  return ours === '' ? wires : [...wires, JSON.stringify({ role: 'system', content: ours })]
}

function messageText (message: ModelMessage): string {
  const wire = ownWire(message, FORMAT)
  if (wire !== undefined) return wire
  switch (message.role) {
    case 'user': return JSON.stringify({ role: 'user', content: userContent(message.content) })
    case 'tool': return JSON.stringify({ role: 'tool', tool_call_id: message.toolCallId, content: plainText(message.content) })
    case 'assistant': {
      const calls = message.content.filter((part) => part.type === 'tool-call')
      const texts = message.content.filter((part) => part.type === 'text').map((part) => part.text).filter((text) => text !== '')
      return JSON.stringify({
        role: 'assistant',
        content: texts.length === 0 && calls.length > 0 ? null : texts.join('\n\n'),
        ...(calls.length === 0 ? {} : { tool_calls: calls.map(toolCall) })
      })
    }
    default: return message satisfies never
  }
}

/** One text is a lone string, which every compatible server reads. */
function userContent (content: readonly Block[]): string | object[] {
  if (content.length === 0) return ''
  if (content.length === 1 && content[0]?.type === 'text') return content[0].text
  return content.map((block) => block.type === 'text'
    ? { type: 'text', text: block.text }
    : { type: 'image_url', image_url: { url: `data:${block.mimeType};base64,${block.data}` } })
}

const toolCall = (part: ToolCallPart): object =>
  ({ id: part.toolCallId, type: 'function', function: { name: callName(part.name), arguments: part.arguments } })

/** What a model made up as a name may be none that the API takes back. */
const callName = (name: string): string => name.replaceAll(/[^\w-]/g, '_').slice(0, 64) || '_'

const toolText = (tool: ToolDefinition): string => ownWire(tool, FORMAT) ?? JSON.stringify({
  type: 'function',
  function: { name: tool.name, description: tool.description, parameters: objectSchema(tool) }
})
