import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { hold } from '../support/hold.ts'
import { startService, type Service } from '../support/service.ts'
import { named, readEvents } from '../support/sse.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const says = (say: string, more: object = {}): object => ({ task: 'speak', agentOptions: { script: [{ say }] }, ...more })

const nothing = async (service: Service): Promise<void> => {
  expect((await service.call('GET', '/v1/runs')).body).toEqual({ runs: [], nextCursor: null })
}

test('2.1 a plain start answers 201 with the run, which is stored and visible by then', async () => {
  const service = await startService(onTestFinished)
  const { status, headers, body } = await service.call('POST', '/v1/runs', { ...hang, label: 'one', metadata: { team: 'a' } })
  expect(status).toBe(201)
  expect(headers.get('location')).toBe(`/v1/runs/${body.id}`)
  expect(body).toMatchObject({
    sessionId: body.id, continues: null, provider: 'spawn', label: 'one', status: 'running', stopReason: null, error: null,
    depth: 1,
    parent: { runId: null, sessionId: null }, rootId: body.id, model: 'scripted/demo', seed: { turns: 0, events: 0 }, notices: [],
    settledAt: null, expiresAt: null, cancel: null, pendingToolCalls: [], runningChildren: 0, metadata: { team: 'a' },
    links: {
      self: `/v1/runs/${body.id}`, result: `/v1/runs/${body.id}/result`, events: `/v1/runs/${body.id}/events`,
      cancel: `/v1/runs/${body.id}/cancel`
    }
  })
  expect(body.usage).toEqual(
    { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0, steps: 0 }
  )
  expect((await service.call('GET', `/v1/runs/${body.id}`)).body).toEqual(body)
  expect((await service.call('GET', `/v1/runs/${body.id}/result`)).status).toBe(202)
})

test('2.1 whatever refuses a start comes before anything of it is stored, and its id stays free', async () => {
  const service = await startService(onTestFinished)
  const id = randomUUID()
  const refused: [body: object, status: number, code: string][] = [
    [{ provider: 'nobody' }, 422, 'NO_PROVIDER'],
    [{ maxDepth: 0 }, 422, 'DEPTH_EXCEEDED'],
    [{ agentOptions: { model: 'nowhere/none' } }, 422, 'MODEL_UNKNOWN'],
    [{ toolFilter: { allow: ['nothing'] } }, 422, 'TOOL_FILTER_INVALID'],
    [{ parent: { runId: randomUUID() } }, 404, 'RUN_NOT_FOUND'],
    [{ parent: { sessionId: randomUUID() } }, 404, 'SESSION_NOT_FOUND'],
    [{ tools: [{ name: 'structured_output' }] }, 422, 'TOOL_NAME_TAKEN'],
    [{ outputSchema: { type: 'object', properties: { a: { type: 'whatever' } } } }, 422, 'UNSUPPORTED_SCHEMA']
  ]
  for (const [more, status, code] of refused) {
    const answer = await service.call('POST', '/v1/runs', { id, task: 'a', ...more })
    expect({ more, status: answer.status, code: answer.body.code }).toEqual({ more, status, code })
    expect(answer.body.toolResult).toEqual({ isError: true, content: [{ type: 'text', text: `Error: ${answer.body.detail}` }] })
  }
  await nothing(service)
  expect(service.app.registry.count('default')).toBe(0)
  expect((await service.start({ id, task: 'a' })).id).toBe(id)
})

test('2.1 a store that cannot take the publication leaves no run, no place in the queue and a free id', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1' } })
  const id = randomUUID()
  const { publish } = service.app.store
  service.app.store.publish = async () => { throw new Error('disk on fire') }
  const { status, body } = await service.call('POST', '/v1/runs', { ...hang, id })
  expect({ status, body }).toMatchObject({ status: 500, body: { code: 'INTERNAL', detail: 'internal error' } })
  service.app.store.publish = publish
  await nothing(service)
  expect(await service.start({ ...hang, id })).toMatchObject({ id, status: 'running' })
})

test('2.2 a waiting start answers with the result once there is one', async () => {
  const service = await startService(onTestFinished)
  const { status, headers, body } = await service.call(
    'POST', '/v1/runs', says('done', { format: 'openai-chat', toolCallId: 'c1' }), { prefer: 'wait=30' }
  )
  expect({ status, applied: headers.get('preference-applied'), location: headers.get('location') })
    .toEqual({ status: 201, applied: 'wait=30', location: `/v1/runs/${body.id}` })
  expect(body).toMatchObject(
    { status: 'settled', stopReason: 'completed', result: { relay: { role: 'tool', tool_call_id: 'c1', content: 'done' } } }
  )
  expect((await service.call('GET', `/v1/runs/${body.id}/result`)).body).toEqual(body.result)
})

test('2.2 a waiting start answers 201 without a result when time is up, and its wait is cut to MAX_WAIT_SECONDS', async () => {
  const service = await startService(onTestFinished, { env: { MAX_WAIT_SECONDS: '1' } })
  const start = await service.call('POST', '/v1/runs', hang, { prefer: 'respond-async, wait=3600' })
  expect({ status: start.status, applied: start.headers.get('preference-applied'), run: start.body })
    .toMatchObject({ status: 201, applied: 'wait=1', run: { status: 'running' } })
  expect(start.body).not.toHaveProperty('result')
  const now = await service.call('POST', '/v1/runs', hang, { prefer: 'wait=0' })
  expect(now).toMatchObject({ status: 201, body: { status: 'running' } })
})

test('2.2 a waiting start answers as soon as the run waits for its host', async () => {
  const service = await startService(onTestFinished)
  const script = [{ call: { name: 'ask', input: {} } }, { say: 'thanks' }]
  const run = await service.start({ task: 'a', tools: [{ name: 'ask' }], agentOptions: { script } }, { prefer: 'wait=30' })
  expect(run).toMatchObject({ status: 'waiting', pendingToolCalls: [{ name: 'ask', input: {} }] })
  const results = [{ toolCallId: run.pendingToolCalls[0].toolCallId, content: 'here' }]
  const { body, headers } = await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results }, { prefer: 'wait=30' })
  expect(headers.get('preference-applied')).toBe('wait=30')
  expect(body).toMatchObject({ status: 'settled', result: { output: [{ type: 'text', text: 'thanks' }] } })
})

test('2.3 a streaming start sends its events to the end, and a refusal is problem JSON all the same', async () => {
  const service = await startService(onTestFinished)
  const reader = await readEvents(
    service, '/v1/runs',
    { method: 'POST', body: { task: 'speak', agentOptions: { script: [{ slow: { text: 'one two', delayMs: 10 } }] } } }
  )
  expect({ status: reader.status, type: reader.headers.get('content-type'), location: reader.headers.get('location') })
    .toMatchObject(
      { status: 201, type: expect.stringMatching(/^text\/event-stream/), location: expect.stringMatching(/^\/v1\/runs\//) }
    )
  const events = await reader.all()
  expect(events[0]).toMatchObject({ event: 'run', data: { runId: expect.any(String) } })
  // The message itself may overtake its last deltas.
  expect('one two').toContain(named(events, 'delta').map(({ data }) => data.data.text).join(''))
  expect(named(events, 'assistant/message')).toMatchObject([{ data: { data: { content: [{ text: 'one two' }] } } }])
  expect(events.at(-1)).toMatchObject(
    { event: 'settled', data: { data: { stopReason: 'completed', output: [{ text: 'one two' }] } } }
  )
  const refused = await service.call('POST', '/v1/runs', { task: 'a', provider: 'nobody' }, { accept: 'text/event-stream' })
  expect(refused.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(refused).toMatchObject(
    { status: 422, body: { code: 'NO_PROVIDER', detail: 'no subagent provider registered for "nobody"' } }
  )
})

test('2.5 the limit of a tree holds for all of it, and a child can only tighten it', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ ...hang, limits: { treeRuns: 3 } })
  const child = await service.start({ ...hang, parent: { runId: root.id }, limits: { treeRuns: 1000 } })
  await service.start({ ...hang, parent: { runId: child.id } })
  const refused = await service.call('POST', '/v1/runs', { ...hang, parent: { runId: root.id }, limits: { treeRuns: 1000 } })
  expect(refused).toMatchObject({ status: 422, body: { code: 'TREE_LIMIT', detail: 'subagent tree exceeds 3 runs' } })
  const tight = await service.start({ ...hang, limits: { treeRuns: 5 } })
  const tighter = await service.start({ ...hang, parent: { runId: tight.id }, limits: { treeRuns: 2 } })
  expect(
    await service.call('POST', '/v1/runs', { ...hang, parent: { runId: tighter.id } })
  ).toMatchObject({ status: 422, body: { code: 'TREE_LIMIT' } })
})

test('2.5 two starts at once cannot both take the last place of a tree', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ ...hang, limits: { treeRuns: 2 } })
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => service.call('POST', '/v1/runs', { ...hang, parent: { runId: root.id } }))
  )
  expect([201, 422].map((status) => answers.filter((each) => each.status === status).length)).toEqual([1, 4])
})

test('2.5 usage is the run\'s own, treeUsage with all its descendants', async () => {
  const service = await startService(onTestFinished)
  const used = (inputTokens: number, outputTokens: number): object =>
    ({ task: 'a', agentOptions: { script: [{ say: 'x', usage: { inputTokens, outputTokens } }] } })
  const root = await service.start(used(10, 1), { prefer: 'wait=10' })
  const child = await service.start({ ...used(20, 2), parent: { runId: root.id } }, { prefer: 'wait=10' })
  await service.start({ ...used(40, 4), parent: { runId: child.id } }, { prefer: 'wait=10' })
  const { body } = await service.call('GET', `/v1/runs/${root.id}`)
  expect(body).toMatchObject(
    { usage: { inputTokens: 10, outputTokens: 1, steps: 1 }, treeUsage: { inputTokens: 70, outputTokens: 7, steps: 3 } }
  )
  expect((await service.call('GET', `/v1/runs/${child.id}`)).body.treeUsage).toMatchObject({ inputTokens: 60, outputTokens: 6 })
})

test('2.5 timeoutMs runs from publication, the time in the queue included', async () => {
  const service = await startService(onTestFinished, { env: { MAX_RUNNING: '1' } })
  await service.start(hang)
  const queued = await service.start({ ...hang, limits: { timeoutMs: 40 } })
  expect(queued.status).toBe('queued')
  expect(await service.result(queued.id)).toMatchObject(
    { stopReason: 'error', output: [], error: { code: 'LIMIT_TIME', message: 'timeoutMs 40 reached' } }
  )
})

test('2.6 a start with an id can be cancelled while it starts: 202, then 409 START_ABORTED, and 404 all along', async () => {
  const service = await startService(onTestFinished)
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  const id = randomUUID()
  const held = hold(service.app.store, 'getSession')
  const start = service.call('POST', '/v1/runs', { ...hang, id, parent: { sessionId: session.id } })
  await held.reached
  expect((await service.call('GET', `/v1/runs/${id}`)).status).toBe(404)
  expect(await service.call('POST', '/v1/runs', { ...hang, id })).toMatchObject({ status: 409, body: { code: 'RUN_EXISTS' } })
  const cancelled = await service.call('POST', `/v1/runs/${id.toUpperCase()}/cancel`, { reason: 'changed my mind' })
  expect(cancelled).toMatchObject({ status: 202, body: { id, status: 'starting' } })
  held.release()
  expect(await start).toMatchObject({ status: 409, body: { code: 'START_ABORTED', retryable: false } })
  expect((await service.call('GET', `/v1/runs/${id}`)).status).toBe(404)
  await nothing(service)
  expect(service.app.registry.startingRuns()).toEqual([])
  expect((await service.start({ ...hang, id })).id).toBe(id)
})

test('2.6 a cancellation while the publication is being written finds the run: 200, no 202 that comes to nothing', async () => {
  const service = await startService(onTestFinished)
  const id = randomUUID()
  const held = hold(service.app.store, 'publish')
  const start = service.call('POST', '/v1/runs', { ...hang, id })
  await held.reached
  const cancel = service.call('POST', `/v1/runs/${id}/cancel?wait=10`, { reason: 'too late to refuse' })
  held.release()
  expect((await start).status).toBe(201)
  expect(await cancel).toMatchObject(
    {
      status: 200, body: { id, status: 'settled', stopReason: 'aborted', cancel: { reason: 'too late to refuse', by: 'request' } }
    }
  )
})

test('2.6 an id that is taken is refused, by a live run and by a settled one, and each tenant-wide', async () => {
  const service = await startService(onTestFinished)
  const id = randomUUID()
  await service.start({ ...hang, id })
  const taken = { status: 409, body: { code: 'RUN_EXISTS', detail: `a run with the id "${id}" exists already` } }
  expect(await service.call('POST', '/v1/runs', { ...hang, id: id.toUpperCase() })).toMatchObject(taken)
  await service.call('POST', `/v1/runs/${id}/cancel?wait=10`)
  expect(await service.call('POST', '/v1/runs', { ...hang, id })).toMatchObject(taken)
  const session = await service.call('POST', '/v1/sessions', {})
  expect(
    await service.call('POST', '/v1/runs', { ...hang, id: session.body.id })
  ).toMatchObject({ status: 409, body: { code: 'RUN_EXISTS' } })
  await service.call('DELETE', `/v1/runs/${id}`)
  expect((await service.start({ ...hang, id })).id).toBe(id)
})

test('2.7 a parent whose cancellation was asked refuses starts; one that only settled can be forked', async () => {
  const service = await startService(onTestFinished)
  const done = await service.start(says('first'), { prefer: 'wait=10' })
  const fork = await service.start({ provider: 'fork', task: 'and now', parent: { runId: done.id } })
  expect(fork).toMatchObject({ depth: 2, parent: { runId: done.id, sessionId: done.id }, rootId: done.id, seed: { turns: 1 } })
  const cancelled = await service.start(hang)
  await service.call('POST', `/v1/runs/${cancelled.id}/cancel?wait=10`)
  for (const parent of [{ runId: cancelled.id }, { sessionId: cancelled.id }]) {
    for (const provider of ['spawn', 'fork']) {
      const refused = await service.call('POST', '/v1/runs', { provider, task: 'a', parent })
      expect(refused).toMatchObject(
        { status: 409, body: { code: 'PARENT_ABORTED', detail: `parent run "${cancelled.id}" was cancelled` } }
      )
    }
  }
})

test('§2 a start that names no provider means spawn, whatever the configuration calls it', async () => {
  const service = await startService(onTestFinished, { yaml: 'providers: { spawn: { providerName: sub } }' })
  expect(await service.start({ task: 'a' })).toMatchObject({ provider: 'sub' })
})
