import { createHash } from 'node:crypto'
import type { AssistantPart, Block, ToolDefinition } from '../core/events.ts'
import type { ModelMessage } from '../core/fold.ts'
import type { ModelRequest } from '../core/model.ts'
import { arrayElements, isObjectText, joinElements } from './json-text.ts'
import { joinSections, objectSchema, ownWire, sendableTools, requestText } from './request-parts.ts'

const FORMAT = 'anthropic'
const RULES = { reserved: new Set(['model', 'messages', 'stream']), replaces: {} } as const
/** The API wants a cap; this one every model takes. */
export const DEFAULT_MAX_TOKENS = 8192
const EMPTY = '(empty message)'
const NO_ANSWER = '(no answer)'

/**
 * The body of a messages request. Pure: the same request gives the same bytes, and a longer conversation only adds messages
 * at the end (driver.md 2.6). Texts of this wire format go out verbatim (http-api.md 4.2). Throws an `UpstreamFault` for
 * `providerOptions` that is not a JSON object.
 */
export function encodeAnthropic (request: ModelRequest, model: string): string {
  const { temperature } = request
  const tools = sendableTools(request.tools, FORMAT)
  return requestText([
    ['model', JSON.stringify(model)],
    ['max_tokens', String(request.maxTokens ?? DEFAULT_MAX_TOKENS)],
    ['system', systemText(request)],
    ['messages', `[${joinElements(messageTexts(request.messages))}]`],
    ['tools', tools.length === 0 ? undefined : `[${joinElements(tools.map(toolText))}]`],
    ['temperature', temperature?.toString()],
    ['stream', 'true']
  ], request.providerOptions, RULES)
}

/** Lone host text goes verbatim; beside sections of ours it becomes the first blocks of an array. */
function systemText ({ system }: ModelRequest): string | undefined {
  const ours = joinSections(system.filter((section) => ownWire(section, FORMAT) === undefined))
  const wires = system.map((section) => ownWire(section, FORMAT)?.trim() ?? '').filter((wire) => wire !== '')
  if (wires.length === 0) return ours === '' ? undefined : JSON.stringify(ours)
  if (wires.length === 1 && ours === '') return wires[0]
  const blocks = wires.map((wire) => {
    if (wire.startsWith('[')) return arrayElements(wire)
    return wire === '""' ? '' : `{"type":"text","text":${wire}}`
  })
  return `[${joinElements([...blocks, ours === '' ? '' : textBlock(ours)])}]`
}

/** The results of one step are one user message of their own; nothing is ever joined to an earlier message. */
function messageTexts (messages: readonly ModelMessage[]): string[] {
  const texts: string[] = []
  let results: string[] = []
  const flush = (): void => {
    if (results.length > 0) texts.push(messageText('user', results))
    results = []
  }
  for (const message of messages) {
    const wire = ownWire(message, FORMAT)
    if (message.role === 'tool' && wire === undefined) {
      results.push(toolResult(message))
      continue
    }
    flush()
    texts.push(wire ?? spokenText(message))
  }
  flush()
  return texts
}

/** An assistant message of which nothing can be sent (unsigned reasoning alone, white space) still takes its turn: roles alternate. */
function spokenText (message: ModelMessage): string {
  if (message.role === 'user') {
    const blocks = blockTexts(message.content)
    return messageText('user', blocks.length === 0 ? [textBlock(EMPTY)] : blocks)
  }
  const blocks = message.role === 'assistant' ? message.content.map(assistantBlock).filter((block) => block !== '') : []
  return messageText('assistant', blocks.length === 0 ? [textBlock(NO_ANSWER)] : blocks)
}

const messageText = (role: 'user' | 'assistant', blocks: readonly string[]): string =>
  `{"role":"${role}","content":[${blocks.join(',')}]}`
const textBlock = (text: string): string => JSON.stringify({ type: 'text', text })

/** The API refuses text blocks of nothing but white space. */
const blockTexts = (content: readonly Block[]): string[] => content
  .filter((block) => block.type !== 'text' || block.text.trim() !== '')
  .map((block) => block.type === 'text'
    ? textBlock(block.text)
    : JSON.stringify({ type: 'image', source: { type: 'base64', media_type: block.mimeType, data: block.data } }))

function assistantBlock (part: AssistantPart): string {
  switch (part.type) {
    case 'text': return part.text.trim() === '' ? '' : textBlock(part.text)
    case 'reasoning':
      if (part.redacted !== undefined) return JSON.stringify({ type: 'redacted_thinking', data: part.redacted })
      if (part.signature === undefined) return ''
      return JSON.stringify({ type: 'thinking', thinking: part.text, signature: part.signature })
    case 'tool-call': {
      const head = JSON.stringify({ type: 'tool_use', id: callId(part.toolCallId), name: callName(part.name) })
      return `${head.slice(0, -1)},"input":${inputText(part.arguments)}}`
    }
    default: return part satisfies never
  }
}

function toolResult (message: Extract<ModelMessage, { role: 'tool' }>): string {
  const head = JSON.stringify({ type: 'tool_result', tool_use_id: callId(message.toolCallId) }).slice(0, -1)
  const blocks = blockTexts(message.content)
  return `${head}${blocks.length === 0 ? '' : `,"content":[${blocks.join(',')}]`}${message.isError ? ',"is_error":true' : ''}}`
}

/** The API takes an object only: arguments that are none are shown to the model as the text it wrote. */
function inputText (text: string): string {
  if (text.trim() === '') return '{}'
  return isObjectText(text) ? text.trim() : JSON.stringify({ invalid_arguments: text })
}

/** Ids and names as another API minted them may hold what this one refuses; call and result change alike. */
const callId = (id: string): string => /^[\w-]+$/.test(id) ? id : `${id.replaceAll(/[^\w-]/g, '_')}_${digest(id)}`
/** Keeps ids apart that differ only in what is replaced. */
const digest = (id: string): string => createHash('sha256').update(id).digest('hex').slice(0, 8)
const callName = (name: string): string => name.replaceAll(/[^\w-]/g, '_').slice(0, 128) || '_'

const toolText = (tool: ToolDefinition): string => ownWire(tool, FORMAT) ?? JSON.stringify({
  name: tool.name,
  description: tool.description,
  input_schema: objectSchema(tool)
})
