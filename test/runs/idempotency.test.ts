import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { hold } from '../support/hold.ts'
import { makeFolder, startService, type Service } from '../support/service.ts'
import { ask, nextLoss } from '../support/socket.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const key = (value: string, more: Record<string, string> = {}): Record<string, string> => ({ 'idempotency-key': value, ...more })
const replayed = (answer: { headers: Headers }): string | null => answer.headers.get('idempotency-replayed')
const ids = async (service: Service): Promise<string[]> => {
  const { body } = await service.call('GET', '/v1/runs?limit=200')
  return body.runs.map((run: { id: string }) => run.id)
}

/** A start that waits before its publication, for as long as the test wants. */
async function slowStart (service: Service): Promise<{ body: object, held: ReturnType<typeof hold> }> {
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  return { body: { ...hang, parent: { sessionId: session.id } }, held: hold(service.app.store, 'getSession') }
}

test('2.4 the same key and body is the same run: 200, Idempotency-Replayed, its present state', async () => {
  const service = await startService(onTestFinished)
  const body = { task: 'a', metadata: { a: '1', b: '2' }, agentOptions: { script: [{ say: 'hi' }] } }
  const first = await service.call('POST', '/v1/runs', body, key('k', { prefer: 'wait=10' }))
  expect({ status: first.status, replayed: replayed(first) }).toEqual({ status: 201, replayed: null })
  const again = await service.call('POST', '/v1/runs', body, key('k'))
  expect({ status: again.status, replayed: replayed(again), location: again.headers.get('location') })
    .toEqual({ status: 200, replayed: 'true', location: `/v1/runs/${first.body.id}` })
  expect(again.body).toMatchObject({ id: first.body.id, status: 'settled', result: { output: [{ text: 'hi' }] } })
  expect(await ids(service)).toEqual([first.body.id])
})

test('2.4 bodies are compared as JSON values, whatever their text', async () => {
  const service = await startService(onTestFinished)
  const first = await service.call('POST', '/v1/runs', '{"task":"\\u0061b","maxDepth":2,"metadata":{"x":"1","y":"2"}}', key('k'))
  const again = await service.call(
    'POST', '/v1/runs', '{ "metadata": {"y":"2", "x":"1"},\n "maxDepth": 2.0e0, "task": "ab" }', key('k')
  )
  expect([first.status, again.status, again.body.id]).toEqual([201, 200, first.body.id])
})

test('2.4 Prefer and Accept act anew on a replay', async () => {
  const service = await startService(onTestFinished)
  const body = { task: 'a', agentOptions: { script: [{ delayMs: 50, say: 'hi' }] } }
  const first = await service.call('POST', '/v1/runs', body, key('k'))
  expect(first.body.status).toBe('running')
  const waited = await service.call('POST', '/v1/runs', body, key('k', { prefer: 'wait=10' }))
  expect(waited).toMatchObject({ status: 200, body: { id: first.body.id, result: { output: [{ text: 'hi' }] } } })
  const streamed = await service.call('POST', '/v1/runs', body, key('k', { accept: 'text/event-stream' }))
  expect({ status: streamed.status, replayed: replayed(streamed) }).toEqual({ status: 200, replayed: 'true' })
  expect(streamed.text).toMatch(/^event: settled$/m)
})

test('2.4 another body under the key is 422 IDEMPOTENCY_MISMATCH, and nothing changes', async () => {
  const service = await startService(onTestFinished)
  const first = await service.call('POST', '/v1/runs', hang, key('k'))
  const other = await service.call('POST', '/v1/runs', { ...hang, label: 'x' }, key('k'))
  expect(other).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH', retryable: false } })
  expect(await ids(service)).toEqual([first.body.id])
})

test('2.4 a refusal binds nothing: the key is free for another body', async () => {
  const service = await startService(onTestFinished)
  expect((await service.call('POST', '/v1/runs', { ...hang, provider: 'nobody' }, key('k'))).status).toBe(422)
  expect((await service.call('POST', '/v1/runs', { ...hang, maxDepth: 0 }, key('k'))).status).toBe(422)
  expect((await service.call('POST', '/v1/runs', hang, key('k'))).status).toBe(201)
})

test('2.4 while the first is still starting the second waits for its run; another body is refused at once', async () => {
  const service = await startService(onTestFinished)
  const { body, held } = await slowStart(service)
  const first = service.call('POST', '/v1/runs', body, key('k'))
  await held.reached
  const second = service.call('POST', '/v1/runs', body, key('k'))
  expect(
    await service.call('POST', '/v1/runs', { ...body, label: 'x' }, key('k'))
  ).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } })
  held.release()
  const [one, two] = await Promise.all([first, second])
  expect([one.status, two.status, replayed(two), two.body.id]).toEqual([201, 200, 'true', one.body.id])
  expect(await ids(service)).toEqual([one.body.id])
})

test('2.4 when the first is refused while the second waits, the second is judged by itself', async () => {
  const service = await startService(onTestFinished)
  const { body, held } = await slowStart(service)
  const refused = { ...body, maxDepth: 0 }
  const first = service.call('POST', '/v1/runs', refused, key('k'))
  await held.reached
  const second = service.call('POST', '/v1/runs', refused, key('k'))
  held.release()
  expect([(await first).body.code, (await second).body.code]).toEqual(['DEPTH_EXCEEDED', 'DEPTH_EXCEEDED'])
  expect((await service.call('POST', '/v1/runs', body, key('k'))).status).toBe(201)
})

test('2.4, 3 the first one\'s client leaves before publication: the second makes the one run', async () => {
  const service = await startService(onTestFinished)
  const { body, held } = await slowStart(service)
  const lost = nextLoss(service)
  const first = ask(service, '/v1/runs', { body, headers: key('k') })
  await held.reached
  const second = service.call('POST', '/v1/runs', body, key('k'))
  const begun = service.app.registry.startingRuns()[0]
  first.leave()
  await lost
  held.release()
  const run = await second
  expect({ status: run.status, replayed: replayed(run) }).toEqual({ status: 201, replayed: null })
  expect(run.body.id).not.toBe(begun?.id)
  expect(await ids(service)).toEqual([run.body.id])
})

test('2.4, 3 a client that leaves while its publication is written finds its run going on when it comes again', async () => {
  const service = await startService(onTestFinished)
  const held = hold(service.app.store, 'publish')
  const lost = nextLoss(service)
  const first = ask(service, '/v1/runs', { body: hang, headers: key('k') })
  await held.reached
  first.leave()
  await lost
  held.release()
  const again = await service.call('POST', '/v1/runs', hang, key('k'))
  expect(again).toMatchObject({ status: 200, body: { status: 'running', cancel: null } })
})

test('2.4, 2.6 a start that somebody cancelled by its id is refused to all who wait for it under its key', async () => {
  const service = await startService(onTestFinished)
  const { body, held } = await slowStart(service)
  const named = { ...body, id: randomUUID() }
  const first = service.call('POST', '/v1/runs', named, key('k'))
  await held.reached
  const second = service.call('POST', '/v1/runs', named, key('k'))
  // The second is known to wait once a third with another body is refused because of the first.
  expect((await service.call('POST', '/v1/runs', hang, key('k'))).status).toBe(422)
  expect((await service.call('POST', `/v1/runs/${named.id}/cancel`)).status).toBe(202)
  held.release()
  expect([(await first).body.code, (await second).body.code]).toEqual(['START_ABORTED', 'START_ABORTED'])
  expect(await ids(service)).toEqual([])
})

test('2.4 two hundred starts at once with one key make one run', async () => {
  const service = await startService(onTestFinished)
  const answers = await Promise.all(Array.from({ length: 200 }, () => service.call('POST', '/v1/runs', hang, key('k'))))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter((answer) => answer.status === 200 && replayed(answer) === 'true')).toHaveLength(199)
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(await ids(service)).toHaveLength(1)
})

test('2.4 a key is known after a restart, for starts, sessions and answers', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const before = await startService(onTestFinished, { env })
  const body = {
    task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ calls: [{ name: 'ask' }, { name: 'ask' }] }, { say: 'x' }] }
  }
  const run = await before.call('POST', '/v1/runs', body, key('k', { prefer: 'wait=10' }))
  const session = await before.call('POST', '/v1/sessions', {}, key('k'))
  const answer = { results: [{ toolCallId: run.body.pendingToolCalls[0].toolCallId, content: 'a' }] }
  expect((await before.call('POST', `/v1/runs/${run.body.id}/tool-results`, answer, key('k'))).status).toBe(200)
  await before.stop()
  const after = await startService(onTestFinished, { env })
  expect(await after.call('POST', '/v1/runs', body, key('k'))).toMatchObject(
    { status: 200, body: { id: run.body.id, status: 'waiting' } }
  )
  expect(
    await after.call('POST', '/v1/runs', { task: 'b' }, key('k'))
  ).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } })
  expect(await after.call('POST', '/v1/sessions', {}, key('k'))).toMatchObject({ status: 200, body: { id: session.body.id } })
  expect(replayed(await after.call('POST', `/v1/runs/${run.body.id}/tool-results`, answer, key('k')))).toBe('true')
})

test('2.4 a key belongs to its route: the same one starts a run, keeps a session, answers a call', async () => {
  const service = await startService(onTestFinished)
  const body = { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'x' }] } }
  const run = await service.call('POST', '/v1/runs', body, key('k', { prefer: 'wait=10' }))
  expect((await service.call('POST', '/v1/sessions', {}, key('k'))).status).toBe(201)
  const results = [{ toolCallId: run.body.pendingToolCalls[0].toolCallId, content: 'a' }]
  const answered = await service.call('POST', `/v1/runs/${run.body.id}/tool-results`, { results }, key('k'))
  expect({ status: answered.status, replayed: replayed(answered) }).toEqual({ status: 200, replayed: null })
})

test('2.4 answers under a key: the same is replayed, another body is a mismatch, a refused one binds nothing', async () => {
  const service = await startService(onTestFinished)
  const body = {
    task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ calls: [{ name: 'ask' }, { name: 'ask' }] }, { say: 'x' }] }
  }
  const run = await service.start(body, { prefer: 'wait=10' })
  const path = `/v1/runs/${run.id}/tool-results`
  const [one, two] = run.pendingToolCalls.map((call: { toolCallId: string }) => call.toolCallId)
  expect((await service.call('POST', path, { results: [{ toolCallId: 'none', content: 'a' }] }, key('k'))).status).toBe(409)
  const answer = { results: [{ toolCallId: one, content: 'a' }] }
  const answers = await Promise.all(Array.from({ length: 5 }, () => service.call('POST', path, answer, key('k'))))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect(answers.filter((each) => replayed(each) === 'true')).toHaveLength(4)
  expect(
    await service.call('POST', path, { results: [{ toolCallId: two, content: 'b' }] }, key('k'))
  ).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } })
  expect((await service.call('GET', `/v1/runs/${run.id}`)).body.pendingToolCalls).toMatchObject([{ toolCallId: two }])
})

test('2.4 sessions made and grown at once under one key are one session, grown once', async () => {
  const service = await startService(onTestFinished)
  const made = await Promise.all(
    Array.from({ length: 10 }, () => service.call('POST', '/v1/sessions', { metadata: { a: 'b' } }, key('k')))
  )
  expect([201, 200].map((status) => made.filter((each) => each.status === status).length)).toEqual([1, 9])
  expect(new Set(made.map(({ body }) => body.id)).size).toBe(1)
  const growth = { after: 0, messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }] }
  const path = `/v1/sessions/${made[0]?.body.id}/messages`
  const grown = await Promise.all(Array.from({ length: 10 }, () => service.call('POST', path, growth, key('g'))))
  expect(grown.map(({ status, body }) => [status, body.length])).toEqual(Array.from({ length: 10 }, () => [200, 2]))
  expect(grown.filter((each) => replayed(each) === 'true')).toHaveLength(9)
})

test('2.4 the key of a forgotten run is kept for a day: it starts no other run, and another body is a mismatch', async () => {
  const service = await startService(onTestFinished)
  const first = await service.call('POST', '/v1/runs', hang, key('k'))
  await service.call('DELETE', `/v1/runs/${first.body.id}`)
  expect(await service.call('POST', '/v1/runs', hang, key('k'))).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
  expect(await service.call('POST', '/v1/runs', { task: 'another' }, key('k'))).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } })
})
