import { expect, onTestFinished, test } from 'vitest'
import { startService } from './support/service.ts'

test('a spawned run answers, and its log, result and events agree', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 'hello' })
  expect(run).toMatchObject({ provider: 'spawn', depth: 1, seed: { turns: 0, events: 0 } })
  const result = await service.result(run.id)
  expect(result).toMatchObject({ runId: run.id, stopReason: 'completed', toolResult: { isError: false } })
  expect((await service.log(run.id)).map((event) => event.type)).toEqual([
    'turn/start', 'user/message', 'request/header', 'step/start', 'assistant/message', 'step/end', 'turn/end', 'run/settled'
  ])
  const page = await service.call('GET', `/v1/runs/${run.id}/events`)
  expect(page.body).toMatchObject({ settled: true })
  expect(page.body.events).toHaveLength(8)
})

test('a waiting start brings the result', async () => {
  const service = await startService(onTestFinished)
  const { status, body, headers } = await service.call('POST', '/v1/runs', { task: 'hello', agentOptions: { script: [{ say: 'hi' }] } }, { prefer: 'wait=10' })
  expect(status).toBe(201)
  expect(headers.get('preference-applied')).toBe('wait=10')
  expect(body).toMatchObject({ status: 'settled', stopReason: 'completed', result: { output: [{ type: 'text', text: 'hi' }] } })
})

test('a streaming start sends every event and ends with settled', async () => {
  const service = await startService(onTestFinished)
  const { status, text } = await service.call('POST', '/v1/runs', { task: 'hello' }, { accept: 'text/event-stream' })
  expect(status).toBe(201)
  const names = [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1])
  expect(names[0]).toBe('run')
  expect(names.at(-1)).toBe('settled')
})

test('a fork of a settled run sees its turns', async () => {
  const service = await startService(onTestFinished)
  const parent = await service.start({ task: 'one', agentOptions: { script: [{ say: 'first' }] } })
  await service.result(parent.id)
  const child = await service.start({ provider: 'fork', parent: { runId: parent.id }, task: 'two' })
  expect(child).toMatchObject({ depth: 2, seed: { turns: 1, events: 7 }, parent: { runId: parent.id } })
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'completed' })
})

test('a hanging run is cancelled', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 'one', agentOptions: { script: [{ hang: true }] } })
  const cancelled = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=5`, { reason: 'enough' })
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { reason: 'enough' } })
  expect(await service.result(run.id)).toMatchObject({ output: [], toolResult: { isError: true, content: [{ text: 'Error: subagent run was cancelled' }] } })
})

test('a host tool is answered', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({
    task: 'read', tools: [{ name: 'read_file', description: 'reads', inputSchema: { type: 'object', properties: { path: { type: 'string' } } } }],
    agentOptions: { script: [{ call: { name: 'read_file', input: { path: 'a' } } }, { say: 'done' }] }
  }, { prefer: 'wait=10' })
  expect(run).toMatchObject({ status: 'waiting', pendingToolCalls: [{ name: 'read_file', input: { path: 'a' } }] })
  const answer = { results: [{ toolCallId: run.pendingToolCalls[0].toolCallId, content: 'text' }] }
  expect((await service.call('POST', `/v1/runs/${run.id}/tool-results`, answer)).status).toBe(200)
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
})

test('structured output is captured', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({
    task: 'count', outputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    agentOptions: { script: [{ call: { name: 'structured_output', input: { n: 3 } } }] }
  })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', structured: { n: 3 }, toolResult: { structuredContent: { n: 3 } } })
})
