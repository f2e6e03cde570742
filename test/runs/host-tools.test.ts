import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { callsAll, says } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { makeFolder, startService, type Answer, type Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

const tools = ['read', 'write'].map(
  (name) => ({ name, inputSchema: { type: 'object', properties: { path: { type: 'string' } } } })
)
/** A run that makes these calls in one message and then says so. */
const calling = (calls: object[], more: object = {}): object =>
  ({ task: 'a', tools, agentOptions: { script: [{ calls }, { say: 'done' }] }, ...more })
const reads = (...paths: string[]): object[] => paths.map((path) => ({ name: 'read', input: { path } }))
const waiting = { prefer: 'wait=20' }

type Result = { toolCallId: string, content: unknown, isError?: boolean }
const answer = (service: Service, id: string, ...results: Result[]): Promise<Answer> =>
  service.call('POST', `/v1/runs/${id}/tool-results`, { results })
const callIds = ({ pendingToolCalls }: Answer['body']): string[] =>
  pendingToolCalls.map((call: { toolCallId: string }) => call.toolCallId)
const pending = async (service: Service, id: string): Promise<string[]> =>
  callIds((await service.call('GET', `/v1/runs/${id}`)).body)
/** The run's result, however often it waits for its host before. */
const finished = async (service: Service, id: string): Promise<unknown> => {
  await service.app.registry.live('default', id)?.result
  return await service.result(id)
}
const resultsOf = (log: readonly SessionEvent[]): unknown[] => log.filter(
  (event) => event.type === 'tool/result'
).map(({ data }) => data)

test('7.1 a call puts the run in waiting and lists it with its parsed input, a unique id and its deadline', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(calling([
    { id: 'same', name: 'read', input: { path: 'a' } }, { id: 'same', name: 'write', arguments: '{"path": "b"}' }
  ], { limits: { toolTimeoutMs: 60_000 } }), waiting)
  expect(run).toMatchObject(
    { status: 'waiting', pendingToolCalls: [{ name: 'read', input: { path: 'a' } }, { name: 'write', input: { path: 'b' } }] }
  )
  expect(new Set(callIds(run)).size).toBe(2)
  const events = (
    await service.call('GET', `/v1/runs/${run.id}/events`)
  ).body.events.filter((event: SessionEvent) => event.type === 'tool/call')
  expect(events).toMatchObject(run.pendingToolCalls.map((call: object) => ({ data: { ...call, executor: 'host' } })))
  for (const { deadline } of run.pendingToolCalls) expect(
    Date.parse(deadline) - Date.parse(run.createdAt)
  ).toBeGreaterThanOrEqual(60_000)
  expect((await service.call('GET', `/v1/runs/${run.id}/result`)).body).toEqual(
    { runId: run.id, status: 'waiting', pendingToolCalls: run.pendingToolCalls }
  )
  expect((await service.call('GET', '/v1/runs?status=waiting')).body.runs).toHaveLength(1)
})

test('7.1 arguments that do not fit the tool\'s schema never reach the host', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(
    calling([{ name: 'read', input: { path: 5 } }, { name: 'write', arguments: '{"path": ' }]), waiting
  )
  expect(run).toMatchObject({ status: 'settled', stopReason: 'completed' })
  const results = resultsOf(await service.log(run.id)) as { content: { text: string }[] }[]
  expect(results.map(({ content }) => content[0]?.text)).toEqual([
    expect.stringMatching(/^Error: invalid arguments: .*path/), expect.stringMatching(/^Error: invalid arguments: /)
  ])
})

test('7.1 descendants do not get the host\'s tools', async () => {
  const service = await startService(onTestFinished)
  const parent = await service.start(calling(reads('a')), waiting)
  const child = await service.start(
    {
      task: 'b', parent: { runId: parent.id }, agentOptions: { script: [{ call: { name: 'read', input: {} } }, { say: 'none' }] }
    },
    waiting
  )
  expect(child).toMatchObject({ status: 'settled', stopReason: 'completed' })
  expect(resultsOf(await service.log(child.id))).toMatchObject(
    [{ content: [{ text: 'Error: unknown tool "read"' }], isError: true }]
  )
})

test('7.2 answers come one by one or together, and the step goes on when all are in, in the model\'s order', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(calling(reads('a', 'b', 'c')), waiting)
  const [a, b, c] = callIds(run) as [string, string, string]
  const first = await answer(service, run.id, { toolCallId: c, content: 'C' })
  expect(first).toMatchObject({ status: 200, body: { id: run.id, status: 'waiting' } })
  expect(callIds(first.body)).toEqual([a, b])
  const rest = await answer(
    service, run.id, { toolCallId: b, content: [{ type: 'text', text: 'B' }], isError: true }, { toolCallId: a, content: [] }
  )
  expect(rest.body.pendingToolCalls).toEqual([])
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  expect(resultsOf(await service.log(run.id))).toMatchObject([
    { toolCallId: c, content: [{ type: 'text', text: 'C' }], isError: false },
    { toolCallId: b, content: [{ type: 'text', text: 'B' }], isError: true },
    { toolCallId: a, content: [], isError: false }
  ])
})

test('7.2 a request is all or nothing: one answer that cannot be taken keeps all of them out', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(calling(reads('a', 'b')), waiting)
  const [a, b] = callIds(run) as [string, string]
  const refused = await answer(service, run.id, { toolCallId: a, content: 'A' }, { toolCallId: 'nobody', content: 'x' })
  expect(refused).toMatchObject({ status: 409, body: { code: 'TOOL_CALL_NOT_PENDING', reason: 'unknown', toolCallId: 'nobody' } })
  expect(await pending(service, run.id)).toEqual([a, b])
  expect(resultsOf(await service.log(run.id))).toEqual([])
  expect((await answer(service, run.id, { toolCallId: a, content: 'A' }, { toolCallId: a, content: 'A' })).status).toBe(400)
  expect(await pending(service, run.id)).toEqual([a, b])
})

test('7.2 the same answer again is 200 and changes nothing, while the run goes on and once it settled', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(calling(reads('a', 'b')), waiting)
  const [a, b] = callIds(run) as [string, string]
  await answer(service, run.id, { toolCallId: a, content: 'A' })
  expect((await answer(service, run.id, { toolCallId: a, content: [{ type: 'text', text: 'A' }] })).status).toBe(200)
  expect((await answer(service, run.id, { toolCallId: a, content: 'A' }, { toolCallId: b, content: 'B' })).status).toBe(200)
  await service.result(run.id)
  expect((await answer(service, run.id, { toolCallId: b, content: 'B' }, { toolCallId: a, content: 'A' })).status).toBe(200)
  expect(resultsOf(await service.log(run.id))).toHaveLength(2)
})

test('7.2 another answer is 409 with the reason: answered, cancelled, expired or unknown', async () => {
  const service = await startService(onTestFinished)
  const reason = async (id: string, ...results: Result[]): Promise<unknown> => {
    const { status, body } = await answer(service, id, ...results)
    return { status, code: body.code, reason: body.reason, relays: body.toolResult.content[0].text }
  }
  const refused = (toolCallId: string, why: string): object => ({
    status: 409, code: 'TOOL_CALL_NOT_PENDING', reason: why, relays: `Error: tool call "${toolCallId}" is not pending: ${why}`
  })
  const run = await service.start(calling(reads('a', 'b')), waiting)
  const [a, b] = callIds(run) as [string, string]
  await answer(service, run.id, { toolCallId: a, content: 'A' })
  expect(await reason(run.id, { toolCallId: a, content: 'other' })).toEqual(refused(a, 'answered'))
  expect(await reason(run.id, { toolCallId: a, content: 'A', isError: true })).toEqual(refused(a, 'answered'))
  expect(await reason(run.id, { toolCallId: 'x', content: 'A' })).toEqual(refused('x', 'unknown'))
  await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
  expect(await reason(run.id, { toolCallId: b, content: 'B' })).toEqual(refused(b, 'cancelled'))
  expect(await reason(run.id, { toolCallId: a, content: 'other' })).toEqual(refused(a, 'answered'))
  const late = await service.start(calling(reads('a'), { limits: { toolTimeoutMs: 30 } }), waiting)
  await finished(service, late.id)
  const [c] = (await service.log(late.id)).filter(
    (event) => event.type === 'tool/call'
  ).map(({ data }) => data.toolCallId) as [string]
  expect(await reason(late.id, { toolCallId: c, content: 'C' })).toEqual(refused(c, 'expired'))
})

test('7.2 past toolTimeoutMs the model is told so, and the run goes on', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(calling(reads('a', 'b'), { limits: { toolTimeoutMs: 900 } }), waiting)
  const [a] = callIds(run) as [string]
  await answer(service, run.id, { toolCallId: a, content: 'A' })
  expect(await finished(service, run.id)).toMatchObject({ stopReason: 'completed' })
  expect(resultsOf(await service.log(run.id))).toMatchObject([
    { content: [{ text: 'A' }], isError: false }, {
      content: [{ text: 'Error: tool call timed out after 900 ms' }], isError: true, ended: 'expired'
    }
  ])
})

test('7.2 answer against timeout: one wins, and the host is told which', async () => {
  const service = await startService(onTestFinished)
  await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const run = await service.start(calling(reads('a'), { limits: { toolTimeoutMs: 20 + i } }))
    const poll = await service.call('GET', `/v1/runs/${run.id}/result?wait=20`)
    const [call] = poll.body.pendingToolCalls ?? []
    if (call === undefined) return
    const { status, body } = await answer(service, run.id, { toolCallId: call.toolCallId, content: 'A' })
    await finished(service, run.id)
    const [result] = resultsOf(await service.log(run.id)) as [{ isError: boolean, ended?: string }]
    expect(resultsOf(await service.log(run.id))).toHaveLength(1)
    if (status === 200) expect(result).toMatchObject({ isError: false })
    else expect({ status, reason: body.reason, result }).toMatchObject(
      { status: 409, reason: 'expired', result: { isError: true, ended: 'expired' } }
    )
  }))
})

test('7.1, 8.3 a run that waits for its host holds no slot, and takes one again to go on', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1' } })
  const host = await service.start(calling(reads('a')), waiting)
  expect(host.status).toBe('waiting')
  const other = await service.start({ task: 'b', agentOptions: { script: [{ delayMs: 80, say: 'b' }] } })
  expect(other.status).toBe('running')
  const [a] = callIds(host) as [string]
  await answer(service, host.id, { toolCallId: a, content: 'A' })
  expect((await service.call('GET', `/v1/runs/${host.id}/result`)).status).toBe(202)
  await service.result(host.id)
  const [first, second] = [await service.call('GET', `/v1/runs/${other.id}`), await service.call('GET', `/v1/runs/${host.id}`)]
  expect(Date.parse(first.body.settledAt)).toBeLessThanOrEqual(Date.parse(second.body.settledAt))
})

test('7.1 host and service calls of one message run side by side', async () => {
  const here = serviceTool('here', () => 'from here')
  const service = await startService(onTestFinished, { tools: [here] })
  const run = await service.start(calling([{ name: 'read', input: {} }, { name: 'here' }, { name: 'write', input: {} }]), waiting)
  await here.began()
  const [a, b] = callIds(run) as [string, string]
  expect(run).toMatchObject({ status: 'waiting', pendingToolCalls: [{ name: 'read' }, { name: 'write' }] })
  await answer(service, run.id, { toolCallId: b, content: 'B' }, { toolCallId: a, content: 'A' })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed' })
  expect(here.inputs).toHaveLength(1)
  expect(resultsOf(await service.log(run.id))).toHaveLength(3)
})

test('7.2 a restart in between loses neither calls nor answers, and deadlines stand', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const first = await startService(onTestFinished, { env })
  const run = await first.start(calling(reads('a', 'b', 'c'), { limits: { toolTimeoutMs: 60_000 } }), waiting)
  const [a, b, c] = callIds(run) as [string, string, string]
  await answer(first, run.id, { toolCallId: b, content: 'B' })
  expect(await first.stop()).toBe(1)
  const second = await startService(onTestFinished, { env })
  const again = (await second.call('GET', `/v1/runs/${run.id}`)).body
  expect(again).toMatchObject({ status: 'waiting', pendingToolCalls: [run.pendingToolCalls[0], run.pendingToolCalls[2]] })
  expect((await answer(second, run.id, { toolCallId: b, content: 'B' })).status).toBe(200)
  expect(
    await answer(second, run.id, { toolCallId: b, content: 'X' })
  ).toMatchObject({ status: 409, body: { reason: 'answered' } })
  await answer(second, run.id, { toolCallId: a, content: 'A' })
  await second.stop()
  const third = await startService(onTestFinished, { env })
  expect(await pending(third, run.id)).toEqual([c])
  await third.stop()
  const fourth = await startService(onTestFinished, { env })
  await fourth.stop()
  const fifth = await startService(onTestFinished, { env })
  await answer(fifth, run.id, { toolCallId: c, content: 'C' })
  expect(await fifth.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  const texts = (
    resultsOf(await fifth.log(run.id)) as { toolCallId: string, content: { text: string }[] }[]
  ).map(({ toolCallId, content }) => [toolCallId, content[0]?.text])
  expect(texts).toEqual([[b, 'B'], [a, 'A'], [c, 'C']])
})

test('7.1 a call whose id no host could send back gets one that it can', async () => {
  const ids = ['x'.repeat(5000), 'a\u0000b', '\ud800', '']
  const answers = [callsAll(ids.map((id) => ({ id, name: 'ask', input: {} }))), says('done')]
  const models = await startFakeModelServer(onTestFinished, { answers })
  const service = await startService(onTestFinished, { env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m' } })
  const run = await service.start({ task: 'a', tools: [{ name: 'ask', description: 'asks', inputSchema: { type: 'object' } }] }, { prefer: 'wait=10' })
  const results = run.pendingToolCalls.map(({ toolCallId }: { toolCallId: string }) => ({ toolCallId, content: 'ok' }))
  expect(results).toHaveLength(4)
  expect((await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results })).status).toBe(200)
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed' })
})
