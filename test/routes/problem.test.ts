import { expect, test } from 'vitest'
import { PROBLEMS } from '../../openapi/problems.ts'
import { REFUSAL_CODES, Refusal, refuse } from '../../src/core/errors.ts'
import type { RefusalCode } from '../../src/core/errors.ts'
import { problemOf } from '../../routes/problem.ts'
import { createApp, open, problem } from './app.ts'

/** The table of http-api.md 5.5. */
const TABLE: Record<number, RefusalCode[]> = {
  400: ['INVALID_REQUEST'],
  401: ['UNAUTHENTICATED'],
  403: ['FORBIDDEN', 'MODEL_FORBIDDEN'],
  404: ['RUN_NOT_FOUND', 'SESSION_NOT_FOUND', 'NOT_FOUND'],
  405: ['METHOD_NOT_ALLOWED'],
  406: ['NOT_ACCEPTABLE'],
  409: ['START_ABORTED', 'RUN_EXISTS', 'RUN_SETTLED', 'PARENT_ABORTED', 'TOOL_CALL_NOT_PENDING', 'SESSION_CONFLICT', 'FRAME_GAP'],
  410: ['CURSOR_EXPIRED'],
  413: ['PAYLOAD_TOO_LARGE'],
  415: ['UNSUPPORTED_MEDIA_TYPE'],
  422: [
    'DEPTH_INVALID', 'DEPTH_RANGE', 'DEPTH_EXCEEDED', 'MAX_DEPTH_INVALID', 'NO_PROVIDER', 'PROVIDER_UNAVAILABLE',
    'UNSUPPORTED_CAPABILITY',
    'UNSUPPORTED_SCHEMA', 'TOOL_FILTER_INVALID', 'TOOL_NAME_TAKEN', 'MODEL_UNKNOWN', 'TRANSCRIPT_INVALID', 'TREE_LIMIT',
    'IDEMPOTENCY_MISMATCH'
  ],
  429: ['RATE_LIMITED', 'QUOTA_EXCEEDED'],
  500: ['INTERNAL'],
  503: ['OVERLOADED', 'SHUTTING_DOWN', 'STORE_UNAVAILABLE', 'AUTH_UNAVAILABLE']
}
const RETRYABLE = ['RATE_LIMITED', 'QUOTA_EXCEEDED', 'OVERLOADED', 'SHUTTING_DOWN', 'STORE_UNAVAILABLE', 'AUTH_UNAVAILABLE', 'INTERNAL']

test('5.5 each code has the status of the table, and no other code has one', () => {
  const table = Object.entries(TABLE).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)] as const))
  expect(Object.fromEntries(Object.entries(PROBLEMS).map(([code, [status]]) => [code, status]))).toEqual(
    Object.fromEntries(table)
  )
  expect(REFUSAL_CODES.toSorted()).toEqual(table.map(([code]) => code).toSorted())
})

test.for(REFUSAL_CODES)('5.1 a start refused with %s can be relayed', async (code, { onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.override.start = async () => { throw new Refusal(code, `why ${code}`, { retryAfter: 2.1, allow: 'GET' }) }
  const answer = await start({ task: 'a', format: 'openai-chat', toolCallId: 'c1' })
  const [status] = PROBLEMS[code]
  const body = problem(answer, status, code)
  expect(body).toMatchObject({ detail: `why ${code}`, retryable: RETRYABLE.includes(code) })
  const shown = status === 403 || status === 401 || status >= 500 ? 'Error: subagent service unavailable' : `Error: why ${code}`
  expect(body['relay']).toEqual({ role: 'tool', tool_call_id: 'c1', content: shown })
  expect(body['relayPart']).toEqual(body['relay'])
  expect(answer.headers['retry-after']).toBe('3')
})

test('2.6 facts that a host acts on stand beside the members', () => {
  const of = (error: ReturnType<typeof refuse>) => problemOf(error, 'r').body
  expect(of(refuse('TOOL_CALL_NOT_PENDING', { toolCallId: 'c', reason: 'expired' }))).toMatchObject(
    { reason: 'expired', toolCallId: 'c' }
  )
  expect(of(refuse('SESSION_CONFLICT', { detail: 'x', length: 4 }))).toMatchObject({ length: 4 })
  expect(of(refuse('TRANSCRIPT_INVALID', { detail: 'bad', pointer: '/parent/transcript/messages/3' }))).toMatchObject(
    { errors: [{ pointer: '/parent/transcript/messages/3', detail: 'bad' }] }
  )
  expect(of(refuse('MODEL_UNKNOWN', { model: 'm', known: ['k'] }))).not.toHaveProperty('known')
})

test('12 past the safe integers a depth keeps its face', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.override.start = async () => { throw refuse('DEPTH_RANGE') }
  problem(await start({ task: 'a' }), 422, 'DEPTH_RANGE')
})

test('5.3 a fault answers bare, and the log has its cause under the request id', async ({ onTestFinished }) => {
  const { start, runs, errors } = createApp(onTestFinished)
  runs.override.start = async () => { throw new Error('the secret cause') }
  const answer = await start({ task: 'a' })
  problem(answer, 500, 'INTERNAL')
  expect(answer.body).not.toContain('secret')
  expect(errors).toMatchObject([{ err: { message: 'the secret cause' }, reqId: answer.headers['x-request-id'] }])
})

test('a thrown value that is no error is a fault too', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.override.start = async () => { throw 'text' }
  problem(await start({ task: 'a' }), 500, 'INTERNAL')
})

test('5.2 a refused body is relayed in the format it names, one that cannot be read is not', async ({ onTestFinished }) => {
  const { start, send } = createApp(onTestFinished)
  const body = problem(await start({ task: 1, format: 'anthropic', toolCallId: 't1' }), 400, 'INVALID_REQUEST')
  expect(body['relayPart']).toMatchObject({ type: 'tool_result', tool_use_id: 't1', is_error: true })
  expect(body['relay']).toEqual({ role: 'user', content: [body['relayPart']] })
  expect(problem(await start({ task: 1, format: 'morse', toolCallId: 't1' }), 400, 'INVALID_REQUEST')).not.toHaveProperty('relay')
  expect(problem(await start({ task: 1, toolCallId: 't1' }), 400, 'INVALID_REQUEST')).not.toHaveProperty('relay')
  const query = problem(
    await send('GET', '/v1/runs/x/result?format=openai-responses&toolCallId=c&wait=x'), 400, 'INVALID_REQUEST'
  )
  expect(query['relay']).toMatchObject({ type: 'function_call_output', call_id: 'c' })
})

test('5.3 X-Request-Id is on each answer; a sane one of the sender is kept', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  for (const url of ['/healthz', '/v1/runs', '/nowhere', '/v1/%ff']) {
    expect((await send('GET', url)).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect((await send('GET', url, undefined, { 'x-request-id': 'host-7.a' })).headers['x-request-id']).toBe('host-7.a')
    expect((await send('GET', url, undefined, { 'x-request-id': 'a b' })).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  }
})

test('headers past the limit of the server answer a problem', async ({ onTestFinished }) => {
  const { app } = createApp(onTestFinished)
  const { response } = await open(app, { path: '/healthz', headers: { 'x-big': 'a'.repeat(40_000) } })
  const answer = await response
  expect(answer.statusCode).toBe(431)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  let text = ''
  for await (const chunk of answer) text += String(chunk)
  expect(JSON.parse(text)).toMatchObject(
    { status: 431, code: 'INVALID_REQUEST', requestId: answer.headers['x-request-id'], toolResult: { isError: true } }
  )
})

test('HEAD of any GET has no body', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  for (const url of ['/healthz', '/v1/runs', '/v1/runs/x', '/v1/runs/x/result?wait=5', '/v1/runs/x/events']) {
    const answer = await send('HEAD', url, undefined, { accept: '*/*' })
    expect(answer.body).toBe('')
    expect(answer.statusCode).toBeLessThan(300)
  }
})
