import { Type } from './type.ts'
import type { TSchema } from 'typebox'
import type { Block } from '../src/core/events.ts'
import type { Json } from '../src/core/json.ts'

/** Vocabulary that several answers and requests share. A schema with an `$id` is a component of the document. */

/** Stands for a named schema by its name, with its type. */
export const ref = <T extends TSchema>(schema: T): T => ({ $ref: `${(schema as { $id?: string }).$id}#` }) as unknown as T
export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** A closed object: unknown fields are refused by name. */
export const closed = <T extends Record<string, TSchema>>(fields: T, options: object = {}) =>
  Type.Object(fields, { additionalProperties: false, ...options })
/** One of the given strings. */
export const oneOf = <T extends string>(values: readonly T[], options: object = {}) =>
  Type.Unsafe<T>({ type: 'string', enum: [...values], ...options })
/** Any JSON value, judged elsewhere. */
export const anyJson = (options: object = {}) => Type.Unsafe<Json>({ ...options })
export const anyObject = (options: object = {}) => Type.Unsafe<{ [key: string]: Json }>({ type: 'object', ...options })

export const Time = Type.String({ format: 'date-time', description: 'ISO 8601, UTC.', examples: ['2026-11-30T12:00:00.000Z'] })
/** An id that the host chooses. */
export const chosenId = (description: string) =>
  Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$', description })
export const Id = Type.String(
  { description: 'Opaque; unique in the tenant.', examples: ['0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f12'] }
)

const TextBlock = closed({ type: Type.Literal('text'), text: Type.String() }, { title: 'Text' })
const ImageBlock = closed({
  type: Type.Literal('image'),
  data: Type.String({ minLength: 1, pattern: '^[A-Za-z0-9+/]+={0,2}$', description: 'Base64.' }),
  mimeType: Type.String({ maxLength: 100, pattern: '^image/[A-Za-z0-9.+-]+$', examples: ['image/png'] })
}, { title: 'Image' })

/** A content block as MCP writes it. */
export const ContentBlock = Type.Unsafe<Block>({
  $id: 'ContentBlock',
  description: 'A content block as MCP writes it: text, or an image in base64.',
  type: 'object',
  discriminator: { propertyName: 'type' },
  required: ['type'],
  oneOf: [TextBlock, ImageBlock],
  examples: [{ type: 'text', text: 'Summarise the open issues.' }]
})
export const Blocks = Type.Array(ref(ContentBlock), { maxItems: 1000 })

export const Metadata = Type.Unsafe<Record<string, string>>({
  $id: 'Metadata',
  description: 'Up to 16 pairs of strings: keys of 1 to 64 characters, values of up to 512.',
  type: 'object',
  maxProperties: 16,
  propertyNames: { minLength: 1, maxLength: 64 },
  additionalProperties: { type: 'string', maxLength: 512 },
  examples: [{ ticket: 'A-17' }]
})

const tokens = (description: string) => Type.Integer({ minimum: 0, description })
export const Usage = closed({
  inputTokens: tokens('Tokens of the requests, the cached ones included.'),
  cachedInputTokens: tokens('Tokens read from the prompt cache.'),
  cacheWriteTokens: tokens('Tokens written to the prompt cache.'),
  outputTokens: tokens('Tokens that the model wrote, its reasoning included.'),
  reasoningTokens: tokens('Tokens of reasoning.'),
  steps: tokens('Model calls.'),
  cost: Type.Optional(Type.Number({ minimum: 0, description: 'US dollars, where the upstream tells it.' }))
}, { $id: 'Usage', description: 'What the models counted.' })

export const STATUSES = ['queued', 'running', 'waiting', 'idle', 'settled'] as const
export const STOP_REASONS = ['completed', 'aborted', 'error', 'max-tokens', 'refusal'] as const
export const RELAY_FORMATS = ['mcp', 'anthropic', 'openai-chat', 'openai-responses', 'ai-sdk'] as const
export const TRANSCRIPT_FORMATS = ['events', 'openai-chat', 'openai-responses', 'anthropic', 'ai-sdk'] as const

const OUTCOMES = [
  'MODEL_ERROR', 'MODEL_RATE_LIMITED', 'MODEL_AUTH', 'CONTEXT_TOO_LONG', 'NO_STRUCTURED_OUTPUT', 'LIMIT_STEPS', 'LIMIT_TIME',
  'LIMIT_TOKENS', 'LIMIT_TREE', 'SETUP_FAILED', 'INTERRUPTED', 'INTERNAL'
] as const
export const Outcome = closed({
  code: oneOf(OUTCOMES),
  message: Type.String(),
  retryable: Type.Boolean({ description: 'Starting it again as it is may succeed.' })
}, { $id: 'Outcome', description: 'Why a run ended as `error`.' })

export const ToolResult = closed({
  isError: Type.Boolean(),
  content: Blocks,
  structuredContent: Type.Optional(anyJson({ description: 'The captured structured value.' }))
}, { $id: 'ToolResult', description: 'An MCP `CallToolResult`: hand it to the model that delegated, unchanged.' })

export const Relay = {
  relay: Type.Optional(anyJson({ description: 'A complete message for the host\'s history, in the format that was asked for.' })),
  relayPart: Type.Optional(anyJson({ description: 'The bare block, for hosts that join several results in one message.' }))
}
