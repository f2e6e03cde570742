import type { ModelStop, Usage } from '../core/events.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'

/** The names of OpenTelemetry's GenAI conventions (semantic-conventions-genai v0.1.0), as far as runs have them. Pure. */

export type Attributes = Record<string, string | number | boolean | string[]>

/** Whose API a model endpoint speaks, and where it is. */
export interface ModelTarget { provider: string, address?: string, port?: number }

const OFFICIAL = { 'openai-chat': 'https://api.openai.com', anthropic: 'https://api.anthropic.com' } as const

/** `gen_ai.provider.name` is the flavour of the API, whoever serves it. */
export function targetOf ({ kind, baseUrl }: { kind: 'openai-chat' | 'anthropic', baseUrl?: string }): ModelTarget {
  const url = new URL(baseUrl ?? OFFICIAL[kind])
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  return { provider: kind === 'anthropic' ? 'anthropic' : 'openai', address: url.hostname, port }
}

/** The model's name at its endpoint, which stands before the first slash. */
export const modelName = (model: string): string => model.slice(model.indexOf('/') + 1)
export const endpointOf = (model: string): string => model.split('/', 1)[0] ?? model

export function agentAttributes (record: RunRecord, target: ModelTarget): Attributes {
  const { id, tenant, sessionId, provider, model, rootId, parentRunId, continues, depth } = record
  return {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.provider.name': target.provider,
    'gen_ai.agent.name': provider,
    'gen_ai.request.model': modelName(model),
    'gen_ai.conversation.id': sessionId,
    'subagentd.run.id': id,
    'subagentd.run.tenant': tenant,
    'subagentd.run.root_id': rootId,
    'subagentd.run.depth': depth,
    ...parentRunId === null ? {} : { 'subagentd.run.parent_id': parentRunId },
    ...continues === null ? {} : { 'subagentd.run.continues': continues }
  }
}

/** `input_tokens` includes the cached ones, as our own count does. */
export const usageAttributes = (usage: Omit<Usage, 'steps'>): Attributes => ({
  'gen_ai.usage.input_tokens': usage.inputTokens,
  'gen_ai.usage.output_tokens': usage.outputTokens,
  ...usage.cachedInputTokens > 0 && { 'gen_ai.usage.cache_read.input_tokens': usage.cachedInputTokens },
  ...usage.cacheWriteTokens > 0 && { 'gen_ai.usage.cache_write.input_tokens': usage.cacheWriteTokens },
  ...usage.reasoningTokens > 0 && { 'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens }
})

export function chatAttributes (model: string, { agentOptions }: RunSpec, target: ModelTarget): Attributes {
  const { maxTokens, temperature } = agentOptions
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': target.provider,
    'gen_ai.request.model': modelName(model),
    'gen_ai.request.stream': true,
    ...maxTokens !== undefined && { 'gen_ai.request.max_tokens': maxTokens },
    ...temperature !== undefined && { 'gen_ai.request.temperature': temperature },
    ...target.address !== undefined && { 'server.address': target.address },
    ...target.port !== undefined && { 'server.port': target.port }
  }
}

/** A generation that was cut off or failed has the reason `error`. */
export const FINISH_REASON: Record<ModelStop, string> = {
  end: 'stop', 'tool-calls': 'tool_call', 'max-tokens': 'length', refusal: 'content_filter', aborted: 'error', error: 'error'
}

/** `extension`: executed here. `function`: by the host. */
export const toolAttributes = (name: string, toolCallId: string | undefined, executor: 'service' | 'host' | undefined): Attributes => ({
  'gen_ai.operation.name': 'execute_tool',
  'gen_ai.tool.name': name,
  ...toolCallId === undefined ? {} : { 'gen_ai.tool.call.id': toolCallId },
  ...executor === undefined ? {} : { 'gen_ai.tool.type': executor === 'host' ? 'function' : 'extension' }
})
