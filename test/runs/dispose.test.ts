import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { hold } from '../support/hold.ts'
import { startService, type Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'
import { ask } from '../support/socket.ts'
import { readEvents } from '../support/sse.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const gone = async (service: Service, id: string): Promise<void> => {
  for (const path of ['', '/result', '/events', '/tree']) expect(
    (await service.call('GET', `/v1/runs/${id}${path}`)).status
  ).toBe(404)
  expect((await service.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
  expect((await service.call('POST', `/v1/runs/${id}/cancel`)).status).toBe(404)
}

test('5.3 DELETE disposes the run and its descendants, then forgets them: 204, and again 204', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const child = await service.start({ ...hang, parent: { runId: root.id } })
  const grandchild = await service.start({ ...hang, parent: { runId: child.id } })
  const other = await service.start(hang)
  const deleted = await service.call('DELETE', `/v1/runs/${root.id}`)
  expect({ status: deleted.status, text: deleted.text }).toEqual({ status: 204, text: '' })
  for (const { id } of [root, child, grandchild]) await gone(service, id)
  expect((await service.call('DELETE', `/v1/runs/${root.id}`)).status).toBe(204)
  expect((await service.call('DELETE', `/v1/runs/${randomUUID()}`)).status).toBe(204)
  expect(service.app.registry.liveRuns().map((run) => run.id)).toEqual([other.id])
  expect((await service.call('GET', '/v1/runs')).body.runs).toHaveLength(1)
})

test('5.3 readers that wait get the aborted result: long polls, waiting starts, waiting cancels and streams', async () => {
  const service = await startService(onTestFinished)
  const id = randomUUID()
  const start = ask(service, '/v1/runs', { body: { ...hang, id }, headers: { prefer: 'wait=30' } })
  const stream = await (async () => {
    for (;;) {
      const reader = await readEvents(service, id)
      if (reader.status === 200) return reader
    }
  })()
  await stream.until(({ event }) => event === 'step/start')
  const poll = service.call('GET', `/v1/runs/${id}/result?wait=30`)
  const started = new Promise((resolve) => { service.app.http.server.on('request', resolve) })
  await started
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  const aborted = {
    stopReason: 'aborted', output: [], toolResult: { isError: true, content: [{ text: 'Error: subagent run was cancelled' }] }
  }
  expect(JSON.parse(await start.text())).toMatchObject({ status: 'settled', cancel: { by: 'dispose' }, result: aborted })
  expect((await poll).body).toMatchObject(aborted)
  const events = await stream.all()
  expect(events.at(-1)).toMatchObject({ event: 'settled', data: { data: aborted } })
  await gone(service, id)
})

test('5.3 a settled run is forgotten as it is: who read its result keeps it, its children go too', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 'a' }, { prefer: 'wait=10' })
  const fork = await service.start({ provider: 'fork', task: 'b', parent: { runId: run.id } }, { prefer: 'wait=10' })
  const deleted = await Promise.all([1, 2, 3].map(() => service.call('DELETE', `/v1/runs/${run.id}`)))
  expect(deleted.map(({ status }) => status)).toEqual([204, 204, 204])
  await gone(service, run.id)
  await gone(service, fork.id)
})

test('5.3 dispose against the result: the answer of a reader and the end of the run agree', async () => {
  const service = await startService(onTestFinished)
  await Promise.all(Array.from({ length: 30 }, async (_, i) => {
    const run = await service.start({ task: 'a', agentOptions: { script: [{ delayMs: i % 4, say: 'done' }] } })
    const poll = service.call('GET', `/v1/runs/${run.id}/result?wait=30`)
    expect((await service.call('DELETE', `/v1/runs/${run.id}`)).status).toBe(204)
    const { status, body } = await poll
    if (status === 404) return
    expect(status).toBe(200)
    expect(body).toMatchObject(
      body.stopReason === 'completed' ? { output: [{ text: 'done' }] } : { stopReason: 'aborted', output: [] }
    )
  }))
  expect(service.app.registry.liveRuns()).toEqual([])
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
})

test('5.2 disposing waits for tools that take their time to stop, and leaves none', async () => {
  let stopped = false
  const slow = serviceTool('slow', async (_, { signal }) => {
    await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
    stopped = true
    return 'late'
  })
  const service = await startService(onTestFinished, { tools: [slow] })
  const run = await service.start({ task: 'a', agentOptions: { script: [{ call: { name: 'slow' } }] } })
  await slow.began()
  expect((await service.call('DELETE', `/v1/runs/${run.id}`)).status).toBe(204)
  expect(stopped).toBe(true)
})

test('a start with this id under way is ended by DELETE, also while its publication is being written', async () => {
  const service = await startService(onTestFinished)
  const { body: session } = await service.call('POST', '/v1/sessions', {})
  for (const method of ['getSession', 'publish'] as const) {
    const id = randomUUID()
    const held = hold(service.app.store, method)
    const start = service.call('POST', '/v1/runs', { ...hang, id, parent: { sessionId: session.id } })
    await held.reached
    const deleted = service.call('DELETE', `/v1/runs/${id}`)
    if (method === 'getSession') expect((await deleted).status).toBe(204)
    held.release()
    expect((await deleted).status).toBe(204)
    expect((await start).status).toBe(method === 'getSession' ? 409 : 201)
    await gone(service, id)
  }
  expect(service.app.registry.count('default')).toBe(0)
})

test('5.4 a settled or forgotten run leaves nothing in memory', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const child = await service.start({ ...hang, parent: { runId: root.id } })
  await service.start({ task: 'a', parent: { runId: child.id } }, { prefer: 'wait=10' })
  await service.call('DELETE', `/v1/runs/${root.id}`)
  const { registry } = service.app
  expect(
    {
      live: registry.liveRuns(), starting: registry.startingRuns(), count: registry.count('default'),
      below: registry.descendants('default', root.id)
    }
  )
    .toEqual({ live: [], starting: [], count: 0, below: { live: [], starting: [] } })
})
