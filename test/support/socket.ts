import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import type { Service } from './service.ts'

export interface Client {
  /** The answer's head. Rejects where the connection ends before it. */
  readonly answered: Promise<IncomingMessage>
  /** Resolves with how the connection ended: `end` after a complete answer, else the error's code. */
  readonly ended: Promise<string>
  /** The body, once it is complete. Rejects where it is cut off. */
  text (): Promise<string>
  /** Goes away as a crashed client does. */
  leave (): void
}

export interface Asking { method?: string, body?: object, headers?: Record<string, string>, keepAlive?: boolean }

/** A request on a connection of its own, which the test can drop at any time. */
export function ask (service: Pick<Service, 'url'>, path: string, asking: Asking = {}): Client {
  const { method = 'POST', body, headers = {}, keepAlive = false } = asking
  const agent = keepAlive ? new Agent({ keepAlive: true }) : false
  const sent = request(
    service.url + path, { method, agent, headers: { ...(body ? { 'content-type': 'application/json' } : {}), ...headers } }
  )
  const answered = Promise.withResolvers<IncomingMessage>()
  const ended = Promise.withResolvers<string>()
  const fail = (error: Error & { code?: string }): void => {
    answered.reject(error)
    ended.resolve(error.code ?? error.message)
  }
  answered.promise.catch(() => {})
  sent.on('error', fail)
  sent.on('response', (response) => {
    answered.resolve(response)
    response.on('error', fail)
    response.on('end', () => ended.resolve('end'))
  })
  sent.end(body && JSON.stringify(body))
  return {
    answered: answered.promise,
    ended: ended.promise,
    async text () {
      const response = await answered.promise
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => { chunks.push(chunk) })
      await once(response, 'end')
      return Buffer.concat(chunks).toString()
    },
    leave: () => { sent.destroy() }
  }
}

/** Resolves when the service notices that a client went away before its answer was complete. */
export function nextLoss (service: Service): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  service.app.http.server.on('request', (_, response) => {
    response.on('close', () => { if (!response.writableFinished) setImmediate(resolve) })
  })
  return promise
}
