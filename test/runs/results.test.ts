import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'
import { busy, createGate, playHost } from './busy-run.ts'

const text = (value: string): object[] => [{ type: 'text', text: value }]
const run = (...script: object[]): object => ({ task: 'a', agentOptions: { script } })
const resultOf = async (service: Service, body: object): Promise<{ [key: string]: unknown, toolResult: { content: { text: string }[] } }> =>
  await service.result((await service.start(body)).id)

test('5 a result is 200 once the run is settled: output, usage and what to relay', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ say: 'hi there', usage: { inputTokens: 7, outputTokens: 2 } }))
  const result = await service.result(id)
  expect(result).toEqual({
    runId: id, stopReason: 'completed', output: text('hi there'), structured: null, diagnostic: null, error: null,
    usage: { inputTokens: 7, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 2, reasoningTokens: 0, steps: 1 },
    toolResult: { isError: false, content: text('hi there') }
  })
})

test('5 until then it is 202 with the status and Retry-After', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ hang: true }))
  const answer = await service.call('GET', `/v1/runs/${id}/result`)
  expect([answer.status, answer.body]).toEqual([202, { runId: id, status: 'running', pendingToolCalls: [] }])
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('2.2 `wait` holds the answer until the result is there, and 202 comes when time is up', async () => {
  const gate = createGate()
  const service = await startService(onTestFinished, { tools: [gate.tool] })
  const { id } = await service.start(run(gate.step, { say: 'done' }))
  expect((await service.call('GET', `/v1/runs/${id}/result?wait=0`)).status).toBe(202)
  const early = await service.call('GET', `/v1/runs/${id}/result?wait=1`)
  expect([early.status, early.body.status]).toEqual([202, 'running'])
  const waiting = Promise.all(Array.from({ length: 20 }, () => service.call('GET', `/v1/runs/${id}/result?wait=20`)))
  gate.open()
  for (const answer of await waiting) expect([answer.status, answer.body.output]).toEqual([200, text('done')])
})

test('2.2 `wait` ends when the run waits for its host: 202 with the calls', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  const { status, body } = await service.call('GET', `/v1/runs/${id}/result?wait=20`)
  expect([status, body]).toEqual([202, {
    runId: id, status: 'waiting',
    pendingToolCalls: [{ toolCallId: expect.any(String), name: 'read_file', input: { path: 'a' }, deadline: expect.stringMatching(/Z$/) }]
  }])
  await playHost(service, id)
})

test('a status is told only once it is committed: who waits reads the same afterwards', async () => {
  const service = await startService(onTestFinished)
  for (let n = 0; n < 10; n++) {
    const { id } = await service.start(busy())
    const waiting = await service.call('GET', `/v1/runs/${id}/result?wait=20`)
    expect(waiting.body.status).toBe('waiting')
    expect((await service.call('GET', `/v1/runs/${id}`)).body.status).toBe('waiting')
    await playHost(service, id)
    expect((await service.app.store.getRun('default', id))?.status).toBe('settled')
  }
})

test('who waits leaves no listener', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ hang: true }))
  const { registry } = service.app
  const real = registry.watchRoot
  let open = 0
  registry.watchRoot = (...args) => {
    const stop = real(...args)
    open++
    return () => { open--; stop() }
  }
  await service.call('GET', `/v1/runs/${id}/result?wait=1`)
  const left = new AbortController()
  const leaving = fetch(`${service.url}/v1/runs/${id}/result?wait=20`, { signal: left.signal })
  await expect.poll(() => open).toBe(1)
  left.abort()
  await expect(leaving).rejects.toThrow()
  await expect.poll(() => open).toBe(0)
  await service.call('POST', `/v1/runs/${id}/cancel?wait=5`, {})
  expect(open).toBe(0)
})

test('404 for a run that is not, or no more', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ say: 'x' }))
  await service.result(id)
  await service.call('DELETE', `/v1/runs/${id}`)
  for (const path of ['', '/result', '/result?wait=5', '/tree', '/events']) {
    expect((await service.call('GET', `/v1/runs/${id}${path}`)).body).toMatchObject({ status: 404, code: 'RUN_NOT_FOUND', detail: `no run "${id}"` })
  }
})

test('12 a completed run says its text and nothing else, an empty one nothing', async () => {
  const service = await startService(onTestFinished)
  expect(await resultOf(service, run({ reasoning: 'hm', say: 'a' }))).toMatchObject({ toolResult: { isError: false, content: text('a') } })
  expect(await resultOf(service, run({ say: '' }))).toMatchObject({ stopReason: 'completed', output: [], toolResult: { isError: false, content: [] } })
})

test('12 an aborted run', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ hang: true }))
  await service.call('POST', `/v1/runs/${id}/cancel?wait=5`, { reason: 'enough' })
  expect(await service.result(id)).toMatchObject({ stopReason: 'aborted', error: null, toolResult: { isError: true, content: text('Error: subagent run was cancelled') } })
})

test('12 an aborted run with text so far', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ say: 'half of it', hang: true }))
  await service.call('POST', `/v1/runs/${id}/cancel?wait=5`, {})
  expect((await service.result(id)).toolResult.content).toEqual(text('Error: subagent run was cancelled\nPartial output before the run ended:\nhalf of it'))
})

test('12 a failed run, with its diagnostic and the text so far', async () => {
  const service = await startService(onTestFinished)
  const failed = await resultOf(service, run({ fail: { code: 'MODEL_AUTH', message: 'bad key' } }))
  expect(failed).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_AUTH', retryable: false }, toolResult: { isError: true } })
  expect(failed.toolResult.content[0]?.text).toMatch(/^Error: subagent run failed\nDiagnostic: /)
  const reset = await resultOf(service, run({ reset: { after: 'so far' } }))
  expect(reset.toolResult.content[0]?.text).toMatch(/^Error: subagent run failed\nDiagnostic: .*\nPartial output before the run ended:\nso far$/)
})

test('12 a limit is a failure with `<limit> <n> reached`', async () => {
  const service = await startService(onTestFinished)
  const result = await resultOf(service, { ...busy({ tools: [] }), limits: { steps: 1 } })
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_STEPS', message: 'steps 1 reached' }, diagnostic: 'steps 1 reached' })
  expect(result.toolResult.content[0]?.text).toContain('Diagnostic: steps 1 reached')
})

test('12 a run at its token cap, and one that declined', async () => {
  const service = await startService(onTestFinished)
  expect(await resultOf(service, run({ maxTokens: 'cut of' }))).toMatchObject({
    stopReason: 'max-tokens', error: null,
    toolResult: { isError: true, content: text('Error: subagent run hit its token limit before finishing\nPartial output before the run ended:\ncut of') }
  })
  expect(await resultOf(service, run({ refuse: '' }))).toMatchObject({
    stopReason: 'refusal', toolResult: { isError: true, content: text('Error: subagent declined the task') }
  })
  expect((await resultOf(service, run({ refuse: 'I must not' }))).toolResult.content).toEqual(
    text('Error: subagent declined the task\nPartial output before the run ended:\nI must not'))
})

test('5.1 a structured result is its JSON alone, and `structuredContent`; other output stays in `output`', async () => {
  const service = await startService(onTestFinished)
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const body = { ...run({ say: 'I count', call: { name: 'structured_output', input: { n: 3 } } }), outputSchema }
  expect(await resultOf(service, body)).toMatchObject({
    structured: { n: 3 }, output: text('I count'), toolResult: { isError: false, content: text('{"n":3}'), structuredContent: { n: 3 } }
  })
  const without = await resultOf(service, { ...run({ say: 'no call' }), outputSchema })
  expect(without).toMatchObject({ stopReason: 'error', structured: null, error: { code: 'NO_STRUCTURED_OUTPUT' } })
})

test('a settled run shows the same stop reason, error and usage as its result', async () => {
  const service = await startService(onTestFinished)
  for (const script of [[{ say: 'x' }], [{ fail: { code: 'MODEL_AUTH' } }], [{ refuse: 'no' }]]) {
    const { id } = await service.start(run(...script))
    const result = await service.result(id)
    const { body } = await service.call('GET', `/v1/runs/${id}`)
    expect(body).toMatchObject({ status: 'settled', stopReason: result.stopReason, error: result.error, usage: result.usage, pendingToolCalls: [] })
    expect(Date.parse(body.settledAt)).toBeGreaterThanOrEqual(Date.parse(body.createdAt))
    expect(Date.parse(body.expiresAt)).toBeGreaterThan(Date.parse(body.settledAt))
  }
})

test('`wait` and formats are checked by name', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(run({ say: 'x' }))
  for (const [query, pointer] of [['wait=x', '/wait'], ['wait=-1', '/wait'], ['wait=1.5', '/wait'], ['format=xml', '/format'], ['toolCallId=', '/toolCallId'], ['a=b', '/a']]) {
    const { status, body } = await service.call('GET', `/v1/runs/${id}/result?${query}`)
    expect([query, status, body.code, body.errors?.[0]?.pointer]).toEqual([query, 400, 'INVALID_REQUEST', pointer])
  }
})
