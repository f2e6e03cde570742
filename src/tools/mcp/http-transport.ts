import {
  StreamableHTTPClientTransport, type FetchLike, type JSONRPCMessage, type RequestId
} from '@modelcontextprotocol/client'

/** The code of the answer that stands for one that never came: the stream that should have brought it has ended. */
export const STREAM_ENDED = -32_097
const RECONNECT = { initialReconnectionDelay: 250, reconnectionDelayGrowFactor: 2, maxReconnectionDelay: 30_000, maxRetries: 4 }
/** How long a server has to hear that a session is over. */
const GOODBYE_MS = 1000

type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1]

export interface HttpOptions {
  url: string
  headers: Readonly<Record<string, string>>
  maxMessageBytes: number
  fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
}

/**
 * MCP over streamable HTTP. Beside the client's own transport: a request whose response stream ends without an answer is answered
 * with an error, where the client would wait until its timeout; messages are bounded; and the session is ended with the connection.
 */
export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #open = new Set<RequestId>()

  constructor ({ url, headers, maxMessageBytes, fetch }: HttpOptions) {
    const bounded: FetchLike = async (target, init) => boundedResponse(await fetch(target, init), maxMessageBytes)
    super(new URL(url), { fetch: bounded, requestInit: { headers: { ...headers } }, reconnectionOptions: RECONNECT })
    // The client chains its own handler behind this one.
    this.onmessage = (message) => { if (!('method' in message) && message.id !== undefined) this.#open.delete(message.id) }
  }

  override async send (message: JSONRPCMessage, options?: SendOptions): Promise<void> {
    if (!('method' in message && 'id' in message)) return await super.send(message, options)
    const { id } = message
    this.#open.add(id)
    const onRequestStreamEnd = (): void => {
      options?.onRequestStreamEnd?.()
      if (this.#open.delete(id)) this.onmessage?.({ jsonrpc: '2.0', id, error: { code: STREAM_ENDED, message: 'the response ended without an answer' } })
    }
    try {
      await super.send(message, { ...options, onRequestStreamEnd })
    } catch (error) {
      this.#open.delete(id)
      throw error
    }
  }

  override async close (): Promise<void> {
    if (this.sessionId !== undefined) {
      const timer = Promise.withResolvers<void>()
      const handle = setTimeout(timer.resolve, GOODBYE_MS)
      // A server that is gone, or keeps no sessions, needs no goodbye.
      await Promise.race([this.terminateSession().catch(() => {}), timer.promise])
      clearTimeout(handle)
    }
    await super.close()
  }
}

const NEW_LINE = 10

function boundedResponse (response: Response, maxBytes: number): Response {
  if (!response.body) return response
  const streams = response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') === true
  let size = 0
  const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform (chunk, controller) {
      // A message is one line of an event stream, and the whole of any other body.
      const line = streams ? chunk.lastIndexOf(NEW_LINE) : -1
      size = line === -1 ? size + chunk.length : chunk.length - line - 1
      if (size > maxBytes) throw new Error('it sent a message that is too large')
      controller.enqueue(chunk)
    }
  }))
  return new Response(body, { status: response.status, statusText: response.statusText, headers: [...response.headers] })
}
