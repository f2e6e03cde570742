import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { StreamItem } from '../../src/runs/api.ts'
import { makeFolder, startService } from '../support/service.ts'
import { readEvents, type SseEvent } from '../support/sse.ts'

const names = (events: readonly SseEvent[]): string[] => events.map(({ event }) => event)

/** Resolves once a method was called again. */
function nextCall<K extends string> (owner: Record<K, (...args: never[]) => unknown>, method: K): Promise<unknown> {
  const called = Promise.withResolvers<undefined>()
  const real = owner[method]
  owner[method] = (...args) => {
    called.resolve(undefined)
    owner[method] = real
    return real(...args)
  }
  return called.promise
}

test('a stream of a run that the service leaves to its next start ends without `settled`, as does a page', async () => {
  const folder = makeFolder(onTestFinished)
  const service = await startService(onTestFinished, { env: { DATABASE_URL: `sqlite:${join(folder, 'runs.db')}` } })
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const readers = [await readEvents(service, id), await readEvents(service, id, { tree: true })]
  for (const reader of readers) await reader.until(({ event }) => event === 'step/start')
  const { body: { after } } = await service.call('GET', `/v1/runs/${id}/events`)
  const waiting = nextCall(service.app.registry, 'watchRoot')
  const page = service.call('GET', `/v1/runs/${id}/events?wait=20&after=${after}`)
  await waiting
  const left = await service.stop()
  expect(left).toBe(1)
  expect((await page).body).toEqual({ events: [], after, settled: false })
  for (const reader of readers) expect(names(await reader.all())).not.toContain('settled')
})

test('a run that is disposed sends its readers the aborted result, also one that was behind', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const readers = [await readEvents(service, id), await readEvents(service, id, { tree: true })]
  for (const reader of readers) await reader.until(({ event }) => event === 'step/start')
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  for (const reader of readers) expect((await reader.all()).at(-1)).toMatchObject({ event: 'settled', data: { data: { stopReason: 'aborted' } } })
  expect((await readEvents(service, id)).status).toBe(404)
})

test('a reader that was behind when its run was forgotten still gets the aborted result', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const readers: AsyncIterator<StreamItem[]>[] = []
  for (const tree of [false, true]) {
    const opened = await service.app.runs.stream({ tenant: 'default' }, id, { tree, signal: new AbortController().signal })
    if (opened.ended) throw new Error('the stream is over')
    readers.push(opened.items[Symbol.asyncIterator]())
  }
  // Each has taken its first item and asks for nothing more until the run is gone.
  for (const reader of readers) expect((await reader.next()).value).toMatchObject([{ type: 'run' }])
  await service.call('DELETE', `/v1/runs/${id}`)
  for (const reader of readers) {
    const items: { type: string }[] = []
    for (let next = await reader.next(); !next.done; next = await reader.next()) items.push(...next.value)
    expect(items.at(-1)).toMatchObject({ type: 'settled', result: { stopReason: 'aborted' } })
  }
})

test('no listener stays when a stream ends, whichever way', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const live = service.app.registry.live('default', id)
  if (!live) throw new Error('the run is not live')
  const counts = { log: 0, status: 0, deltas: 0, tree: 0 }
  const counted = <A extends unknown[]>(what: keyof typeof counts, watch: (...args: A) => () => void) => (...args: A): (() => void) => {
    const stop = watch(...args)
    let left = false
    counts[what]++
    return () => {
      if (!left) counts[what]--
      left = true
      stop()
    }
  }
  live.log.observe = counted('log', live.log.observe.bind(live.log))
  live.deltas.onChange = counted('deltas', live.deltas.onChange.bind(live.deltas))
  Object.assign(live, { onStatus: counted('status', live.onStatus.bind(live)) })
  Object.assign(service.app.registry, { watchRoot: counted('tree', service.app.registry.watchRoot) })
  const readers = await Promise.all([false, true, false, true].map((tree) => readEvents(service, id, { tree })))
  for (const reader of readers) await reader.until(({ event }) => event === 'step/start')
  const pages = ['', '&tree=true'].map(async (tree) => {
    const { body } = await service.call('GET', `/v1/runs/${id}/events?limit=1000${tree}`)
    return await service.call('GET', `/v1/runs/${id}/events?wait=20&after=${body.after}${tree}`)
  })
  expect(counts).toMatchObject({ deltas: 4, tree: expect.any(Number) })
  for (const reader of readers.slice(0, 2)) reader.leave()
  await expect.poll(() => counts.deltas).toBe(2)
  await service.call('POST', `/v1/runs/${id}/cancel?wait=5`, {})
  await Promise.all([...readers.slice(2).map((reader) => reader.all()), ...pages])
  await expect.poll(() => counts).toEqual({ log: 0, status: 0, deltas: 0, tree: 0 })
})
