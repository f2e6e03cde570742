import fc from 'fast-check'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, startService, type Service } from '../support/service.ts'
import { logged, named, placeOf, readEvents, type SseEvent } from '../support/sse.ts'
import { busy, createGate, playHost } from './busy-run.ts'

const TREE = { tree: true }
const hang = { task: 'a', agentOptions: { script: [{ hang: true }] } }
const under = (runId: string, more: object = {}): object => ({ task: 'child', parent: { runId }, agentOptions: { script: [{ say: 'child says' }] }, ...more })
const cancel = (service: Service, id: string) => service.call('POST', `/v1/runs/${id}/cancel?wait=10`, {})

/** A parent with two children and a grandchild, started while it waits for its host. */
async function playTree (service: Service, id: string): Promise<void> {
  let started = 0
  await playHost(service, id, async () => {
    const child = await service.start(under(id, started++ === 0 ? { ...busy() } : {}))
    if (started === 1) await playHost(service, child.id, async () => { await service.start(under(child.id)) })
  })
}
const readTree = async (service: Pick<Service, 'url'>, id: string): Promise<SseEvent[]> => await (await readEvents(service, id, TREE)).all()

/** Per run: contiguous sequence numbers from the first own event on. */
function checkRuns (events: readonly SseEvent[]): void {
  const next = new Map<string, number>()
  for (const { data: { runId, seq } } of events) {
    expect([runId, seq]).toEqual([runId, next.get(runId) ?? seq])
    next.set(runId, seq + 1)
  }
}

test('6.1, 6.3 the tree\'s stream has every event of every run under it in one order, those that start meanwhile included', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  const reader = await readEvents(service, id, TREE)
  const playing = playTree(service, id)
  const events = await reader.all()
  await playing
  const log = logged(events)
  checkRuns(log)
  const { body: { runs } } = await service.call('GET', `/v1/runs?root=${id}`)
  expect(runs.length).toBeGreaterThanOrEqual(5)
  for (const run of runs as { id: string }[]) {
    const own = logged(await (await readEvents(service, run.id)).all()).map(({ data }) => data)
    const seen = log.filter(({ data }) => data.runId === run.id).map(({ data }) => data)
    expect(seen.slice(0, -1)).toEqual(own.slice(0, -1))
    expect(seen.at(-1)).toMatchObject({ type: run.id === id ? 'settled' : 'run/settled', seq: own.at(-1).seq })
  }
  expect(log.at(-1)).toMatchObject({ event: 'settled', data: { runId: id } })
  expect(logged(await readTree(service, id))).toEqual(log)
})

test('6.2 the tree\'s stream tells of each run as it comes and at each change of its status', async () => {
  const gate = createGate()
  const service = await startService(onTestFinished, { tools: [gate.tool] })
  const { id } = await service.start(busy())
  const reader = await readEvents(service, id, TREE)
  await reader.until(({ event, data }) => event === 'run' && data.data.status === 'waiting')
  const child = await service.start(under(id, { agentOptions: { script: [gate.step, { say: 'x' }] } }))
  const isStatus = (status: string) => ({ event, data }: SseEvent) => event === 'run' && data.runId === child.id && data.data.status === status
  const events = await reader.until(isStatus('running'))
  gate.open()
  events.push(...await reader.until(isStatus('settled')))
  const told = named(events, 'run').filter(({ data }) => data.runId === child.id)
  expect(told.map(({ data }) => data.data.status)).toEqual(['running', 'settled'])
  expect(events.findIndex(({ data }) => data.runId === child.id)).toBe(events.indexOf(told[0] as SseEvent))
  reader.leave()
  await cancel(service, id)
})

test('6.2 deltas of children come with the tree, each run\'s by its own index', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(hang)
  const reader = await readEvents(service, id, TREE)
  await reader.until(({ event }) => event === 'step/start')
  const children = [await service.start(under(id, hang)), await service.start(under(id, hang))]
  for (const child of children) await reader.until(({ event, data }) => event === 'snapshot' && data.runId === child.id)
  for (const text of ['a', 'b', 'c']) for (const child of children) service.app.registry.live('default', child.id)?.deltas.push('text', text)
  let left = 6
  const events = await reader.until(({ event }) => event === 'delta' && --left === 0)
  for (const child of children) {
    const own = named(events, 'delta').filter(({ data }) => data.runId === child.id)
    expect(own.map(({ data }) => [data.data.index, data.data.text])).toEqual([[0, 'a'], [1, 'b'], [2, 'c']])
  }
  reader.leave()
  await cancel(service, id)
})

test('6.3 the root\'s `settled` is held until the last descendant settled, and is last', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ task: 'root' })
  await service.result(root.id)
  const middle = await service.start(under(root.id))
  await service.result(middle.id)
  // Below a settled run that stands below the settled root.
  const leaf = await service.start({ ...hang, parent: { runId: middle.id } })
  const reader = await readEvents(service, root.id, TREE)
  const before = await reader.until(({ event, data }) => event === 'step/start' && data.runId === leaf.id)
  expect(named(before, 'run/settled').map(({ data }) => data.runId)).toEqual([middle.id])
  expect(named(before, 'settled')).toEqual([])
  await cancel(service, leaf.id)
  const events = [...before, ...await reader.all()]
  expect(named(events, 'run/settled').map(({ data }) => data.runId)).toEqual([middle.id, leaf.id])
  expect(events.at(-1)).toMatchObject({ event: 'settled', data: { runId: root.id, data: { stopReason: 'completed' } } })
  const again = await readEvents(service, root.id, { tree: true, lastEventId: events.at(-1)?.id as string })
  expect(again.status).toBe(204)
})

test('6.3 a subtree\'s stream is of the subtree alone', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start(hang)
  const child = await service.start({ ...hang, parent: { runId: root.id } })
  const other = await service.start(under(root.id))
  const reader = await readEvents(service, child.id, TREE)
  const grandchild = await service.start(under(child.id))
  await service.result(grandchild.id)
  await service.result(other.id)
  await cancel(service, child.id)
  const events = await reader.all()
  expect(new Set(events.map(({ data }) => data.runId))).toEqual(new Set([child.id, grandchild.id]))
  expect(events.at(-1)).toMatchObject({ event: 'settled', data: { runId: child.id } })
  await cancel(service, root.id)
})

test('6.1 a reader of the tree cut after any event gets the rest, once and in order', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  await playTree(service, id)
  const whole = logged(await readTree(service, id))
  expect(whole.length).toBeGreaterThan(50)
  for (const [index, { id: cursor }] of whole.entries()) {
    const reader = await readEvents(service, id, { tree: true, lastEventId: cursor as string })
    expect(reader.status).toBe(index === whole.length - 1 ? 204 : 200)
    expect(logged(await reader.all())).toEqual(whole.slice(index + 1))
  }
})

test('6.1 a reader of the tree cut anywhere while it grows gets every event once and in the order of the log', async () => {
  const service = await startService(onTestFinished)
  await fc.assert(fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 20 }), async (cuts) => {
    const { id } = await service.start(busy())
    const playing = playTree(service, id)
    const events: SseEvent[] = []
    for (let n = 0; ; n++) {
      const last = logged(events).at(-1)?.id
      const reader = await readEvents(service, id, { tree: true, ...(last === undefined ? {} : { after: last }) })
      if (reader.status === 204) break
      let left = cuts[n] ?? Infinity
      while (left > 0) {
        const event = await reader.next()
        if (!event) break
        events.push(event)
        if (event.id !== undefined) left--
      }
      reader.leave()
    }
    await playing
    expect(logged(events).map(placeOf)).toEqual(logged(await readTree(service, id)).map(placeOf))
    checkRuns(logged(events))
  }), { numRuns: 8 })
})

test('6.1 a reader of the tree goes on after a restart, and `settled` waits for the children that were taken up', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const first = await startService(onTestFinished, { env })
  const root = await first.start({ task: 'root' })
  await first.result(root.id)
  const child = await first.start({ ...busy(), parent: { runId: root.id } })
  const reader = await readEvents(first, root.id, TREE)
  const before = await reader.until(({ event }) => event === 'tool/call')
  await first.stop()
  const cut = logged([...before, ...await reader.all()])
  expect(named(cut, 'settled')).toEqual([])
  const second = await startService(onTestFinished, { env })
  const again = await readEvents(second, root.id, { tree: true, after: cut.at(-1)?.id as string })
  const playing = playHost(second, child.id)
  const events = [...cut, ...logged(await again.all())]
  await playing
  checkRuns(events)
  expect(events.at(-1)).toMatchObject({ event: 'settled', data: { runId: root.id } })
  expect(logged(await readTree(second, root.id)).map(placeOf)).toEqual(events.map(placeOf))
})

test('6.6 pages of the tree, however cut, make the same whole; `settled` is the last of them', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  await playTree(service, id)
  const whole = logged(await readTree(service, id)).map(({ data }) => data)
  for (const limit of [1, 3, 7, whole.length - 1, whole.length, whole.length + 1, 1000]) {
    const events: unknown[] = []
    for (let after = ''; ;) {
      const { body } = await service.call('GET', `/v1/runs/${id}/events?tree=true&limit=${limit}${after}`)
      events.push(...body.events)
      expect(body.events.length).toBeLessThanOrEqual(limit)
      after = `&after=${body.after}`
      if (body.settled) break
    }
    expect(events).toEqual(whole)
  }
})

test('6.6 a page of the tree holds the root\'s `settled` back, and waits past it for what follows', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ task: 'root' })
  await service.result(root.id)
  const child = await service.start({ ...hang, parent: { runId: root.id } })
  await (await readEvents(service, child.id)).until(({ event }) => event === 'step/start')
  const { body: first } = await service.call('GET', `/v1/runs/${root.id}/events?tree=true&limit=1000`)
  expect(first.settled).toBe(false)
  expect(first.events.map(({ type }: { type: string }) => type)).not.toContain('settled')
  const waiting = service.call('GET', `/v1/runs/${root.id}/events?tree=true&wait=20&after=${first.after}`)
  await cancel(service, child.id)
  const rest = [...(await waiting).body.events]
  for (let { after, settled } = (await waiting).body; !settled;) {
    const { body } = await service.call('GET', `/v1/runs/${root.id}/events?tree=true&wait=20&after=${after}`)
    rest.push(...body.events)
    ;({ after, settled } = body)
  }
  expect(rest.at(-1)).toMatchObject({ runId: root.id, type: 'settled' })
  expect(rest.filter(({ type }) => type === 'run/settled')).toMatchObject([{ runId: child.id }])
})
