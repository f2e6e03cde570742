import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { hold } from '../support/hold.ts'
import { startService, type Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const below = (id: string): object => ({ ...hang, parent: { runId: id } })
const quick = (id: string): object => ({ task: 'a', agentOptions: { script: [{ say: 'done' }] }, parent: { runId: id } })

const cancelOf = async (service: Service, id: string): Promise<unknown> => {
  const { body } = await service.call('GET', `/v1/runs/${id}`)
  return { stopReason: body.stopReason, by: body.cancel?.by, reason: body.cancel?.reason }
}

test('5.2 cancelling a run reaches children and grandchildren, child first, and nothing is left running', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const child = await service.start(below(root.id))
  const grandchild = await service.start(below(child.id))
  const bystander = await service.start(hang)
  const { status, body } = await service.call('POST', `/v1/runs/${root.id}/cancel?wait=10`, { reason: 'enough' })
  expect(status).toBe(200)
  expect(body).toMatchObject(
    { id: root.id, status: 'settled', stopReason: 'aborted', runningChildren: 0, cancel: { reason: 'enough', by: 'request' } }
  )
  expect(await cancelOf(service, child.id)).toEqual({ stopReason: 'aborted', by: 'parent', reason: 'enough' })
  expect(await cancelOf(service, grandchild.id)).toEqual({ stopReason: 'aborted', by: 'parent', reason: 'enough' })
  const { body: page } = await service.call('GET', `/v1/runs/${root.id}/events?tree=true&limit=200`)
  const order = page.events.filter(
    (event: SessionEvent) => event.type === 'run/cancel'
  ).map((event: { runId: string }) => event.runId)
  expect(order).toEqual([grandchild.id, child.id, root.id])
  expect(service.app.registry.liveRuns().map((run) => run.id)).toEqual([bystander.id])
})

test('5.2 a grandchild below a settled child is reached, also one that starts after the child settled', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const child = await service.start({ ...quick(root.id) })
  const early = await service.start(below(child.id))
  await service.result(child.id)
  const late = await service.start(below(child.id))
  const { body } = await service.call('POST', `/v1/runs/${root.id}/cancel?wait=10`)
  expect(body.status).toBe('settled')
  expect(await cancelOf(service, early.id)).toMatchObject({ stopReason: 'aborted', by: 'parent' })
  expect(await cancelOf(service, late.id)).toMatchObject({ stopReason: 'aborted', by: 'parent' })
})

test('5.2 cancelling a settled run still stops what runs below it, at any depth', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ task: 'a' }, { prefer: 'wait=10' })
  const child = await service.start(quick(root.id), { prefer: 'wait=10' })
  const grandchild = await service.start(quick(child.id), { prefer: 'wait=10' })
  const last = await service.start(below(grandchild.id))
  const { status, body } = await service.call('POST', `/v1/runs/${child.id}/cancel?wait=10`, { reason: 'all of it' })
  expect(
    { status, stopReason: body.stopReason, cancel: body.cancel }
  ).toEqual({ status: 200, stopReason: 'completed', cancel: null })
  expect(await cancelOf(service, last.id)).toEqual({ stopReason: 'aborted', by: 'parent', reason: 'all of it' })
})

test('cancelling is idempotent: the first reason stays', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(hang)
  const answers = await Promise.all(
    ['a', 'b', 'c'].map((reason) => service.call('POST', `/v1/runs/${run.id}/cancel`, { reason }))
  )
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  const reasons = new Set(answers.map(({ body }) => body.cancel.reason))
  expect(reasons.size).toBe(1)
  await service.result(run.id)
  const again = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=5`, { reason: 'd' })
  expect(again).toMatchObject(
    { status: 200, body: { status: 'settled', stopReason: 'aborted', cancel: { reason: [...reasons][0] } } }
  )
  expect((await service.log(run.id)).filter((event) => event.type === 'run/cancel')).toHaveLength(1)
})

test('an unknown run cannot be cancelled: 404', async () => {
  const service = await startService(onTestFinished)
  expect(
    await service.call('POST', `/v1/runs/${randomUUID()}/cancel`)
  ).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
})

test('an answered cancellation is in the log: what the run was asked is durable', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start(hang)
  const { body } = await service.call('POST', `/v1/runs/${run.id}/cancel`)
  expect(body.cancel).toMatchObject({ by: 'request', reason: null, at: expect.stringMatching(/^\d{4}-/) })
  expect((await service.log(run.id)).map((event) => event.type)).toContain('run/cancel')
})

test('5.1 cancel against completion: one wins, and log, status and result agree for ever', async () => {
  const service = await startService(onTestFinished)
  await Promise.all(Array.from({ length: 40 }, async (_, i) => {
    const run = await service.start({ task: 'a', agentOptions: { script: [{ delayMs: i % 5, say: 'done' }] } })
    const cancelled = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
    const result = await service.result(run.id)
    const settled = (await service.log(run.id)).filter((event) => event.type === 'run/settled')
    expect(settled).toHaveLength(1)
    expect(settled[0]?.data).toMatchObject({ result: { stopReason: result.stopReason, output: result.output } })
    expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: result.stopReason })
    expect(['completed', 'aborted']).toContain(result.stopReason)
  }))
})

test('5.2 a tool that is under way gets the signal, and one that ignores it holds up nothing', async () => {
  const deaf = serviceTool('deaf', () => new Promise<string>(() => {}))
  const service = await startService(onTestFinished, { tools: [deaf] })
  const run = await service.start({ task: 'a', agentOptions: { script: [{ calls: [{ name: 'deaf' }, { name: 'deaf' }] }] } })
  await deaf.began(1)
  const { body } = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
  expect(body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  expect(deaf.contexts.map((context) => context.signal.aborted)).toEqual([true, true])
})

test('2.7 a start that races the cancellation of its parent is refused or cancelled, never left running', async () => {
  const service = await startService(onTestFinished)
  for (const method of ['getRun', 'publish'] as const) {
    const parent = await service.start({ task: 'a' }, { prefer: 'wait=10' })
    const top = await service.start({ ...hang, parent: { runId: parent.id } })
    const held = hold(service.app.store, method)
    // The settled parent is read from the store; the start waits there, or with its publication written.
    const start = service.call('POST', '/v1/runs', below(method === 'getRun' ? parent.id : top.id))
    await held.reached
    const cancel = service.call('POST', `/v1/runs/${method === 'getRun' ? parent.id : top.id}/cancel`)
    await new Promise((resolve) => { setImmediate(resolve) })
    held.release()
    const [started] = await Promise.all([start, cancel])
    if (started.status === 201) expect(await service.result(started.body.id)).toMatchObject({ stopReason: 'aborted', output: [] })
    else expect(started).toMatchObject({ status: 409, body: { code: expect.stringMatching(/^(START|PARENT)_ABORTED$/) } })
    await service.call('POST', `/v1/runs/${top.id}/cancel?wait=10`)
    expect(service.app.registry.liveRuns()).toEqual([])
  }
})

test('2.7 many starts against one cancellation of their parent: none survives it', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const starts = Array.from(
    { length: 40 },
    (_, i) => service.call('POST', '/v1/runs', { ...hang, parent: i % 2 === 0 ? { runId: root.id } : { sessionId: root.id } })
  )
  const cancel = service.call('POST', `/v1/runs/${root.id}/cancel?wait=10`)
  const answers = await Promise.all(starts)
  expect((await cancel).body).toMatchObject({ status: 'settled', runningChildren: 0 })
  for (const { status, body } of answers) {
    if (status === 201) expect(await service.result(body.id)).toMatchObject({ stopReason: 'aborted' })
    else expect({ status, code: body.code }).toEqual({ status: 409, code: expect.stringMatching(/^(START|PARENT)_ABORTED$/) })
  }
  expect(service.app.registry.liveRuns()).toEqual([])
})

test('bulk: by ids, root, label and metadata; each with its descendants; others go on', async () => {
  const service = await startService(onTestFinished)
  const bulk = async (body: object): Promise<unknown> => {
    const { status, body: answer } = await service.call('POST', '/v1/runs/cancel', body)
    return { status, ...answer }
  }
  const named = await service.start({ ...hang, label: 'mine' })
  const childOfNamed = await service.start(below(named.id))
  const team = await service.start({ ...hang, metadata: { team: 'a', job: '1' } })
  const other = await service.start({ ...hang, label: 'other', metadata: { team: 'b', job: '1' } })
  const root = await service.start(hang)
  const childOfRoot = await service.start(below(root.id))
  const single = await service.start(hang)
  expect(await bulk({ label: 'mine', reason: 'by label' })).toEqual({ status: 202, matched: 1 })
  expect(await bulk({ metadata: { team: 'a', job: '1' } })).toEqual({ status: 202, matched: 1 })
  expect(await bulk({ root: root.id })).toEqual({ status: 202, matched: 2 })
  expect(await bulk({ ids: [single.id.toUpperCase(), randomUUID()] })).toEqual({ status: 202, matched: 1 })
  expect(await bulk({ metadata: { toString: 'x' } })).toEqual({ status: 202, matched: 0 })
  for (const run of [named, childOfNamed, team, root, childOfRoot, single]) {
    expect(await service.result(run.id)).toMatchObject({ stopReason: 'aborted' })
  }
  expect(await cancelOf(service, childOfNamed.id)).toMatchObject({ by: 'parent', reason: 'by label' })
  expect((await service.call('GET', `/v1/runs/${other.id}`)).body).toMatchObject({ status: 'running', cancel: null })
  expect(await bulk({ reason: 'none' })).toMatchObject({ status: 400, code: 'INVALID_REQUEST' })
})

test('bulk: ids reach starts under way, and what runs below a settled one', async () => {
  const service = await startService(onTestFinished)
  const done = await service.start({ task: 'a' }, { prefer: 'wait=10' })
  const child = await service.start(below(done.id))
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  const id = randomUUID()
  const held = hold(service.app.store, 'getSession')
  const start = service.call('POST', '/v1/runs', { ...hang, id, parent: { sessionId: session.id } })
  await held.reached
  expect((await service.call('POST', '/v1/runs/cancel', { ids: [done.id, id] })).body).toEqual({ matched: 1 })
  held.release()
  expect(await start).toMatchObject({ status: 409, body: { code: 'START_ABORTED' } })
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'aborted' })
})

test('a session that is deleted stops its runs, those still starting too; a run\'s own session goes with the run', async () => {
  const service = await startService(onTestFinished)
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  const parent = { sessionId: session.id }
  const child = await service.start({ ...hang, parent })
  const held = hold(service.app.store, 'getSession')
  const starting = service.call('POST', '/v1/runs', { ...hang, parent })
  await held.reached
  const deleted = service.call('DELETE', `/v1/sessions/${session.id}`)
  await new Promise((resolve) => { setImmediate(resolve) })
  held.release()
  expect((await deleted).status).toBe(204)
  const late = await starting
  if (late.status === 201) expect(await service.result(late.body.id)).toMatchObject({ stopReason: 'aborted' })
  else expect([404, 409]).toContain(late.status)
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'aborted' })
  expect((await service.call('GET', `/v1/sessions/${session.id}`)).status).toBe(404)
  const run = await service.start(hang)
  expect((await service.call('DELETE', `/v1/sessions/${run.id}`)).status).toBe(204)
  expect((await service.call('GET', `/v1/runs/${run.id}`)).status).toBe(404)
  expect(service.app.registry.liveRuns()).toEqual([])
})
