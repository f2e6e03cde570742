import type { Model } from '../core/model.ts'
import type { Endpoint, Link } from './link.ts'
import { OpenAiChatDecoder } from './openai-chat-reply.ts'
import { encodeOpenAiChat } from './openai-chat-request.ts'
import { createClientOnce, NEVER_MS, secretsOf } from './client-options.ts'
import { streamUpstream } from './upstream.ts'

const OFFICIAL = 'https://api.openai.com/v1'

/**
 * Models behind a chat completions API, OpenAI's or a compatible one. OpenAI's own gets `max_completion_tokens`, any other
 * base URL `max_tokens`. The library is loaded at the first call.
 */
export function createOpenAiChat (endpoint: Endpoint, link: Link, maxReplyBytes: number): (model: string) => Model {
  const baseURL = endpoint.baseUrl ?? OFFICIAL
  const official = new URL(baseURL).hostname === new URL(OFFICIAL).hostname
  const secrets = secretsOf(endpoint)
  const client = createClientOnce(async () => {
    const { OpenAI } = await import('openai')
    return new OpenAI({
      baseURL,
      apiKey: endpoint.apiKey ?? 'none',
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
      fetch: link.fetch,
      maxRetries: 0,
      timeout: NEVER_MS,
      logLevel: 'off',
      defaultHeaders: {
        'accept-encoding': 'identity',
        ...(endpoint.apiKey === undefined ? { authorization: null } : {}),
        ...endpoint.headers
      }
    })
  })
  return (model) => {
    const id = `${endpoint.name}/${model}`
    return {
      id,
      kind: 'openai-chat',
      stream: (request, signal) => streamUpstream({
        model: id,
        endpoint: endpoint.name,
        lingerMs: link.lingerMs,
        secrets,
        decoder: new OpenAiChatDecoder(request.messages, maxReplyBytes),
        send: async (upstream) => {
          const body = encodeOpenAiChat(request, { model, official })
          const { data, response } = await (await client()).post<AsyncIterable<unknown>>('/chat/completions', {
            body, headers: { 'content-type': 'application/json' }, stream: true, signal: upstream
          }).withResponse()
          return { response, events: data }
        }
      }, signal)
    }
  }
}
