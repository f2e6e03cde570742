import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ANSWER_HEADERS } from '../../routes/security-headers.ts'
import { startService, type Service } from '../support/service.ts'

/** Sends bytes and gives all that comes back until the connection ends. */
async function exchange (service: Service, ...parts: (string | Buffer)[]): Promise<string> {
  const socket = open(service)
  for (const part of parts) socket.write(part)
  return await answerOf(socket)
}

function open (service: Service): Socket {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  onTestFinished(() => { socket.destroy() })
  return socket
}

async function answerOf (socket: Socket): Promise<string> {
  let got = ''
  socket.on('data', (chunk: Buffer) => { got += chunk.toString() })
  if (!socket.closed) await once(socket, 'close')
  return got
}

const request = (path: string, headers: string, method = 'GET'): string => `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n${headers}\r\n`
const posted = (body: string | Buffer, more = ''): (string | Buffer)[] =>
  [request('/v1/runs', `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}`, 'POST'), body]
const nested = (depth: number): string => `{"task": "a", "metadata": ${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`

test.for<[what: string, send: (service: Service) => Promise<string>, status: number, detail: RegExp]>([
  ['a header of 20 KB', (s) => exchange(s, request('/v1/runs', `X-Big: ${'x'.repeat(20_000)}\r\n`)), 431, /header fields are too large/],
  ['a URL of 20 KB', (s) => exchange(s, request(`/v1/runs?a=${'x'.repeat(20_000)}`, '')), 431, /header fields are too large/],
  ['201 more headers', (s) => exchange(s, request('/v1/runs', 'X-A: b\r\n'.repeat(201))), 431, /more than 200 header fields/],
  ['2,100 headers, of which Node gives 2,000', (s) => exchange(s, request('/v1/runs', 'X: \r\n'.repeat(2100))), 431, /header fields/],
  ['an id of 400 characters', (s) => exchange(s, request(`/v1/runs/${'x'.repeat(400)}`, '')), 404, /nothing at this path/],
  ['a body past the limit', (s) => exchange(s, ...posted(`{"task": "${'x'.repeat(5000)}"}`)), 413, /larger than 4096 bytes/],
  ['a body that says it is past the limit', (s) => exchange(s, request('/v1/runs', 'Content-Type: application/json\r\nContent-Length: 99999999999\r\n', 'POST')), 413, /larger than 4096 bytes/],
  ['a chunked body without end', (s) => exchange(s, request('/v1/runs', 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n', 'POST'), `2000\r\n${'x'.repeat(8192)}\r\n`), 413, /larger than 4096 bytes/],
  ['a gzip bomb: megabytes in kilobytes', (s) => exchange(s, ...posted(gzipSync(Buffer.alloc(2 ** 21)), 'Content-Encoding: gzip\r\n')), 413, /larger than 4096 bytes/],
  ['gzip in gzip', (s) => exchange(s, ...posted(gzipSync(gzipSync('{"task": "a"}')), 'Content-Encoding: gzip, gzip\r\n')), 415, /content encoding/],
  ['JSON 600 deep', (s) => exchange(s, ...posted(nested(600))), 400, /deep|nest/],
  ['lists 2,000 deep', (s) => exchange(s, ...posted('['.repeat(2000))), 400, /deep|nest/],
  ['two lengths', (s) => exchange(s, request('/v1/runs', 'Content-Length: 1\r\nContent-Length: 2\r\n', 'POST'), 'ab'), 400, /not well-formed HTTP/],
  ['a length and chunks: two readings of where it ends', (s) => exchange(s, request('/v1/runs', 'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n', 'POST'), '0\r\n\r\n'), 400, /not well-formed HTTP/],
  ['a header folded over lines', (s) => exchange(s, request('/v1/runs', 'X-A: b\r\n c: d\r\n')), 400, /not well-formed HTTP/],
  ['a line feed alone', (s) => exchange(s, 'GET /v1/runs HTTP/1.1\nHost: a\n\n'), 400, /not well-formed HTTP/],
  ['a NUL in a header', (s) => exchange(s, request('/v1/runs', 'X-A: a\0b\r\n')), 400, /not well-formed HTTP/],
  ['no HTTP at all', (s) => exchange(s, '\x16\x03\x01\x02\x00\x01\x00'), 400, /not well-formed HTTP/]
])('%s is a clear refusal, and the service goes on', async ([, send, status, detail]) => {
  const service = await startService(onTestFinished, { env: { MAX_BODY_BYTES: '4096' } })
  const answer = await send(service)
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  const { detail: said, status: told } = JSON.parse(answer.slice(answer.indexOf('{'))) as { detail: string, status: number }
  expect([told, said]).toEqual([status, expect.stringMatching(detail)])
  for (const [name, value] of Object.entries(ANSWER_HEADERS)) expect(answer).toContain(`${name}: ${value}\r\n`)
  expect((await service.call('GET', '/healthz')).status).toBe(200)
})

test('a head that comes byte by byte has a minute, and is told so', async () => {
  const service = await startService(onTestFinished)
  const { server } = service.app.http
  expect(server.headersTimeout).toBeLessThanOrEqual(60_000)
  const connected = once(server, 'connection') as Promise<[Socket]>
  const socket = open(service)
  socket.write('GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ')
  const [theirs] = await connected
  // As Node's own check does after that minute.
  server.emit('clientError', Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), theirs)
  expect(await answerOf(socket)).toMatch(/^HTTP\/1.1 408 Request Timeout[^]*did not come in time/)
})

test('who is refused and goes on sending its body slowly loses the connection', async () => {
  const service = await startService(onTestFinished)
  const timers = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => { timers.mockRestore() })
  const socket = open(service)
  socket.write('POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nx')
  await once(socket, 'data')
  const left = timers.mock.calls.find(([, ms]) => ms === 30_000)
  expect(left).toBeDefined()
  const closed = once(socket, 'close')
  left?.[0]()
  await closed
  expect((await service.call('GET', '/healthz')).status).toBe(200)
})

test('a body that does not come in has five minutes, then a 408 and the end of its connection', async () => {
  const service = await startService(onTestFinished)
  const timers = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => { timers.mockRestore() })
  const late = (): (() => void) | undefined => timers.mock.calls.find(([, ms]) => ms === 300_000)?.[0] as (() => void) | undefined
  const socket = open(service)
  socket.write(`${posted('x'.repeat(1000))[0] as string}{"task": `.replace('Connection: close\r\n', ''))
  await vi.waitFor(() => { expect(late()).toBeDefined() })
  late()?.()
  expect(await answerOf(socket)).toMatch(/^HTTP\/1.1 408 Request Timeout[^]*connection: close[^]*the request did not come in time/i)
})

test('an event stream whose reader takes nothing, not even a comment, is cut off after a minute', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const connected = once(service.app.http.server, 'connection') as Promise<[Socket]>
  const socket = open(service)
  socket.write(request(`/v1/runs/${id}/events`, 'Accept: text/event-stream\r\n'))
  const [theirs] = await connected
  await once(socket, 'data')
  expect(theirs.timeout).toBe(60_000)
  const closed = once(socket, 'close')
  theirs.emit('timeout')
  await closed
  expect((await service.call('GET', `/v1/runs/${id}`)).body.status).toBe('running')
})

test('an expectation that is not there to be had is refused before the body comes, with the headers of every answer', async () => {
  const service = await startService(onTestFinished)
  const answer = await exchange(service, request('/v1/runs', 'Expect: x\r\nX-Request-Id: r1\r\nContent-Length: 10\r\n', 'POST'))
  expect(answer).toMatch(/^HTTP\/1.1 417 /)
  expect(JSON.parse(answer.slice(answer.indexOf('{')))).toMatchObject({ code: 'INVALID_REQUEST', status: 417, requestId: 'r1', detail: 'the expectation "x" cannot be met' })
  for (const [name, value] of Object.entries(ANSWER_HEADERS)) expect(answer).toContain(`${name}: ${value}\r\n`)
  expect(await exchange(service, request('/v1/runs', 'Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 13\r\n', 'POST'), '{"task": "a"}'))
    .toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 201 /)
})

test('a thousand connections that say nothing keep nobody from being answered', async () => {
  const service = await startService(onTestFinished)
  const sockets = Array.from({ length: 1000 }, () => open(service))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const socket of sockets) socket.write('GET /v1/runs HT')
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  expect((await service.start({ task: 'a' })).id).toBeDefined()
})

test('a client that asks for the close and is refused before its body came reads the answer, and then its connection ends', async () => {
  const service = await startService(onTestFinished)
  const socket = open(service)
  const answer = answerOf(socket)
  socket.write(request('/v1/runs', 'Content-Type: text/plain\r\nContent-Length: 200000\r\n', 'POST'))
  await once(socket, 'data')
  socket.write('x'.repeat(200_000))
  expect(await answer).toMatch(/^HTTP\/1.1 415 [^]*UNSUPPORTED_MEDIA_TYPE/)
})
