import { expect, test } from 'vitest'
import { FAULTS, fails, raw, type FaultName } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { createModels } from '../../src/models/models.ts'
import { KEY, KINDS, play, startModel, type Played } from './model-call.ts'

/** quality.md: every failure of a model server has a named test, for each protocol. */

interface Expected { code: string, retryable: boolean, message: RegExp, status?: number, deltas?: string }
const model = (message: RegExp, retryable: boolean, more: Partial<Expected> = {}): Expected =>
  ({ code: 'MODEL_ERROR', message, retryable, ...more })
const after = { deltas: 'half a' }

const EXPECTED: Record<Exclude<FaultName, 'broken-arguments' | 'ignores-stream'>, Expected> = {
  status400: model(/answered 400: fake status400/, false, { status: 400 }),
  status429: { code: 'MODEL_RATE_LIMITED', message: /answered 429 \(rate limited\): fake status429/, retryable: true,
    status: 429 },
  status500: model(/answered 500: fake status500/, true, { status: 500 }),
  status502: model(/answered 502/, true, { status: 502 }),
  status503: model(/answered 503/, true, { status: 503 }),
  status504: model(/answered 504/, true, { status: 504 }),
  status529: model(/answered 529 \(overloaded\)/, true, { status: 529 }),
  auth: { code: 'MODEL_AUTH', message: /answered 401 \(not authorized\)/, retryable: false, status: 401 },
  'context-too-long': { code: 'CONTEXT_TOO_LONG', message: /answered 400 \(context too long\)/, retryable: false, status: 400 },
  redirect: model(/answered 307 \(a redirect, which is not followed\)$/, false, { status: 307 }),
  'reset-before': model(/reset the connection|closed the connection/, true),
  'reset-during': model(/reset the connection|closed the connection/, true, after),
  stall: model(/stalled: nothing came for too long/, true, after),
  'bad-json': model(/sent an event that is not JSON/, true, after),
  'wrong-content-type': model(/wrong content type \(text\/html\)/, false),
  empty: model(/sent an empty answer/, true),
  huge: model(/sent an answer larger than 200000 bytes/, false),
  'ends-early': model(/the stream ended early/, true, after),
  'error-event': model(/sent an error \((server|overloaded)_error\): Overloaded/, true, after)
}

const LIMITS = { fetchTimeouts: { idleMs: 50 }, maxReplyBytes: 200_000 }
const textOf = ({ deltas }: Played): string => deltas.map((delta) => delta.text).join('')

for (const kind of KINDS) {
  for (const fault of FAULTS) {
    if (fault === 'broken-arguments' || fault === 'ignores-stream') continue
    test(`${kind}: ${fault}`, async ({ onTestFinished }) => {
      const { model: up } = await startModel(onTestFinished, kind, [fails(fault)], LIMITS)
      const played = await play(up)
      const { code, message, retryable, status, deltas } = EXPECTED[fault]
      expect(played.failure?.outcome).toEqual({ code, retryable, message: expect.stringMatching(message) as string })
      expect(played.failure?.outcome.message).toMatch(/^model endpoint "up" /)
      expect(played.failure?.status).toBe(status)
      if (fault !== 'huge') expect(textOf(played)).toBe(deltas ?? '')
    })
  }

  test(`${kind}: broken-arguments are handed on as the model wrote them`, async ({ onTestFinished }) => {
    const { model: up } = await startModel(onTestFinished, kind, [fails('broken-arguments')])
    expect((await play(up)).reply).toMatchObject({
      stop: 'tool-calls', content: [{ type: 'tool-call', toolCallId: 'call_broken', name: 'read_file', arguments: '{"path": "a' }]
    })
  })

  test(`${kind}: ignores-stream is an answer like any other`, async ({ onTestFinished }) => {
    const { model: up } = await startModel(onTestFinished, kind, [fails('ignores-stream')])
    const played = await play(up)
    expect(played.reply).toMatchObject({ stop: 'end', content: [{ type: 'text', text: 'whole answer' }],
      usage: { inputTokens: 10, outputTokens: 5 } })
    expect(textOf(played)).toBe('whole answer')
  })

  test(`${kind}: Retry-After is told in seconds, as a date, and in milliseconds`, async ({ onTestFinished }) => {
    const now = Date.parse('2026-11-30T12:00:00Z')
    const asked = async (headers: Record<string, string>): Promise<number | undefined> => {
      const { model: up } = await startModel(onTestFinished, kind, [fails('status429', { headers })], { now: () => now })
      return (await play(up)).failure?.retryAfterMs
    }
    expect(await asked({ 'retry-after': '7' })).toBe(7000)
    expect(await asked({ 'retry-after': 'Mon, 30 Nov 2026 12:00:30 GMT' })).toBe(30_000)
    expect(await asked({ 'retry-after': 'Mon, 30 Nov 2026 11:00:00 GMT' })).toBe(0)
    expect(await asked({ 'retry-after': '7', 'retry-after-ms': '250' })).toBe(250)
    expect(await asked({ 'retry-after': 'soon' })).toBeUndefined()
    expect(await asked({})).toBeUndefined()
  })

  test(`${kind}: a server that is not there`, async ({ onTestFinished }) => {
    const gone = await startFakeModelServer()
    await gone.close()
    const models = createModels({ endpoints: [{ name: 'up', kind, baseUrl: gone.url, apiKey: KEY }] })
    onTestFinished(() => models.close())
    expect((await play(models.resolve('up/m'))).failure?.outcome)
      .toEqual({ code: 'MODEL_ERROR', message: 'model endpoint "up" refused the connection (ECONNREFUSED)', retryable: true })
  })

  test(`${kind}: a key that the server echoes never shows, whole, in part or in another spelling`, async ({ onTestFinished }) => {
    const header = 'Token a&b=/c-0123456789'
    const texts = [KEY, `key=${KEY}&x`, `${KEY.slice(0, 12)}...`, header, encodeURIComponent(header),
      'sk-proj-someone0else9s', 'x'.repeat(490) + KEY]
    for (const text of texts) {
      const { model: up } = await startModel(onTestFinished, kind, [fails('status400', { message: `bad ${text}` })],
        { headers: { 'x-token': header } })
      const message = (await play(up)).failure?.outcome.message ?? ''
      expect(message).toMatch(/^model endpoint "up" answered 400: bad/)
      for (const secret of [KEY.slice(0, 10), header, encodeURIComponent(header), 'someone0else9s']) expect(message,
        text).not.toContain(secret)
    }
  })

  test(`${kind}: what an upstream says is one line of at most 500 characters`, async ({ onTestFinished }) => {
    const { model: up } = await startModel(onTestFinished, kind,
      [fails('status500', { message: `a\n\u0000b ${'😀'.repeat(2000)}` })])
    const message = (await play(up)).failure?.outcome.message ?? ''
    expect(message.length).toBeLessThanOrEqual(500)
    expect(message).toMatch(/: a b 😀/)
    expect(message.isWellFormed()).toBe(true)
  })

  test(`${kind}: bytes that carry no text are bounded too`, async ({ onTestFinished }) => {
    const { model: up } = await startModel(onTestFinished, kind, [raw(`: ${'x'.repeat(5000)}\n\n`)], { maxReplyBytes: 1000 })
    expect((await play(up)).failure?.outcome).toMatchObject({ code: 'MODEL_ERROR', retryable: false,
      message: expect.stringMatching(/too large/) as string })
  })

  test(`${kind}: JSON that is no answer, no JSON, and nothing at all`, async ({ onTestFinished }) => {
    const outcomes: string[] = []
    for (const body of ['{"hello":1}', '{"broken', '', '{"error":{"type":"invalid_request_error","message":"no such model"}}']) {
      const { model: up } = await startModel(onTestFinished, kind, [raw(body, 'application/json; charset=utf-8')])
      outcomes.push((await play(up)).failure?.outcome.message ?? '')
    }
    expect(outcomes).toEqual([
      `model endpoint "up" sent JSON that is not a ${kind === 'anthropic' ? 'message' : 'chat completion'}`,
      'model endpoint "up" sent an answer that is not JSON',
      'model endpoint "up" sent an empty answer',
      'model endpoint "up" sent an error (invalid_request_error): no such model'
    ])
  })
}
