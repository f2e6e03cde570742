import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client'
import { text, type Block } from '../../core/events.ts'
import { plainJsonFault, type Json } from '../../core/json.ts'
import { redactJson, type Redact } from '../../core/secrets.ts'
import type { ToolOutcome } from '../../core/tool.ts'

/** The images that models see; any other is told in words. */
const IMAGES: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * An MCP result as a tool's outcome, without the secrets that its server was given. Content that no model here can see becomes a note
 * in words; empty texts say nothing and go.
 */
export function outcomeOf ({ content, structuredContent, isError }: CallToolResult, redact: Redact): ToolOutcome {
  const blocks = content.flatMap(blockOf).map((block) => block.type === 'text' ? { ...block, text: redact(block.text) } : block)
  const structured = structuredContent === undefined ? undefined : redactJson(plain(structuredContent), redact)
  if (blocks.length === 0 && structured !== undefined) blocks.push(text(JSON.stringify(structured)))
  return { content: blocks, isError: isError === true, ...(structured === undefined ? {} : { structured }) }
}

/** JSON from a wire is plain but for `-0`. */
const plain = (value: unknown): Json => (plainJsonFault(value) ? JSON.parse(JSON.stringify(value)) : value) as Json

function blockOf (block: ContentBlock): Block[] {
  switch (block.type) {
    case 'text': return said(block.text)
    case 'image': {
      const { data, mimeType } = block
      return IMAGES.has(mimeType) && BASE64.test(data) ? [{ type: 'image', data, mimeType }] : [note('image', mimeType, data)]
    }
    case 'audio': return [note('audio', block.mimeType, block.data)]
    case 'resource_link': {
      const about = [block.mimeType, block.description].filter((part) => part !== undefined && part !== '').join(', ')
      return said(`[link to the resource "${block.name}": ${block.uri}${about === '' ? '' : ` (${about})`}]`)
    }
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return said(`[resource ${resource.uri}]\n${resource.text}`)
      return [note(`resource ${resource.uri}:`, resource.mimeType ?? 'binary', resource.blob)]
    }
    default: return [text(`[content of the type "${String((block as { type?: unknown }).type)}" is not shown]`)]
  }
}

const said = (value: string): Block[] => value === '' ? [] : [text(value.toWellFormed())]
const note = (what: string, mimeType: string, base64: string): Block =>
  text(`[${what} ${mimeType}, ${Math.floor(base64.replace(/=+$/, '').length * 3 / 4)} bytes: not shown]`.toWellFormed())
