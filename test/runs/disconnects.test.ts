import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { createGate, passes } from '../support/gate.ts'
import { hold } from '../support/hold.ts'
import { reached } from '../support/lives.ts'
import { startService, type Service } from '../support/service.ts'
import { ask, nextLoss } from '../support/socket.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const waiting = { prefer: 'wait=50' }
const streaming = { accept: 'text/event-stream' }

/** The one run of the service, once it is published. */
async function published (service: Service): Promise<string> {
  for (;;) {
    const [run] = service.app.registry.liveRuns()
    if (run) return run.id
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

test.for<[name: string, headers: Record<string, string>]>([
  ['plain', {}], ['waiting', waiting], ['streaming', streaming], ['keyed', { 'idempotency-key': 'k' }]
])('3 a client of a %s start that goes away before publication leaves no run', async ([, headers]) => {
  const service = await startService(onTestFinished)
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  const held = hold(service.app.store, 'getSession')
  const lost = nextLoss(service)
  const id = randomUUID()
  const client = ask(service, '/v1/runs', { body: { ...hang, id, parent: { sessionId: session.id } }, headers })
  await held.reached
  const [start] = service.app.registry.startingRuns()
  client.leave()
  await lost
  held.release()
  await start?.over
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
  expect(service.app.registry.count('default')).toBe(0)
  expect((await service.start({ ...hang, id })).status).toBe('running')
})

test.for<[name: string, headers: Record<string, string>, body: object]>([
  ['waiting start', waiting, {}],
  ['streaming start', streaming, {}],
  ['waiting start with a key that asks for it', { ...waiting, 'idempotency-key': 'k' }, { onDisconnect: 'cancel' }],
  ['streaming start with an id that asks for it', streaming, { id: randomUUID(), onDisconnect: 'cancel' }]
])('3 the client of a %s goes away: the run is cancelled', async ([, headers, body]) => {
  const service = await startService(onTestFinished)
  const client = ask(service, '/v1/runs', { body: { ...hang, ...body }, headers })
  const id = await published(service)
  if (headers.accept) await client.answered
  client.leave()
  expect(await service.result(id)).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(
    (await service.call('GET', `/v1/runs/${id}`)).body.cancel
  ).toMatchObject({ by: 'disconnect', reason: 'the client went away' })
})

test.for<[name: string, headers: Record<string, string>, body: object]>([
  ['waiting start with a key', { ...waiting, 'idempotency-key': 'k' }, {}],
  ['streaming start with an id', streaming, { id: randomUUID() }],
  ['waiting start that says so', waiting, { onDisconnect: 'continue' }],
  ['streaming start that says so', streaming, { onDisconnect: 'continue' }]
])('3 the client of a %s goes away: the run goes on', async ([, headers, body]) => {
  const { tool, open } = createGate()
  const service = await startService(onTestFinished, { tools: [tool] })
  const lost = nextLoss(service)
  const client = ask(service, '/v1/runs', { body: { ...passes('still here'), ...body }, headers })
  const id = await published(service)
  client.leave()
  await lost
  open()
  expect(await service.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'still here' }] })
})

test('3 a plain start that asked for it is no longer attached once it is answered', async () => {
  const { tool, open } = createGate()
  const service = await startService(onTestFinished, { tools: [tool] })
  const client = ask(service, '/v1/runs', { body: { ...passes('done'), onDisconnect: 'cancel' }, keepAlive: true })
  const { id } = JSON.parse(await client.text()) as { id: string }
  client.leave()
  open()
  expect(await service.result(id)).toMatchObject({ stopReason: 'completed' })
})

test('3 it cancels only when no request of that start is attached any more', async () => {
  const service = await startService(onTestFinished)
  const asking = { body: { ...hang, onDisconnect: 'cancel' }, headers: { ...waiting, 'idempotency-key': 'k' } }
  const lostOne = nextLoss(service)
  const first = ask(service, '/v1/runs', asking)
  const id = await published(service)
  const second = ask(service, '/v1/runs', { ...asking, headers: { ...asking.headers, accept: 'text/event-stream' } })
  await second.answered
  first.leave()
  await lostOne
  expect((await service.call('GET', `/v1/runs/${id}`)).body).toMatchObject({ status: 'running', cancel: null })
  second.leave()
  expect(await service.result(id)).toMatchObject({ stopReason: 'aborted' })
})

test('3 a client that leaves a GET, a long poll or an events stream harms no run', async () => {
  const { tool, open } = createGate()
  const service = await startService(onTestFinished, { tools: [tool] })
  const run = await service.start(passes('done'))
  await reached(service, run.id, 'tool/call')
  const { body: { after } } = await service.call('GET', `/v1/runs/${run.id}/events`)
  for (const path of ['/result?wait=50', '/events', `/events?wait=50&after=${after}`]) {
    const lost = nextLoss(service)
    const arrived = once(service.app.http.server, 'request')
    const client = ask(service, `/v1/runs/${run.id}${path}`, { method: 'GET', headers: path === '/events' ? streaming : {} })
    await arrived
    client.leave()
    await lost
  }
  open()
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  expect((await service.call('GET', `/v1/runs/${run.id}`)).body.cancel).toBeNull()
})

test('3 a client that leaves after its run was forgotten is no fault', async () => {
  const service = await startService(onTestFinished)
  const faults: unknown[] = []
  const { disconnected } = service.app.runs
  const told = Promise.withResolvers<void>()
  service.app.runs.disconnected = async (...args) => {
    await disconnected(...args).catch((error: unknown) => { faults.push(error) })
    told.resolve()
  }
  const held = hold(service.app.runs as { wait: (...args: never[]) => Promise<unknown> }, 'wait')
  const client = ask(service, '/v1/runs', { body: hang, headers: waiting })
  const id = await published(service)
  await held.reached
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  client.leave()
  await told.promise
  held.release()
  expect(faults).toEqual([])
})
