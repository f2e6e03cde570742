import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { pino } from 'pino'
import { expect } from 'vitest'
import type { RoutesDeps } from '../../routes/context.ts'
import { createHttp } from '../../routes/http.ts'
import { createFakeRuns } from './fake-runs.ts'
import type { FakeRuns } from './fake-runs.ts'

type Cleanup = (close: () => Promise<void>) => void

export interface TestApp {
  app: FastifyInstance
  runs: FakeRuns
  closing: AbortController
  /** Log lines of level error and above. */
  errors: Record<string, unknown>[]
  /** Sends a body as it is; an object as its JSON. */
  send (method: string, url: string, body?: unknown, headers?: Record<string, string>): Promise<LightMyRequestResponse>
  start (body: unknown, headers?: Record<string, string>): Promise<LightMyRequestResponse>
}

export function createApp (onTestFinished: Cleanup, patch: Partial<RoutesDeps> = {}): TestApp {
  const runs = createFakeRuns()
  const closing = new AbortController()
  const errors: Record<string, unknown>[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => { errors.push(JSON.parse(line) as Record<string, unknown>) } })
  const app = createHttp({
    runs, access: 'loopback', maxBodyBytes: 100_000, maxWaitSeconds: 50, version: '1.2.3', ready: () => ({ ok: true }),
    closing: closing.signal, now: () => 1_700_000_000_000, log, ...patch
  })
  onTestFinished(() => app.close())
  const send: TestApp['send'] = (method, url, body, headers = {}) => app.inject({
    method: method as NonNullable<InjectOptions['method']>,
    url,
    headers: { ...body !== undefined && { 'content-type': 'application/json' }, ...headers },
    ...body !== undefined && { payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body) }
  } as InjectOptions)
  return { app, runs, closing, errors, send, start: (body, headers) => send('POST', '/v1/runs', body, headers) }
}

/** Checks the shape that every refusal has, and gives its body. */
export function problem (response: LightMyRequestResponse, status: number, code: string): Record<string, unknown> & {
  errors: { pointer: string, detail: string }[]
} {
  const body = response.json<Record<string, unknown>>()
  expect({ status: response.statusCode, code: body['code'], detail: body['detail'] }).toEqual(
    { status, code, detail: expect.any(String) }
  )
  expect(response.headers['content-type']).toMatch(/^application\/problem\+json/)
  expect(body).toMatchObject({
    status, type: `/problems/${code.toLowerCase().replaceAll('_', '-')}`, title: expect.any(String),
    retryable: expect.any(Boolean),
    requestId: response.headers['x-request-id'],
    toolResult: {
      isError: true,
      content: [
        {
          type: 'text',
          text: `Error: ${[401, 403].includes(status) || status >= 500 ? 'subagent service unavailable' : String(body['detail'])}`
        }
      ]
    }
  })
  return body as never
}

/** A real connection, for what only sockets show. */
export async function open (
  app: FastifyInstance, options: { method?: string, path: string, headers?: Record<string, string>, body?: string }
) {
  if (app.server.listening === false) await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const request = httpRequest(
    { host: '127.0.0.1', port, method: options.method ?? 'GET', path: options.path, headers: options.headers ?? {}, agent: false }
  )
  request.on('error', () => {})
  const response = new Promise<IncomingMessage>((resolve) => { request.once('response', resolve) })
  request.end(options.body)
  return { request, response, port }
}
