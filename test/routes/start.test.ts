import { expect, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import { createApp, problem } from './app.ts'
import { RUN_ID, runView, settled } from './fake-runs.ts'

test('only task is required; what is absent stays absent', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const answer = await start({ task: 'do it' })
  expect(answer.statusCode).toBe(201)
  expect(answer.headers['location']).toBe(`/v1/runs/${RUN_ID}`)
  expect(runs.input).toStrictEqual(
    { provider: 'spawn', task: [text('do it')], codeMode: 'native', limits: {}, metadata: {}, relay: {} }
  )
  expect(answer.json()).toMatchObject(
    { id: RUN_ID, status: 'running', createdAt: '2023-11-14T22:13:20.000Z', links: { result: `/v1/runs/${RUN_ID}/result` } }
  )
  expect(answer.json()).not.toHaveProperty('tenant')
  expect(answer.json()).not.toHaveProperty('segment')
})

test('everything a start can say reaches the application', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
  await start({
    provider: 'fork', id: RUN_ID.toUpperCase(), task: [text('a'), image], label: 'l', parent: {
      runId: RUN_ID.toUpperCase()
    }, maxDepth: 3, persona: 'p',
    agentOptions: {
      model: 'm', maxTokens: 5, temperature: 0, script: [{ say: 'x' }]
    }, toolFilter: { allow: [] }, tools: [{ name: 't' }],
    outputSchema: { type: 'object' }, limits: { steps: 2 }, toolCallId: 'c', toolName: 'd', format: 'ai-sdk',
    metadata: { k: 'v' }, codeMode: 'native'
  })
  expect(runs.input).toStrictEqual({
    provider: 'fork', id: RUN_ID, task: [text('a'), image], label: 'l', parent: { runId: RUN_ID }, maxDepth: 3, persona: 'p',
    agentOptions: { model: 'm', maxTokens: 5, temperature: 0, script: [{ say: 'x' }] }, toolFilter: { allow: [] },
    tools: [{ name: 't', description: '', inputSchema: { type: 'object' } }],
    outputSchema: { type: 'object' }, limits: { steps: 2 }, relay: {
      format: 'ai-sdk', toolCallId: 'c', toolName: 'd'
    }, metadata: { k: 'v' }, codeMode: 'native'
  })
})

test('2.2 Prefer: wait holds the answer; 201 either way, with the result when settled', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const early = await start({ task: 'a' }, { prefer: 'respond-async, wait=3' })
  expect([early.statusCode, early.headers['preference-applied'], 'result' in early.json<object>()]).toEqual(
    [201, 'wait=3', false]
  )
  expect(runs.asked.at(-1)).toMatchObject({ call: 'wait', args: [RUN_ID, { ms: 3000, orWaiting: true }] })
  runs.override.wait = async () => settled({ output: [text('the answer')] })
  const late = await start({ task: 'a', format: 'anthropic', toolCallId: 't' }, { prefer: 'wait=3' })
  expect(late.statusCode).toBe(201)
  expect(late.json()).toMatchObject({
    status: 'settled',
    result: {
      stopReason: 'completed', toolResult: { isError: false, content: [text('the answer')] }, relay: { role: 'user' },
      relayPart: { type: 'tool_result', tool_use_id: 't' }
    }
  })
})

test('2.2 a longer wait is cut to the maximum, a bad one ignored', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished, { maxWaitSeconds: 7 })
  expect((await start({ task: 'a' }, { prefer: 'wait=3600' })).headers['preference-applied']).toBe('wait=7')
  expect(runs.asked.at(-1)?.args[1]).toMatchObject({ ms: 7000 })
  expect((await start({ task: 'a' }, { prefer: 'wait=soon' })).headers['preference-applied']).toBeUndefined()
})

test('2.4 the key goes with the hash of the body as a JSON value', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const keyOf = () => (
    runs.asked.findLast(({ call }) => call === 'start')?.args[1] as {
      idempotency?: { key: string, bodyHash: string }
    } | undefined
  )?.idempotency
  await start('{"task":"a","label":"b"}', { 'idempotency-key': 'k-1', prefer: 'wait=1' })
  const first = keyOf()
  expect(first).toEqual({ key: 'k-1', bodyHash: expect.stringMatching(/^[0-9a-f]{64}$/) })
  await start('{ "label": "\\u0062", "task":"a" }', { 'idempotency-key': 'k-1' })
  expect(keyOf()).toEqual(first)
  await start('{"task":"a","label":"c"}', { 'idempotency-key': 'k-1' })
  expect(keyOf()?.bodyHash).not.toBe(first?.bodyHash)
  await start('{"task":"a"}')
  expect(keyOf()).toBeUndefined()
})

test('2.4 a replay is 200 and says so', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.replayed = true
  const answer = await start({ task: 'a' }, { 'idempotency-key': 'k' })
  expect([answer.statusCode, answer.headers['idempotency-replayed'], answer.headers['location']]).toEqual(
    [200, 'true', `/v1/runs/${RUN_ID}`]
  )
})

test.for(['', ' ', 'a b', 'é', 'a'.repeat(256)])('2.4 the key "%s" is refused', async (key, { onTestFinished }) => {
  const { start, send } = createApp(onTestFinished)
  problem(await start({ task: 'a' }, { 'idempotency-key': key }), 400, 'INVALID_REQUEST')
  problem(await send('POST', '/v1/sessions', {}, { 'idempotency-key': key }), 400, 'INVALID_REQUEST')
  problem(
    await send('POST', '/v1/runs/x/tool-results', { results: [{ toolCallId: 'c', content: '' }] }, { 'idempotency-key': key }),
    400, 'INVALID_REQUEST'
  )
})

test('2.1 a queued run is answered as it is', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  runs.run = runView({ status: 'queued' })
  expect((await start({ task: 'a' })).json()).toMatchObject({ status: 'queued', startedAt: null })
})
