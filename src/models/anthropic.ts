import type { Model } from '../core/model.ts'
import { AnthropicDecoder } from './anthropic-reply.ts'
import { encodeAnthropic } from './anthropic-request.ts'
import { createClientOnce, NEVER_MS, secretsOf } from './client-options.ts'
import type { Endpoint, Link } from './link.ts'
import { streamUpstream } from './upstream.ts'

const OFFICIAL = 'https://api.anthropic.com'

/**
 * Models behind a messages API. The base URL may end with `/v1` or not. The library is loaded at the first call. It sends the
 * key as a bearer token; a compatible server gets it as `x-api-key` too, which is all that some of them read.
 */
export function createAnthropic (endpoint: Endpoint, link: Link, maxReplyBytes: number): (model: string) => Model {
  const secrets = secretsOf(endpoint)
  const { apiKey, baseUrl = OFFICIAL } = endpoint
  const compatible = new URL(baseUrl).hostname !== new URL(OFFICIAL).hostname
  const client = createClientOnce(async () => {
    const { Anthropic } = await import('@anthropic-ai/sdk')
    return new Anthropic({
      baseURL: baseUrl.replace(/\/(v1\/?)?$/, ''),
      // A key must be given, or the library looks for one on the disk.
      apiKey: apiKey ?? 'none',
      webhookKey: null,
      fetch: link.fetch,
      maxRetries: 0,
      timeout: NEVER_MS,
      logLevel: 'off',
      defaultHeaders: {
        'accept-encoding': 'identity',
        'x-stainless-timeout': null,
        ...(apiKey === undefined ? { authorization: null } : {}),
        ...(apiKey !== undefined && compatible ? { 'x-api-key': apiKey } : {}),
        ...endpoint.headers
      }
    })
  })
  return (model) => {
    const id = `${endpoint.name}/${model}`
    return {
      id,
      kind: 'anthropic',
      stream: (request, signal) => streamUpstream({
        model: id,
        endpoint: endpoint.name,
        lingerMs: link.lingerMs,
        secrets,
        decoder: new AnthropicDecoder(request.messages, maxReplyBytes),
        send: async (upstream) => {
          const body = encodeAnthropic(request, model)
          const { data, response } = await (await client()).post<AsyncIterable<unknown>>('/v1/messages', {
            body, headers: { 'content-type': 'application/json' }, stream: true, signal: upstream
          }).withResponse()
          return { response, events: data }
        }
      }, signal)
    }
  }
}
