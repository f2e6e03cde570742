import { messageOf } from '../core/errors.ts'
import { modelFault, statusFault, thrownFault, UpstreamFault } from './faults.ts'

/** Where models are: one model server, named by the configuration (http-api.md 4.4, §9). */
export interface Endpoint {
  name: string
  kind: 'openai-chat' | 'anthropic'
  /** Default: the vendor's own. */
  baseUrl?: string
  /** Without a key no authorization header is sent. */
  apiKey?: string
  /** The models it offers; without a list any name is accepted. */
  models?: string[]
  headers?: Record<string, string>
}

export interface FetchTimeouts {
  connectMs: number
  /** Until the answer begins. */
  headersMs: number
  /** Between two pieces of an answer: longer is a stall. */
  idleMs: number
  /** From the end of a message to that of its stream, which some servers leave open. */
  lingerMs: number
}
export const FETCH_TIMEOUTS: FetchTimeouts = { connectMs: 10_000, headersMs: 300_000, idleMs: 120_000, lingerMs: 5_000 }

export type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>
export interface Link { fetch: Fetch, lingerMs: number, close: () => Promise<void> }

/** No more of an error's body is read. */
const MAX_ERROR_BYTES = 64 * 1024

/**
 * The way to the model servers, opened at the first call: an idle service holds no HTTP client in memory. Its `fetch` follows
 * no redirect (a key must not travel on), answers only successes and throws an `UpstreamFault` for everything else.
 */
export function createLink (options: { timeouts: FetchTimeouts, maxAnswerBytes: number, now: () => number }): Link {
  let opened: ReturnType<typeof openDispatcher> | undefined
  let closed = false
  return {
    lingerMs: options.timeouts.lingerMs,
    fetch: async (url, init) => {
      if (closed) throw modelFault('cannot be called: the service is closing', false)
      opened ??= openDispatcher(options)
      const { fetch, dispatcher } = await opened
      const request = { ...init, dispatcher, redirect: 'manual' } as Parameters<typeof fetch>[1]
      const response = await fetch(url instanceof Request ? url.url : url, request).catch((error: unknown) => {
        if (init?.signal?.aborted) throw error
        throw new UpstreamFault(thrownFault(error))
      }) as unknown as Response
      if (response.ok) return bounded(response, options.maxAnswerBytes)
      const body = await errorText(response)
      throw new UpstreamFault(statusFault(response.status, response.headers, body, options.now()))
    },
    close: async () => {
      closed = true
      if (opened) await (await opened).dispatcher.destroy()
    }
  }
}

async function openDispatcher ({ timeouts, maxAnswerBytes }: { timeouts: FetchTimeouts, maxAnswerBytes: number }) {
  const { Agent, fetch } = await import('undici')
  const dispatcher = new Agent({
    connect: { timeout: timeouts.connectMs },
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.idleMs,
    maxResponseSize: maxAnswerBytes,
    allowH2: false
  })
  return { fetch, dispatcher }
}

/** A compressed answer counts as what it holds: a small one may hold a huge one. */
function bounded (response: Response, most: number): Response {
  if (!response.body || !response.headers.has('content-encoding')) return response
  let bytes = 0
  const counted = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform (chunk, controller) {
      bytes += chunk.byteLength
      if (bytes > most) throw modelFault('sent an answer that is too large', false)
      controller.enqueue(chunk)
    }
  }))
  return new Response(counted, { status: response.status, headers: response.headers })
}

/** What can be read of an error's body; a body that breaks off is as good as its beginning. */
async function errorText (response: Response): Promise<string> {
  if (!response.body) return ''
  const reader: ReadableStreamDefaultReader<Uint8Array> = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (let read = await reader.read(); !read.done && text.length < MAX_ERROR_BYTES; read = await reader.read()) {
      text += decoder.decode(read.value, { stream: true })
    }
    await reader.cancel()
  } catch (error) {
    return text === '' ? `(its body could not be read: ${messageOf(error)})` : text
  }
  return text
}
