import { expect, test } from 'vitest'
import { startService } from '../support/service.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { sent } from '../support/sent.ts'
import { calls, says } from '../support/fake-answers.ts'

const tool = { name: 'read_file', description: 'reads', inputSchema: { type: 'object' } }

test('7.3 a steered message reaches the run at its next step, and the model sees it once', async ({ onTestFinished }) => {
  const models = await startFakeModelServer(onTestFinished, { answers: [calls('read_file', {}, { id: 'c1' }), says('done')] })
  const service = await startService(onTestFinished, { env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m' } })
  const run = await service.start({ task: 'read', tools: [tool] }, { prefer: 'wait=10' })
  const steered = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'only the head' })
  expect(steered).toMatchObject({ status: 202, body: { messageId: expect.any(String) } })
  await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results: [{ toolCallId: 'c1', content: 'text' }] })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  expect(models.requests[1]?.json.messages).toMatchObject([
    { role: 'user', content: 'read' }, { role: 'assistant' }, { role: 'tool' }, { role: 'user', content: 'only the head' }
  ])
  expect(await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'late' })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
})

test('7.3 a message that comes while the model answers keeps the turn open for one more step', async ({ onTestFinished }) => {
  const service = await startService(onTestFinished)
  const script = [{ slow: { text: 'first answer', delayMs: 150 } }, { say: 'second answer' }]
  const run = await service.start({ task: 'go', agentOptions: { script } })
  await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'and more' }, { 'idempotency-key': 'k' })
  const again = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'and more' }, { 'idempotency-key': 'k' })
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  expect(await service.result(run.id)).toMatchObject({ output: [{ text: 'second answer' }], usage: { steps: 2 } })
  const users = (await service.log(run.id)).filter((event) => event.type === 'user/message')
  expect(users).toHaveLength(2)
})

test('7.3 a follow-up is a new run on the same session: continues, same depth, its own result; the old one never changes', async ({ onTestFinished }) => {
  const models = await startFakeModelServer(onTestFinished, { answers: [says('one'), says('two')] })
  const service = await startService(onTestFinished, { env: { ANTHROPIC_BASE_URL: models.anthropicUrl, DEFAULT_MODEL: 'anthropic/m' } })
  const first = await service.start({ task: 'a', persona: 'You are short.' })
  const before = await service.result(first.id)
  const answer = await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'b', mode: 'follow-up' }, { prefer: 'wait=10' })
  expect(answer).toMatchObject({
    status: 201,
    body: { continues: first.id, sessionId: first.sessionId, depth: 1, status: 'settled', result: { output: [{ text: 'two' }] } }
  })
  expect(answer.body.id).not.toBe(first.id)
  expect(await service.result(first.id)).toEqual(before)
  expect(sent(models, 1)).toMatchObject({ system: 'You are short.', messages: [...sent(models, 0).messages, { role: 'assistant' }, { role: 'user' }] })
  const events = await service.call('GET', `/v1/runs/${answer.body.id}/events`)
  expect(events.body.events[0]).toMatchObject({ type: 'turn/start', data: { turn: 2, origin: 'message' } })
})

test('7.3 two follow-ups at once: one wins, the other is told', async ({ onTestFinished }) => {
  const service = await startService(onTestFinished)
  const first = await service.start({ task: 'a', agentOptions: { script: [{ slow: { text: 'x', delayMs: 50 } }] } })
  expect(await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'b', mode: 'follow-up' }))
    .toMatchObject({ status: 409, body: { code: 'SESSION_CONFLICT' } })
  await service.result(first.id)
  const answers = await Promise.all([1, 2].map((n) => service.call('POST', `/v1/runs/${first.id}/messages`, { content: `${n}`, mode: 'follow-up' })))
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409])
})

test('7.3 a message that its run ended without, at the token cap, reaches the model with the follow-up', async ({ onTestFinished }) => {
  const models = await startFakeModelServer(onTestFinished, { answers: [says('cut', { stop: 'max-tokens', delayMs: 100 }), says('now')] })
  const service = await startService(onTestFinished, { env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m' } })
  const first = await service.start({ task: 'a' })
  await models.received(0)
  expect((await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'be short' })).status).toBe(202)
  expect(await service.result(first.id)).toMatchObject({ stopReason: 'max-tokens' })
  await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'go on', mode: 'follow-up' }, { prefer: 'wait=10' })
  expect(sent(models, 1).messages.map(({ content }) => content)).toEqual(['a', 'cut', 'go on', 'be short'])
})

test('9.8 a follow-up owes a structured value of its own', async ({ onTestFinished }) => {
  const service = await startService(onTestFinished)
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const script = [{ call: { name: 'structured_output', input: { n: 1 } } }]
  const first = await service.start({ task: 'a', outputSchema, agentOptions: { script } })
  expect(await service.result(first.id)).toMatchObject({ structured: { n: 1 } })
  const next = await service.call('POST', `/v1/runs/${first.id}/messages`, { content: 'again', mode: 'follow-up' }, { prefer: 'wait=10' })
  expect(next.body.result).toMatchObject({ stopReason: 'completed', structured: { n: 1 } })
})
