import { expect, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { fails, hangs, raw, says, type FakeAnswer } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeModelServer } from '../support/fake-model-server.ts'
import { startService, type AtEnd, type Service } from '../support/service.ts'
import { KINDS, type Kind } from './model-call.ts'

/** quality.md, model servers, seen from outside: what a run comes to, and how often the server is asked, for each protocol. */

interface Outcome {
  upstream: FakeAnswer[]
  /** How often the server is asked. */
  asked: number
  result: { stopReason: string, code?: string, text?: string }
  message?: RegExp
}
const ok = { stopReason: 'completed', text: 'at last' }
const last = says('at last')
const failed = (code: string, text?: string) => ({ stopReason: 'error', code, ...(text === undefined ? {} : { text }) })
const wait = (value: string): FakeAnswer => fails('status429', { headers: { 'retry-after': value } })
const NOW = Date.parse('2026-11-30T12:00:00Z')

const TABLE: Readonly<Record<string, Outcome>> = {
  'a 429 is tried again': { upstream: [fails('status429'), last], asked: 2, result: ok },
  'a 500 is tried again': { upstream: [fails('status500'), last], asked: 2, result: ok },
  'a 502 is tried again': { upstream: [fails('status502'), last], asked: 2, result: ok },
  'a 503 is tried again': { upstream: [fails('status503'), last], asked: 2, result: ok },
  'a 504 is tried again': { upstream: [fails('status504'), last], asked: 2, result: ok },
  'a 529 is tried again': { upstream: [fails('status529'), last], asked: 2, result: ok },
  'a reset before the stream is tried again': { upstream: [fails('reset-before'), last], asked: 2, result: ok },
  'an empty answer is tried again': { upstream: [fails('empty'), last], asked: 2, result: ok },
  'JSON that is none, before any delta, is tried again': { upstream: [raw('data: {"broken\n\n'), last], asked: 2, result: ok },
  'retries end: four tries of a server that stays broken': { upstream: Array.from({ length: 9 }, () => fails('status503')),
    asked: 4, result: failed('MODEL_ERROR') },
  'a rate that stays limited is told as such': { upstream: Array.from({ length: 9 }, () => fails('status429')), asked: 4,
    result: failed('MODEL_RATE_LIMITED') },
  'a reset in the middle is not tried again: the text so far is the output': { upstream: [fails('reset-during'), last], asked: 1,
    result: failed('MODEL_ERROR', 'half a') },
  'a stream that ends early is not tried again': { upstream: [fails('ends-early'), last], asked: 1, result: failed('MODEL_ERROR',
    'half a') },
  'bad JSON in the middle is not tried again': { upstream: [fails('bad-json'), last], asked: 1, result: failed('MODEL_ERROR',
    'half a') },
  'an error event in the middle is not tried again': { upstream: [fails('error-event'), last], asked: 1,
    result: failed('MODEL_ERROR', 'half a') },
  'a 400 is not tried again': { upstream: [fails('status400'), last], asked: 1, result: failed('MODEL_ERROR') },
  'a refused key is not tried again': { upstream: [fails('auth'), last], asked: 1, result: failed('MODEL_AUTH') },
  'a context that is too long is not tried again': { upstream: [fails('context-too-long'), last], asked: 1,
    result: failed('CONTEXT_TOO_LONG') },
  'a redirect is not followed and not tried again': { upstream: [fails('redirect'), last], asked: 1,
    result: failed('MODEL_ERROR') },
  'a wrong content type is not tried again': { upstream: [fails('wrong-content-type'), last], asked: 1,
    result: failed('MODEL_ERROR') },
  'a server that ignores "stream" is an answer like any other': { upstream: [fails('ignores-stream')], asked: 1,
    result: { stopReason: 'completed', text: 'whole answer' } },
  'a tool call with broken arguments is told to the model, which goes on': { upstream: [fails('broken-arguments'), last],
    asked: 2, result: ok },
  'Retry-After: 0 is tried again': { upstream: [wait('0'), last], asked: 2, result: ok },
  'Retry-After: a negative number is passed over': { upstream: [wait('-5'), last], asked: 2, result: ok },
  'Retry-After: words are passed over': { upstream: [wait('soon'), last], asked: 2, result: ok },
  'Retry-After: words with a number in them are passed over': { upstream: [wait('not before 2050'), last], asked: 2, result: ok },
  'Retry-After: more than 9 quadrillion is passed over or stands, never waited for': { upstream: [wait('9'.repeat(30)), last],
    asked: 2, result: ok },
  'Retry-After: a date that has passed is tried again': { upstream: [wait('Mon, 30 Nov 2026 11:00:00 GMT'), last], asked: 2,
    result: ok },
  'Retry-After: a day is not waited for, the failure stands': { upstream: [wait('86400'), last], asked: 1,
    result: failed('MODEL_RATE_LIMITED') },
  'Retry-After: a date in a year is not waited for, the failure stands': { upstream: [wait('Tue, 30 Nov 2027 12:00:00 GMT'),
    last], asked: 1, result: failed('MODEL_RATE_LIMITED') }
}

async function open (atEnd: AtEnd, kind: Kind, answers: FakeAnswer[]): Promise<{ service: Service, server: FakeModelServer,
  model: string }> {
  const server = await startFakeModelServer(atEnd, { answers })
  const env = kind === 'anthropic'
    ? { ANTHROPIC_BASE_URL: server.anthropicUrl, ANTHROPIC_API_KEY: 'sk-test-0123456789' }
    : { OPENAI_BASE_URL: server.openaiUrl, OPENAI_API_KEY: 'sk-test-0123456789' }
  // At -1 the jittered backoff is no wait at all.
  const service = await startService(atEnd, { env, random: () => -1, now: () => NOW })
  return { service, server, model: `${kind === 'anthropic' ? 'anthropic' : 'openai'}/m` }
}

for (const kind of KINDS) {
  test.for(Object.entries(TABLE))(`${kind}: %s`, async ([, { upstream, asked, result: expected }], { onTestFinished }) => {
    const { service, server, model } = await open(onTestFinished, kind, upstream)
    const run = await service.start({ task: 'do it', agentOptions: { model } })
    const { stopReason, error, output, toolResult } = await service.result(run.id)
    expect({ stopReason, ...(error ? { code: error.code } : {}),
      ...(output[0] ? { text: output[0].text } : {}) }).toEqual(expected)
    expect(server.requests).toHaveLength(asked)
    expect(toolResult.isError).toBe(stopReason !== 'completed')
    // The same for every reader, and balanced.
    const log = await service.log(run.id)
    const count = (type: SessionEvent['type']): number => log.filter((event) => event.type === type).length
    expect([count('turn/start'), count('turn/end'), count('run/settled')]).toEqual([1, 1, 1])
    expect(count('step/start')).toBe(count('step/end'))
    expect((await service.call('GET', `/v1/runs/${run.id}`)).body).toMatchObject({ status: 'settled', stopReason })
  })

  test(`${kind}: a stream that stalls is left when the run is cancelled, and the text so far is the output`,
    async ({ onTestFinished }) => {
    const { service, server, model } = await open(onTestFinished, kind, [hangs('so far')])
    const run = await service.start({ task: 'do it', agentOptions: { model } })
    const { closed } = await server.received(0)
    await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
    expect((await service.result(run.id)).stopReason).toBe('aborted')
    expect(await closed).toMatchObject({ complete: false })
    expect(server.requests).toHaveLength(1)
  })

  test(`${kind}: a stream that stalls ends with the run's time, as an error of its own`, async ({ onTestFinished }) => {
    const { service, server, model } = await open(onTestFinished, kind, [hangs('so far')])
    const run = await service.start({ task: 'do it', agentOptions: { model }, limits: { timeoutMs: 100 } })
    expect(await service.result(run.id)).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME' },
      diagnostic: 'timeoutMs 100 reached' })
    expect(await (await server.received(0)).closed).toMatchObject({ complete: false })
  })
}
