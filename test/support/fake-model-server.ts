import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { anthropic } from './fake-anthropic.ts'
import type { FakeAnswer, FakeProtocol } from './fake-answers.ts'
import { playFault, sendJson, write } from './fake-faults.ts'
import { openai } from './fake-openai.ts'

export interface FakeRequest {
  path: string
  /** The raw text of the body. */
  body: string
  json: Record<string, unknown>
  headers: IncomingHttpHeaders
  /** Resolves when the exchange is over; `complete` is false when the client went away before the end of the answer. */
  closed: Promise<{ complete: boolean, at: number }>
}

export interface FakeModelServer {
  url: string
  /** Base URLs as a client of each protocol wants them. */
  openaiUrl: string
  anthropicUrl: string
  /** In the order in which they came. */
  requests: FakeRequest[]
  /** Answers for the next requests, after those already queued. */
  enqueue (...answers: FakeAnswer[]): void
  /** Resolves with request number `n`, from 0, once it has come. */
  received (n: number): Promise<FakeRequest>
  /** Ends every exchange at once. Idempotent. */
  close (): Promise<void>
}

export interface FakeModelServerOptions {
  answers?: FakeAnswer[]
  /** Answers by the request, before the queue is asked; `undefined` leaves it to the queue. */
  answer?: (request: FakeRequest) => FakeAnswer | undefined
  /** For requests that nothing is queued for. Default: a `400` that says so. */
  fallback?: FakeAnswer
  port?: number
}

/**
 * A model server on the loopback that speaks chat completions (`/v1/chat/completions`) and messages (`/v1/messages`), answers
 * what it is told and keeps what it was asked. Closed at the end of the test when given its `onTestFinished`.
 */
export async function startFakeModelServer (
  onTestFinished?: (close: () => Promise<void>) => void, options: FakeModelServerOptions = {}
): Promise<FakeModelServer> {
  const queue = [...options.answers ?? []]
  const requests: FakeRequest[] = []
  const waiting: { n: number, resolve: (request: FakeRequest) => void }[] = []

  const record = (request: FakeRequest): void => {
    requests.push(request)
    for (const waiter of waiting) if (waiter.n === requests.length - 1) waiter.resolve(request)
  }
  const pick = (request: FakeRequest): FakeAnswer | undefined => options.answer?.(request) ?? queue.shift() ?? options.fallback

  const server = createServer((req, res) => {
    handle(req, res, record, pick, () => requests.length).catch((error: unknown) => res.destroy(error as Error))
  })
  await new Promise<void>((resolve) => { server.listen(options.port ?? 0, '127.0.0.1', resolve) })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => closing ??= new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
  onTestFinished?.(close)
  return {
    url,
    openaiUrl: `${url}/v1`,
    anthropicUrl: url,
    requests,
    enqueue: (...answers) => { queue.push(...answers) },
    received: (n) => new Promise((resolve) => {
      const request = requests[n]
      if (request) resolve(request)
      else waiting.push({ n, resolve })
    }),
    close
  }
}

async function handle (
  req: IncomingMessage, res: ServerResponse, record: (request: FakeRequest) => void,
  pick: (request: FakeRequest) => FakeAnswer | undefined, count: () => number
): Promise<void> {
  const closed = new Promise<{ complete: boolean, at: number }>((resolve) => {
    res.on('close', () => resolve({ complete: res.writableFinished, at: performance.now() }))
  })
  const path = req.url ?? ''
  const protocol = PROTOCOLS[path]
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  if (!protocol) return sendJson(res, 404, { error: { message: `no such path: ${path}`, type: 'not_found_error' } })
  const body = Buffer.concat(chunks).toString('utf8')
  const request: FakeRequest = { path, body, json: JSON.parse(body) as Record<string, unknown>, headers: req.headers, closed }
  record(request)
  const answer = pick(request)
  const authorization = String(req.headers.authorization ?? req.headers['x-api-key'] ?? '')
  if (!answer) return sendJson(res, 400, protocol.errorBody('invalid_request_error', 'the fake model server has no answer left'))
  await play({ res, protocol, model: String(request.json.model), n: count() - 1, authorization }, answer,
    request.json.stream === true)
}

const PROTOCOLS: Readonly<Record<string, FakeProtocol | undefined>> = { '/v1/chat/completions': openai,
  '/v1/messages': anthropic }

async function play (scene: Parameters<typeof playFault>[0], answer: FakeAnswer, stream: boolean): Promise<void> {
  const { res, protocol, model, n } = scene
  switch (answer.kind) {
    case 'fault': return playFault(scene, answer)
    case 'raw': return void res.writeHead(200, { 'content-type': answer.contentType ?? 'text/event-stream' }).end(answer.body)
    case 'hang': return answer.after === undefined ? undefined : write(res, protocol.opening(answer.after, model, n))
    case 'reply': {
      if (answer.delayMs) await new Promise((resolve) => { setTimeout(resolve, answer.delayMs) })
      if (!stream || answer.whole) return sendJson(res, 200, protocol.whole(answer, model, n))
      await write(res, protocol.frames(answer, model, n))
      return void res.end()
    }
    default: return answer satisfies never
  }
}
