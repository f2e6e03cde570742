import { OutboundRefused, type Outbound } from '../outbound.ts'

export const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type HttpMethod = (typeof HTTP_METHODS)[number]
export interface HttpRequest { method: HttpMethod, url: URL, headers: Headers, body?: string }

const MAX_REDIRECTS = 5
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/**
 * Sends a request and follows its redirects by hand, each judged by the outbound rules like the first (http-api.md 8.4). What the
 * configuration put into the headers goes to the first origin only. Answers the last response, its body unread; rejects where
 * a request fails or a redirect may not be followed.
 */
export async function followRequest (outbound: Outbound, first: HttpRequest, signal: AbortSignal): Promise<Response> {
  let request = first
  for (let redirects = 0; ; redirects++) {
    const { method, url, headers, body } = request
    const response = await outbound.fetch(url, { method, headers, signal, ...(body === undefined ? {} : { body }) })
    const location = response.headers.get('location')
    if (!REDIRECTS.has(response.status) || location === null) return response
    await response.body?.cancel()
    if (redirects === MAX_REDIRECTS) throw new Error(`it was redirected more than ${MAX_REDIRECTS} times`)
    const next = URL.parse(location, url.href)
    if (!next) throw new Error('it was redirected to something that is no URL')
    const refusal = outbound.refusal(next)
    if (refusal !== undefined) throw new OutboundRefused(`a redirect was not followed: ${refusal}`)
    request = redirected(request, next, response.status)
  }
}

function redirected (request: HttpRequest, url: URL, status: number): HttpRequest {
  const method = becomesGet(request.method, status) ? 'GET' : request.method
  const sameOrigin = url.origin === request.url.origin
  const headers = sameOrigin ? new Headers(request.headers) : publicHeaders(request.headers)
  if (method === request.method) return { ...request, url, headers }
  headers.delete('content-type')
  return { method, url, headers }
}

/** RFC 9110 §15.4, as every client does it. */
const becomesGet = (method: HttpMethod, status: number): boolean =>
  (status === 303 && method !== 'HEAD') || ((status === 301 || status === 302) && method === 'POST')

function publicHeaders (headers: Headers): Headers {
  const kept = new Headers()
  for (const name of ['accept', 'content-type', 'user-agent']) {
    const value = headers.get(name)
    if (value !== null) kept.set(name, value)
  }
  return kept
}
