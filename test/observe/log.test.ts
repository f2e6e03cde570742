import { expect, test } from 'vitest'
import { createLogger, plainError } from '../../src/observe/log.ts'

const record = (pretty = false) => {
  const lines: string[] = []
  const log = createLogger({ level: 'debug', pretty, destination: { write: (line) => { lines.push(line) } } })
  return { log, lines, text: () => lines.join('') }
}
const only = (lines: string[]): Record<string, unknown> => {
  expect(lines).toHaveLength(1)
  return JSON.parse(lines[0] as string) as Record<string, unknown>
}

test('a line is one JSON object with level, ISO time and message, and nothing of the host', () => {
  const { log, lines } = record()
  log.info({ runId: 'r' }, 'run settled')
  expect(only(lines)).toEqual({ level: 30, time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/), runId: 'r', msg: 'run settled' })
})

test('levels below the chosen one are not written', () => {
  const { log, lines } = record()
  log.trace('x')
  expect(lines).toEqual([])
})

test('no secret is written, whatever field or text it stands in', () => {
  const { log, text } = record()
  const secret = 'hidden-value-123456'
  log.info({ apiKey: secret, headers: { authorization: secret, cookie: secret, 'x-api-key': secret },
    req2: { headers: { authorization: secret, 'set-cookie': secret } } })
  log.info({ endpoint: { apiKey: secret, password: secret, token: secret } }, 'configured')
  log.info(`sent Bearer ${secret} upstream`)
  log.warn({ why: `Authorization: bearer ${secret}` })
  log.error({ err: new Error('Incorrect API key provided: sk-proj-hidden-value-123456',
    { cause: new Error(`Basic ${secret}`) }) })
  log.error(`cannot reach https://user:${secret}@host/v1`)
  expect(text()).not.toContain(secret)
  expect(text()).not.toContain('hidden')
  expect(text()).toContain('[redacted]')
})

test('an error is written with its causes, and without fields that may hold a request', () => {
  const { log, lines, text } = record()
  const error = Object.assign(new TypeError('failed', { cause: Object.assign(new Error('reset'), { code: 'ECONNRESET' }) }),
    { request: { body: 'payload-text' }, status: 401 })
  log.error({ err: error, requestId: 'q' }, 'internal error')
  expect(only(lines)).toMatchObject({
    requestId: 'q', msg: 'internal error',
    err: { type: 'TypeError', message: 'failed', stack: expect.stringContaining('log.test.ts'), cause: { message: 'reset',
      code: 'ECONNRESET' } }
  })
  expect(text()).not.toContain('payload-text')
})

test('a thrown value that is no error, a loop of causes and a huge message stay bounded', () => {
  const loop = new Error('loop')
  loop.cause = loop
  expect(JSON.stringify(plainError(loop)).length).toBeLessThan(40_000)
  expect(plainError(new Error('x'.repeat(1_000_000))).message).toHaveLength(4097)
  expect(plainError('text')).toEqual({ type: 'string', message: 'text' })
  const ring: { self?: unknown } = {}
  ring.self = ring
  expect(plainError(ring)).toEqual({ type: 'object', message: 'a value that is not JSON' })
  expect(plainError(undefined)).toEqual({ type: 'undefined', message: 'undefined' })
})

test('a request is written without its headers', () => {
  const { log, lines } = record()
  log.info({ req: { method: 'GET', url: '/v1', host: 'h', ip: '127.0.0.1', headers: { authorization: 'x' } },
    res: { statusCode: 200, headers: {} } }, 'request completed')
  expect(only(lines)).toMatchObject({ req: { method: 'GET', url: '/v1', host: 'h', remoteAddress: '127.0.0.1' },
    res: { statusCode: 200 } })
  expect(lines[0]).not.toContain('headers')
})

test('pretty lines are for people, written at once, and hold no secret either', async () => {
  const { PassThrough } = await import('node:stream')
  const stream = new PassThrough()
  const log = createLogger({ level: 'info', pretty: true, destination: stream })
  log.info({ apiKey: 'hidden' }, 'docs at http://127.0.0.1:8080/docs')
  const text = String(stream.read())
  expect(text).toMatch(/INFO.*: docs at http:\/\/127\.0\.0\.1:8080\/docs /)
  expect(text).not.toContain('hidden')
})
