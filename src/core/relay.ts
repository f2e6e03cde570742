import type { Block } from './events.ts'
import type { Json, JsonObject } from './json.ts'
import type { RelayOptions } from './run.ts'
import type { CallToolResult } from './tool-result.ts'

/** `relay`: a complete message for the host's history. `relayPart`: the bare part, where several results share a message. */
export interface Relay { relay?: Json, relayPart?: Json }

/** What is missing to write the asked format, as a pointer into the options; `undefined` when nothing is. */
export function relayFault ({ format, toolCallId, toolName }: RelayOptions): { pointer: string, detail: string } | undefined {
  if (format !== 'ai-sdk' || toolCallId === undefined || toolName !== undefined) return undefined
  return { pointer: '/toolName', detail: 'format "ai-sdk" needs "toolName" beside "toolCallId"' }
}

/**
 * A tool result in the terms of the host's own model API (http-api.md 5.2). Nothing without a `toolCallId` to answer, nor for
 * `mcp`, whose result stands as it is.
 */
export function relayOf (toolResult: CallToolResult, { format = 'mcp', toolCallId, toolName }: RelayOptions): Relay {
  if (toolCallId === undefined) return {}
  switch (format) {
    case 'anthropic': {
      const part = anthropicBlock(toolResult, toolCallId)
      return { relay: { role: 'user', content: [part] }, relayPart: part }
    }
    case 'openai-chat':
      return alone({ role: 'tool', tool_call_id: toolCallId, content: plainText(toolResult.content) })
    case 'openai-responses':
      return alone({ type: 'function_call_output', call_id: toolCallId, output: responsesOutput(toolResult.content) })
    case 'ai-sdk': {
      if (toolName === undefined) return {}
      const part = { type: 'tool-result', toolCallId, toolName, output: aiSdkOutput(toolResult) }
      return { relay: { role: 'tool', content: [part] }, relayPart: part }
    }
    case 'mcp': return {}
    default: return format satisfies never
  }
}

/** In these APIs a message or item answers one call, so the part is the whole. */
const alone = (message: JsonObject): Relay => ({ relay: message, relayPart: message })

/** `is_error` only where it is true; a block of white space alone would be refused. */
function anthropicBlock ({ content, isError }: CallToolResult, id: string): JsonObject {
  const blocks = content.filter((block) => block.type !== 'text' || block.text.trim() !== '')
  return { type: 'tool_result', tool_use_id: id, content: blocks.map(anthropicContent), ...(isError ? { is_error: true } : {}) }
}

const anthropicContent = (block: Block): Json => block.type === 'text'
  ? { type: 'text', text: block.text }
  : { type: 'image', source: { type: 'base64', media_type: block.mimeType, data: block.data } }

const plainText = (content: readonly Block[]): string =>
  content.map((block) => block.type === 'text' ? block.text : '[image omitted]').join('\n')

const hasImages = (content: readonly Block[]): boolean => content.some((block) => block.type === 'image')

function responsesOutput (content: readonly Block[]): Json {
  if (!hasImages(content)) return plainText(content)
  return content.map((block): Json => block.type === 'text'
    ? { type: 'input_text', text: block.text }
    : { type: 'input_image', image_url: `data:${block.mimeType};base64,${block.data}`, detail: 'auto' })
}

/** `media` is the one image part that every version of the SDK with `output` takes. An error is a text. */
function aiSdkOutput ({ content, isError, structuredContent }: CallToolResult): JsonObject {
  if (isError) return { type: 'error-text', value: plainText(content) }
  if (structuredContent !== undefined) return { type: 'json', value: structuredContent }
  if (!hasImages(content)) return { type: 'text', value: plainText(content) }
  return {
    type: 'content',
    value: content.map((block): Json => block.type === 'text'
      ? { type: 'text', text: block.text }
      : { type: 'media', data: block.data, mediaType: block.mimeType })
  }
}
