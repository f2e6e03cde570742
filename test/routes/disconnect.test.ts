import { expect, test } from 'vitest'
import type { StreamItem } from '../../src/runs/api.ts'
import { createApp, open } from './app.ts'
import { RUN_ID, runView } from './fake-runs.ts'

const json = { 'content-type': 'application/json' }
const onAbort = (signal: AbortSignal) => new Promise<void>((resolve) => {
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => { resolve() }, { once: true })
})

/** An app whose starts wait until their signal ends them, and that tells when one does, and when a run was given up. */
function createWaiting (onTestFinished: Parameters<typeof createApp>[0]) {
  const test = createApp(onTestFinished)
  const waiting = Promise.withResolvers<void>()
  const lost = Promise.withResolvers<string>()
  const ended = Promise.withResolvers<void>()
  let waits = 0
  test.runs.override.wait = async (_caller, _id, { signal }) => {
    waits++
    waiting.resolve()
    await onAbort(signal)
    ended.resolve()
    return runView()
  }
  test.runs.override.disconnected = async (_caller, id) => { lost.resolve(id) }
  const cancelled = () => test.runs.asked.filter(({ call }) => call === 'disconnected').length
  return { ...test, waiting: waiting.promise, lost: lost.promise, ended: ended.promise, cancelled, waits: () => waits }
}
const waitFor = (headers: Record<string, string> = {}, body: object = {}) =>
  (
    {
      method: 'POST', path: '/v1/runs', headers: { ...json, prefer: 'wait=50', ...headers },
      body: JSON.stringify({ task: 'a', ...body })
    }
  )

test('3 a client that leaves before publication aborts the start', async ({ onTestFinished }) => {
  const { app, runs } = createApp(onTestFinished)
  const starting = Promise.withResolvers<void>()
  const aborted = Promise.withResolvers<unknown>()
  runs.override.start = async (_caller, _input, { signal }) => {
    starting.resolve()
    await onAbort(signal)
    aborted.resolve(signal.reason)
    throw signal.reason
  }
  const { request } = await open(app, waitFor())
  await starting.promise
  request.destroy()
  expect(await aborted.promise).toMatchObject({ message: 'the client went away' })
  expect(runs.asked.map(({ call }) => call)).toEqual(['start'])
})

test('3 a client that leaves a waiting start cancels its run', async ({ onTestFinished }) => {
  const { app, waiting, lost } = createWaiting(onTestFinished)
  const { request } = await open(app, waitFor())
  await waiting
  request.destroy()
  expect(await lost).toBe(RUN_ID)
})

test.for<[name: string, headers: Record<string, string>, body: object]>([
  ['an Idempotency-Key', { 'idempotency-key': 'k' }, {}], ['an id', {}, { id: RUN_ID }], [
    'onDisconnect: continue', {}, { onDisconnect: 'continue' }
  ]
])('3 a start with %s goes on without its client', async ([, headers, body], { onTestFinished }) => {
  const { app, waiting, ended, cancelled } = createWaiting(onTestFinished)
  const { request } = await open(app, waitFor(headers, body))
  await waiting
  request.destroy()
  await ended
  await new Promise((resolve) => { setImmediate(resolve) })
  expect(cancelled()).toBe(0)
})

test('3 the run is cancelled only when no request of its start is attached any more', async ({ onTestFinished }) => {
  const { app, ended, lost, cancelled, waits } = createWaiting(onTestFinished)
  const headers = { 'idempotency-key': 'k' }
  const first = await open(app, waitFor(headers, { onDisconnect: 'cancel' }))
  const second = await open(app, waitFor(headers, { onDisconnect: 'cancel' }))
  while (waits() < 2) await new Promise((resolve) => { setImmediate(resolve) })
  first.request.destroy()
  await ended
  await new Promise((resolve) => { setImmediate(resolve) })
  expect(cancelled()).toBe(0)
  second.request.destroy()
  await lost
  expect(cancelled()).toBe(1)
})

test('3 an answered start is no lost client, nor is our own closing', async ({ onTestFinished }) => {
  const { app, runs, closing, waiting, cancelled } = createWaiting(onTestFinished)
  const { response } = await open(app, waitFor())
  await waiting
  closing.abort(new Error('shutting down'))
  const answer = await response
  expect(answer.statusCode).toBe(201)
  answer.resume()
  await new Promise((resolve) => { answer.once('close', resolve) })
  await app.close()
  expect(cancelled()).toBe(0)
  expect(runs.asked.map(({ call }) => call)).toEqual(['start', 'wait'])
})

test('3 a client that leaves a result?wait harms no run', async ({ onTestFinished }) => {
  const { app, waiting, ended, cancelled } = createWaiting(onTestFinished)
  const { request } = await open(app, { path: '/v1/runs/x/result?wait=50' })
  await waiting
  request.destroy()
  await ended
  await new Promise((resolve) => { setImmediate(resolve) })
  expect(cancelled()).toBe(0)
})

test('3 leaving a streaming start cancels its run, leaving an events stream does not', async ({ onTestFinished }) => {
  const { app, runs, lost, cancelled } = createWaiting(onTestFinished)
  const endings: Promise<void>[] = []
  runs.override.stream = async (_caller, _id, { signal }) => {
    const over = onAbort(signal)
    endings.push(over)
    return {
      ended: false,
      items: (async function * (): AsyncGenerator<StreamItem[]> { yield [{ type: 'run', run: runView() }]; await over })()
    }
  }
  const events = { accept: 'text/event-stream' }
  const reader = await open(app, { path: '/v1/runs/x/events', headers: events })
  await reader.response
  reader.request.destroy()
  await endings[0]
  await new Promise((resolve) => { setImmediate(resolve) })
  expect(cancelled()).toBe(0)
  const starter = await open(app, { method: 'POST', path: '/v1/runs', headers: { ...json, ...events }, body: '{"task":"a"}' })
  expect((await starter.response).headers['location']).toBe(`/v1/runs/${RUN_ID}`)
  starter.request.destroy()
  await lost
  await endings[1]
})

test('close() ends what waits without a closing signal', async ({ onTestFinished }) => {
  const { app, waiting, cancelled } = createWaiting(onTestFinished)
  const { response } = await open(app, waitFor())
  await waiting
  const closed = app.close()
  ;(await response).resume()
  await closed
  expect(cancelled()).toBe(0)
})
