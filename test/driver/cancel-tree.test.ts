import { expect, onTestFinished, test } from 'vitest'
import { hangs as fakeHang } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { startService, type Service } from '../support/service.ts'
import { serviceTool, untilAborted } from '../support/service-tool.ts'

/** 5.2 cancelling a parent reaches every descendant, and every outside thing it holds; nothing is left running. */

const HANG = { model: 'scripted/demo', script: [{ hang: true }] }
const DONE = { model: 'scripted/demo', script: [{ say: 'done' }] }
const start = (service: Service, parent: string | undefined, body: object = {}) =>
  service.start({ task: 't', agentOptions: HANG, ...(parent === undefined ? {} : { parent: { runId: parent } }), ...body })
const row = async (service: Service, id: string) => (await service.call('GET', `/v1/runs/${id}`)).body

test('5.2 every descendant is aborted, at any depth, of any provider, in any state', async () => {
  const look = serviceTool('look', untilAborted)
  const upstream = await startFakeModelServer(onTestFinished, { fallback: fakeHang('half') })
  const service = await startService(onTestFinished, { tools: [look], env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: upstream.openaiUrl, DEFAULT_MODEL: 'scripted/demo', MAX_RUNNING: '4', MAX_QUEUED: '5' } })
  const root = await start(service, undefined)
  const streaming = await start(service, root.id, { agentOptions: { model: 'openai/m' } })
  const inTool = await start(service, streaming.id, { agentOptions: { model: 'scripted/demo', script: [{ call: { name: 'look' } }] } })
  const waiting = await start(service, inTool.id, { provider: 'fork', tools: [{ name: 'ask', description: 'd', inputSchema: {} }], agentOptions: { model: 'scripted/demo', script: [{ call: { name: 'ask' } }] } })
  const done = await start(service, root.id, { agentOptions: DONE })
  await service.result(done.id)
  const belowDone = await start(service, done.id)
  const queued = await start(service, belowDone.id)
  const [{ closed }] = await Promise.all([upstream.received(0), look.began()])
  await service.call('GET', `/v1/runs/${waiting.id}/result?wait=1`)
  const other = await start(service, undefined)

  expect((await row(service, waiting.id)).status).toBe('waiting')
  expect((await row(service, queued.id)).status).toBe('queued')
  const cancelled = await service.call('POST', `/v1/runs/${root.id}/cancel?wait=10`, { reason: 'enough' })
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { by: 'request', reason: 'enough' } })
  for (const run of [streaming, inTool, waiting, belowDone, queued]) {
    expect(await row(service, run.id)).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { by: 'parent', reason: 'enough' } })
  }
  expect(await row(service, done.id)).toMatchObject({ stopReason: 'completed', cancel: null })
  expect((await closed).complete).toBe(false)
  expect(look.contexts[0]?.signal.aborted).toBe(true)
  expect(service.app.registry.liveRuns().map((run) => run.id)).toEqual([other.id])
})

test('5.2 cancelling in the middle leaves parents and siblings alone', async () => {
  const service = await startService(onTestFinished)
  const root = await start(service, undefined)
  const [middle, sibling] = [await start(service, root.id), await start(service, root.id)]
  const leaf = await start(service, middle.id)
  await service.call('POST', `/v1/runs/${middle.id}/cancel?wait=10`, {})
  expect([(await row(service, middle.id)).stopReason, (await row(service, leaf.id)).stopReason]).toEqual(['aborted', 'aborted'])
  expect(service.app.registry.liveRuns().map((run) => run.id).toSorted()).toEqual([root.id, sibling.id].toSorted())
})

test('5.2 a chain is told from its last child up to its root', async () => {
  const service = await startService(onTestFinished)
  const ids: string[] = []
  for (let i = 0; i < 8; i++) ids.push((await start(service, ids.at(-1))).id)
  const told: string[] = []
  for (const run of service.app.registry.liveRuns()) {
    const original = run.abort.bind(run)
    run.abort = (reason) => { told.push(run.id); original(reason) }
  }
  await service.call('POST', `/v1/runs/${ids[0]}/cancel?wait=10`, {})
  expect(told).toEqual(ids.toReversed())
  expect(service.app.registry.liveRuns()).toEqual([])
})

test('5.3 DELETE disposes a tree and forgets it; a second DELETE is 204 too', async () => {
  const service = await startService(onTestFinished)
  const root = await start(service, undefined)
  const child = await start(service, root.id)
  expect((await service.call('DELETE', `/v1/runs/${root.id}`)).status).toBe(204)
  for (const run of [root, child]) expect((await service.call('GET', `/v1/runs/${run.id}`)).status).toBe(404)
  expect((await service.call('DELETE', `/v1/runs/${root.id}`)).status).toBe(204)
  expect(service.app.registry.liveRuns()).toEqual([])
})

test('2.7 a start under a parent whose cancellation was asked is refused, and leaves nothing', async () => {
  const service = await startService(onTestFinished)
  const root = await start(service, undefined)
  await service.call('POST', `/v1/runs/${root.id}/cancel`, {})
  const refused = await service.call('POST', '/v1/runs', { task: 't', parent: { runId: root.id } })
  expect([refused.status, refused.body.code]).toEqual([409, 'PARENT_ABORTED'])
  expect((await service.call('GET', '/v1/runs')).body.runs).toHaveLength(1)
})
