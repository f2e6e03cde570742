import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, { LogController } from 'fastify'
import type { FastifyInstance } from 'fastify'
import type { RoutesDeps } from './context.ts'
import { invalid } from './invalid.ts'
import { problemOf, sendProblem } from './problem.ts'
import { registerRoutes } from './routes.ts'
import { ANSWER_HEADERS, answerHeaders, RAW_HEADERS } from './security-headers.ts'

/** The longest path parameter: an id, or a name somebody chose. */
const PARAM_MAX = 300
/** A request's head must have come in by then. Bodies have their own limit (body.ts): one may be endless. */
const HEAD_TIMEOUT_MS = 60_000

/** The HTTP face, not listening yet. `before` sees the bare app first (the document's generator). */
export function createHttp (deps: RoutesDeps, before: (app: FastifyInstance) => void = () => {}): FastifyInstance {
  const app = Fastify({
    loggerInstance: deps.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: deps.maxBodyBytes,
    requestTimeout: 0,
    return503OnClosing: false,
    requestIdHeader: false,
    genReqId: requestIdOf,
    routerOptions: { maxParamLength: PARAM_MAX },
    frameworkErrors: (error, request, reply) => {
      void answerHeaders(reply).header('x-request-id', request.id)
      void sendProblem(error, request, reply)
    },
    clientErrorHandler: answerBrokenRequest,
    // Its absence is refused in our words (RFC 9110 §7.2).
    http: { requireHostHeader: false, headersTimeout: HEAD_TIMEOUT_MS }
  })
  app.server.on('checkExpectation', answerExpectation)
  app.server.on('request', endLeftover)
  before(app)
  registerRoutes(app, deps)
  return app as unknown as FastifyInstance
}

/** How long the rest of a body may take that was answered before it had come. */
const LEFTOVER_MS = 30_000

/** Whoever is refused and goes on sending, a byte now and then, must not keep a connection. */
function endLeftover (request: IncomingMessage, response: ServerResponse): void {
  response.once('finish', () => {
    if (request.complete) return
    const timer = setTimeout(() => { request.destroy() }, LEFTOVER_MS).unref()
    request.once('close', () => clearTimeout(timer))
  })
}

/** The sender's own request id, where it can stand in a log as it is. */
function requestIdOf (request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[A-Za-z0-9._:-]{1,128}$/.test(given) ? given : randomUUID()
}

/** Status lines in full: importing `node:http` for their names would load its WebSocket client, too (3 MB). */
const BROKEN: Readonly<Record<string, readonly [status: string, detail: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'the request\'s header fields are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'the request did not come in time']
}

/** What a client expects beside `100-continue` is not there to be had (RFC 9110 §10.1.1). */
function answerExpectation (request: IncomingMessage, response: ServerResponse): void {
  const requestId = requestIdOf(request)
  const detail = `the expectation "${String(request.headers.expect)}" cannot be met`
  const { body } = problemOf(invalid([{ pointer: '', detail }]), requestId, {}, 417)
  const bytes = Buffer.from(JSON.stringify(body))
  const headers = { 'content-type': 'application/problem+json', 'content-length': bytes.length, 'x-request-id': requestId, connection: 'close' }
  response.writeHead(417, { ...ANSWER_HEADERS, ...headers }).end(bytes)
}

/** Bytes that are no HTTP request, answered on the socket: no route ever sees them. */
function answerBrokenRequest (error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy(error)
  const [status, detail] = BROKEN[error.code ?? ''] ?? ['400 Bad Request', 'the request is not well-formed HTTP']
  const requestId = randomUUID()
  const body = JSON.stringify(problemOf(invalid([{ pointer: '', detail }]), requestId, {}, Number.parseInt(status)).body)
  socket.end(`HTTP/1.1 ${status}\r\nContent-Type: application/problem+json\r\n${RAW_HEADERS}` +
    `X-Request-Id: ${requestId}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`)
}
