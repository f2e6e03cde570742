import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SuspendReason } from '../../src/core/live.ts'
import { createGate, passes } from '../support/gate.ts'
import { hold } from '../support/hold.ts'
import { makeFolder, startService, type Answer, type Service } from '../support/service.ts'
import { ask } from '../support/socket.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const LONG = { SHUTDOWN_DELAY_MS: '3600000', SHUTDOWN_GRACE_MS: '3600000' }

/** Begins to stop the service, as SIGTERM does; `hurry` is the second one. */
function stopping (service: Service): { left: Promise<number>, hurry: () => void } {
  const second = new AbortController()
  return { left: service.app.stop(second.signal), hurry: () => second.abort() }
}

test('3 not ready at once, while starts are taken for SHUTDOWN_DELAY_MS', async () => {
  const service = await startService(onTestFinished, { env: LONG })
  const { left, hurry } = stopping(service)
  const ready = await service.call('GET', '/readyz')
  expect(ready).toMatchObject({ status: 503, body: { code: 'SHUTTING_DOWN' } })
  expect(Number(ready.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(
    await service.call('POST', '/v1/runs', { task: 'a' }, { prefer: 'wait=10' })
  ).toMatchObject({ status: 201, body: { status: 'settled' } })
  hurry()
  expect(await left).toBe(0)
})

test('3 then starts are refused as SHUTTING_DOWN, while the rest still answers', async () => {
  const service = await startService(onTestFinished, { env: { ...LONG, SHUTDOWN_DELAY_MS: '20' } })
  const run = await service.start(hang, { 'idempotency-key': 'k' })
  const { left, hurry } = stopping(service)
  let refused: Answer
  do refused = await service.call('POST', '/v1/runs', hang)
  while (refused.status === 201)
  const relayed = { content: [{ text: 'Error: subagent service unavailable' }] }
  expect(refused).toMatchObject({ status: 503, body: { code: 'SHUTTING_DOWN', retryable: true, toolResult: relayed } })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(refused.headers.get('connection')).toBe('close')
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  const again = await service.call('POST', '/v1/runs', hang, { 'idempotency-key': 'k' })
  expect(again).toMatchObject({ status: 200, body: { id: run.id } })
  const cancelled = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
  expect(cancelled).toMatchObject({ status: 200, body: { stopReason: 'aborted' } })
  hurry()
  await left
})

test('3 running work gets the grace, and its waiting clients their results', async () => {
  const { tool, open } = createGate()
  const service = await startService(onTestFinished, { env: { SHUTDOWN_GRACE_MS: '3600000' }, tools: [tool] })
  const start = ask(service, '/v1/runs', { body: passes('done'), headers: { prefer: 'wait=50' }, keepAlive: true })
  const stream = ask(service, '/v1/runs', { body: passes('done'), headers: { accept: 'text/event-stream' }, keepAlive: true })
  await tool.began(1)
  const { left } = stopping(service)
  open()
  expect(JSON.parse(await start.text())).toMatchObject({ status: 'settled', result: { output: [{ text: 'done' }] } })
  expect(await stream.text()).toMatch(/^event: settled$/m)
  expect(await left).toBe(0)
})

test('3 what outlasts the grace is left to the next start; who waits or streams gets a whole answer, no lost client', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}`, SHUTDOWN_GRACE_MS: '30' }
  const service = await startService(onTestFinished, { env })
  const run = await service.start(hang)
  const { body: { after } } = await service.call('GET', `/v1/runs/${run.id}/events`)
  let arrived = 0
  service.app.http.server.on('request', () => { arrived++ })
  const clients = {
    stream: ask(service, '/v1/runs', { body: hang, headers: { accept: 'text/event-stream' }, keepAlive: true }),
    start: ask(service, '/v1/runs', { body: hang, headers: { prefer: 'wait=50' }, keepAlive: true }),
    events: ask(
      service, `/v1/runs/${run.id}/events?tree=true`, { method: 'GET', headers: { accept: 'text/event-stream' }, keepAlive: true }
    ),
    poll: ask(service, `/v1/runs/${run.id}/result?wait=50`, { method: 'GET', keepAlive: true }),
    page: ask(service, `/v1/runs/${run.id}/events?wait=50&after=${after}`, { method: 'GET', keepAlive: true })
  }
  while (
    arrived < Object.keys(clients).length || service.app.registry.liveRuns().length < 3
  ) await new Promise((resolve) => { setImmediate(resolve) })
  const texts = Object.entries(clients).map(async ([name, client]) => [name, await client.text(), await client.ended] as const)
  expect(await stopping(service).left).toBe(3)
  const answers = Object.fromEntries((await Promise.all(texts)).map(([name, text, end]) => [name, { text, end }]))
  for (const { end } of Object.values(answers)) expect(end).toBe('end')
  expect(JSON.parse(answers.start?.text ?? '')).toMatchObject({ status: 'running' })
  expect(JSON.parse(answers.poll?.text ?? '')).toMatchObject({ runId: run.id, status: 'running' })
  for (const name of ['stream', 'events']) expect(answers[name]?.text).not.toMatch(/event: settled/)
  const next = await startService(onTestFinished, { env })
  const { body } = await next.call('GET', '/v1/runs')
  expect(
    body.runs.map((each: { status: string, cancel: unknown }) => [each.status, each.cancel])
  ).toEqual([['running', null], ['running', null], ['running', null]])
})

test('3 a second signal hurries, whatever is being waited for, and stopping is one thing however often it is asked', async () => {
  const service = await startService(onTestFinished, { env: LONG })
  await service.start(hang)
  const first = stopping(service)
  const second = stopping(service)
  expect(second.left).toBe(first.left)
  second.hurry()
  expect(await first.left).toBe(1)
  const graced = await startService(onTestFinished, { env: { ...LONG, SHUTDOWN_DELAY_MS: '0' } })
  await graced.start(hang)
  const { left, hurry } = stopping(graced)
  while ((await graced.call('POST', '/v1/runs', hang)).status === 201);
  hurry()
  expect(await left).toBeGreaterThan(0)
})

test('3 a queued run is left untouched, whatever running work makes room', async () => {
  const env = {
    DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}`, MAX_RUNNING: '1', SHUTDOWN_GRACE_MS: '3600000'
  }
  const { tool, open } = createGate()
  const service = await startService(onTestFinished, { env, tools: [tool] })
  const running = await service.start(passes('done'))
  const queued = await service.start({ task: 'a' })
  await tool.began()
  const { left } = stopping(service)
  // Refused before it is looked at: from then on the service drains.
  const draining = async () => (await service.call('POST', '/v1/runs', { task: 'a', provider: 'none' })).status === 503
  while (!await draining());
  open()
  expect(await left).toBe(1)
  const next = await startService(onTestFinished, { env })
  expect((await next.result(running.id)).stopReason).toBe('completed')
  expect((await next.result(queued.id)).stopReason).toBe('completed')
  expect((await next.log(queued.id)).filter((event) => event.type === 'step/start')).toHaveLength(1)
})

test('3 a host\'s answer is taken while running work has its grace', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}`, SHUTDOWN_GRACE_MS: '3600000' }
  const service = await startService(onTestFinished, { env })
  const host = await service.start(
    { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'thanks' }] } },
    { prefer: 'wait=20' }
  )
  await service.start(hang)
  const { left, hurry } = stopping(service)
  const results = [{ toolCallId: host.pendingToolCalls[0].toolCallId, content: 'in time' }]
  expect((await service.call('POST', `/v1/runs/${host.id}/tool-results`, { results })).status).toBe(200)
  hurry()
  await left
  const next = await startService(onTestFinished, { env })
  expect(await next.result(host.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'thanks' }] })
})

test('3 a start whose publication is being written when the drain begins is answered, and left like the others', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const service = await startService(onTestFinished, { env })
  const held = hold(service.app.store, 'publish')
  const start = ask(service, '/v1/runs', { body: hang, keepAlive: true })
  await held.reached
  const { left } = stopping(service)
  held.release()
  expect(JSON.parse(await start.text())).toMatchObject({ status: 'running' })
  expect(await left).toBe(1)
  const next = await startService(onTestFinished, { env })
  expect((await next.call('GET', '/v1/runs?status=running')).body.runs).toHaveLength(1)
})

test('3 clients that say nothing or read nothing hold up no stop', async () => {
  const service = await startService(onTestFinished, { env: { SHUTDOWN_GRACE_MS: '3600000' } })
  const { hostname, port } = new URL(service.url)
  const silent = connect(Number(port), hostname)
  const idle = connect(Number(port), hostname)
  idle.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const half = connect(Number(port), hostname)
  half.write('POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"task"')
  const sockets = [silent, idle, half]
  for (const socket of sockets) socket.on('error', () => {})
  await Promise.all([once(silent, 'connect'), once(idle, 'data'), once(half, 'connect')])
  const closed = Promise.all(sockets.map((socket) => new Promise((resolve) => { socket.resume().on('close', resolve) })))
  const { left, hurry } = stopping(service)
  hurry()
  expect(await left).toBe(0)
  await closed
})

test('a run that nobody executes any more is refused to whoever would change it, with 503, and can still be read', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(
    { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'x' }] } },
    { prefer: 'wait=20' }
  )
  const child = await service.start({ ...hang, parent: { runId: run.id } })
  const live = service.app.registry.live('default', run.id)
  live?.abort(new SuspendReason())
  const results = [{ toolCallId: run.pendingToolCalls[0].toolCallId, content: 'x' }]
  const caller = { tenant: 'default' }
  await expect(
    service.app.runs.answerTools(caller, run.id, [{ toolCallId: results[0]?.toolCallId ?? '', content: [], isError: false }])
  ).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  await live?.stopped
  const unavailable = { status: 503, body: { code: 'STORE_UNAVAILABLE', retryable: true } }
  expect(await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results })).toMatchObject(unavailable)
  expect(await service.call('POST', `/v1/runs/${run.id}/cancel`)).toMatchObject(unavailable)
  expect(await service.call('DELETE', `/v1/runs/${run.id}`)).toMatchObject(unavailable)
  expect((await service.call('GET', `/v1/runs/${run.id}`)).body).toMatchObject(
    { status: 'waiting', pendingToolCalls: run.pendingToolCalls }
  )
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'aborted' })
})
