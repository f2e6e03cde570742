import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'
import { busy, playHost } from './busy-run.ts'

interface Page { events: { runId: string, seq: number, type: string, data: object }[], after: string | null, settled: boolean }
const page = async (service: Service, id: string, query = '', headers: Record<string, string> = {}): Promise<Page> =>
  (await service.call<Page>('GET', `/v1/runs/${id}/events${query}`, undefined, headers)).body

async function settledRun (service: Service): Promise<string> {
  const { id } = await service.start(busy())
  await playHost(service, id)
  return id
}

test('6.6 a page is JSON for `*/*`, for JSON and without Accept; with `settled` at its end', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  for (const accept of ['*/*', 'application/json', 'application/*', 'text/html, */*;q=0.1', 'application/json, text/event-stream;q=0.5']) {
    const answer = await service.call<Page>('GET', `/v1/runs/${id}/events`, undefined, { accept })
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    expect(answer.body).toMatchObject({ settled: true, after: expect.any(String) })
    expect(answer.body.events.at(-1)).toMatchObject({ runId: id, type: 'settled', data: { runId: id, stopReason: 'completed' } })
  }
})

test('6.6 pages of any size make the same whole, each going on where the last ended', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const { events: whole } = await page(service, id)
  expect(whole.map(({ seq }) => seq)).toEqual(whole.map((_, seq) => seq))
  for (const limit of [1, 2, 7, whole.length - 1, whole.length, 1000]) {
    const events: unknown[] = []
    for (let query = `?limit=${limit}`; ;) {
      const next = await page(service, id, query)
      events.push(...next.events)
      expect(next.events.length).toBeLessThanOrEqual(limit)
      expect(next.settled).toBe(next.events.at(-1)?.type === 'settled')
      query = `?limit=${limit}&after=${next.after}`
      if (next.settled) break
    }
    expect(events).toEqual(whole)
  }
})

test('6.6 a page after the end is empty and settled', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  const { after } = await page(service, id)
  expect(await page(service, id, `?after=${after}&wait=20`)).toEqual({ events: [], after, settled: true })
})

test('6.6 a page of an open run has what there is, at once, and is not settled', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  await service.call('GET', `/v1/runs/${id}/result?wait=10`)
  const first = await page(service, id)
  expect(first.settled).toBe(false)
  expect(first.events.at(-1)?.type).toBe('tool/call')
  expect(await page(service, id, `?after=${first.after}`)).toEqual({ events: [], after: first.after, settled: false })
})

test('6.6 `wait` holds the page until the first event after its cursor', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  await service.call('GET', `/v1/runs/${id}/result?wait=10`)
  const { after, events } = await page(service, id)
  const waiting = page(service, id, `?after=${after}&wait=20`)
  await playHost(service, id)
  const next = await waiting
  expect(next.events[0]).toMatchObject({ seq: events.length, type: 'tool/result' })
})

test('6.6 `wait` ends when its time is up, with an empty page', async () => {
  const service = await startService(onTestFinished, { env: { MAX_WAIT_SECONDS: '1' } })
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ hang: true }] } })
  const { after } = await page(service, id, '?wait=1')
  const begun = performance.now()
  expect(await page(service, id, `?after=${after}&wait=50`)).toMatchObject({ settled: false })
  expect(performance.now() - begun).toBeGreaterThan(500)
})

test('6.6 bad limits, waits and parameters are refused by name', async () => {
  const service = await startService(onTestFinished)
  const id = await settledRun(service)
  for (const [query, pointer] of [
    ['limit=0', '/limit'], ['limit=1001', '/limit'], ['limit=x', '/limit'], ['limit=1&limit=2', '/limit'], ['wait=-1', '/wait'], ['tree=1', '/tree'], ['from=1', '/from']
  ]) {
    const answer = await service.call('GET', `/v1/runs/${id}/events?${query}`)
    expect([query, answer.status, answer.body.errors?.[0]?.pointer]).toEqual([query, 400, pointer])
  }
  expect((await service.call('GET', `/v1/runs/${id}/events`, undefined, { accept: 'text/html' })).body).toMatchObject({ status: 406, code: 'NOT_ACCEPTABLE' })
  expect((await service.call('GET', '/v1/runs/nothing/events')).body).toMatchObject({ status: 404, code: 'RUN_NOT_FOUND' })
})

test('6.6 a page of events that are being written is cut at what is committed, never within a commit it missed', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start(busy())
  const pages = async (): Promise<Page['events']> => {
    const events: Page['events'] = []
    for (let query = '?wait=20'; ;) {
      const next = await page(service, id, query)
      events.push(...next.events)
      query = `?wait=20&after=${next.after}`
      if (next.settled) return events
    }
  }
  const reading = Promise.all(Array.from({ length: 8 }, pages))
  await playHost(service, id)
  const { events: whole } = await page(service, id)
  for (const events of await reading) expect(events).toEqual(whole)
})
