import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import type { Store } from '../../src/core/store.ts'
import { rowsOf } from '../store/files.ts'
import { turn } from '../store/support.ts'
import { openDriver, type Room } from '../support/driver-room.ts'
import { makeFolder, startService } from '../support/service.ts'

const MOST = 40_000
const messages = (count: number): object[] =>
  Array.from({ length: count }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: 'a' }))
const fork = (count: number, more: object = {}): object => ({
  provider: 'fork', task: 'go on', parent: { transcript: { format: 'openai-chat', messages: messages(count) } }, ...more
})

/** The longest time in which nothing else had a turn while `work` was under way. */
async function longestGap (work: () => Promise<unknown>): Promise<number> {
  let last = performance.now()
  let longest = 0
  const look = (): void => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  try {
    await work()
    look()
  } finally {
    clearInterval(timer)
  }
  return longest
}

/** The events written for a conversation of so many messages, in turns of two. */
const eventsOf = (count: number): number => count / 2 * 6

test('a start with as long a transcript as is taken holds up nobody, and the child has all of it', async () => {
  const service = await startService(onTestFinished, { alone: true })
  const body = JSON.stringify(fork(MOST))
  let id = ''
  const gap = await longestGap(async () => { id = (await service.call('POST', '/v1/runs', body)).body.id })
  expect(gap).toBeLessThan(3000)
  expect(await service.result(id)).toMatchObject({ stopReason: 'completed' })
  expect((await service.call('GET', `/v1/runs/${id}`)).body.seed).toEqual({ turns: MOST / 2, events: eventsOf(MOST) })
})

test('a session is made and grown by long pieces without holding up anybody, and a fork of it has all of them', async () => {
  const service = await startService(onTestFinished, { alone: true })
  const count = 20_000
  const transcript = { format: 'openai-chat', messages: messages(count) }
  let id = ''
  const made = await longestGap(async () => {
    const { status, body } = await service.call('POST', '/v1/sessions', { transcript })
    expect({ status, body }).toMatchObject({ status: 201, body: { length: count, turns: count / 2 } })
    id = body.id
  })
  const grown = await longestGap(async () => {
    const { body } = await service.call('POST', `/v1/sessions/${id}/messages`, { after: count, messages: messages(count) })
    expect(body).toMatchObject({ length: 2 * count, turns: count })
  })
  expect(Math.max(made, grown)).toBeLessThan(3000)
  const run = await service.start({ provider: 'fork', task: 'go on', parent: { sessionId: id } })
  expect(run.seed).toEqual({ turns: count, events: eventsOf(2 * count) })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed' })
})

test('more messages than that at once are refused, and told how to bring them', async () => {
  const service = await startService(onTestFinished)
  const { status, body } = await service.call('POST', '/v1/runs', fork(MOST + 1))
  expect({ status, body }).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', errors: [{ pointer: '/parent/transcript/messages' }] } })
  expect(body.detail).toContain(`at most ${MOST} items; keep a longer conversation here (POST /v1/sessions)`)
  const many = await service.call('POST', '/v1/runs', fork(300_000))
  expect(many).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST' } })
  expect(many.body.detail).toContain('POST /v1/sessions')
})

const ID = '0190c5a2-7b1e-7c3a-9f00-00000000abcd'
const NOTHING = { runs: 0, sessions: 0, segments: 0, events: 0, garbage: 0 }

test('2.6 a start that is cancelled while its transcript is taken in was never there', async () => {
  const path = join(makeFolder(onTestFinished), 'store.db')
  const service = await startService(onTestFinished, { env: { DATABASE_URL: `sqlite:${path}` }, alone: true })
  const started = service.call('POST', '/v1/runs', fork(MOST, { id: ID }))
  let status = 404
  while (status === 404) ({ status } = await service.call('POST', `/v1/runs/${ID}/cancel`))
  expect(status).toBe(202)
  expect(await started).toMatchObject({ status: 409, body: { code: 'START_ABORTED' } })
  expect(await service.call('GET', `/v1/runs/${ID}`)).toMatchObject({ status: 404 })
  await service.app.store.sweep(Date.now())
  await service.stop()
  expect(rowsOf(path)).toMatchObject(NOTHING)
})

/** A request whose parent came with so many turns, and is aborted once the first of them are being written. */
async function startThatEnds (wrap: (real: Store, abort: () => void) => Partial<Store>): Promise<{ started: Promise<unknown>, room: Room, path: string }> {
  const path = join(makeFolder(onTestFinished), 'store.db')
  const abort = new AbortController()
  const room = await openDriver(onTestFinished, { path, store: (real) => ({ ...real, ...wrap(real, () => abort.abort()) }) })
  const events = Array.from({ length: 2000 }, (_, i) => turn(i + 1)).flat()
  const seed = { stored: { events }, turns: 2000, events: events.length }
  const request = room.request({ signal: abort.signal, parent: { completedTurns: () => seed }, service: { id: ID } })
  return { started: room.providers.start('fork', request), room, path }
}

async function expectNothing ({ store, slots, faults }: Room, path: string): Promise<void> {
  for (let segment = 1; segment < 10; segment++) expect(await store.readEvents(segment, 0)).toEqual([])
  expect(await store.getRun('default', ID)).toBeUndefined()
  expect([slots.running, faults]).toEqual([0, []])
  await store.sweep(Date.now())
  await store.close()
  expect(rowsOf(path)).toMatchObject(NOTHING)
}

test('4.1 a start that is aborted between two pieces of its transcript leaves nothing to read, and no row after a sweep', async () => {
  const pieces: number[] = []
  const { started, room, path } = await startThatEnds((real, abort) => ({
    keepSeed (events, signal) {
      const kept = real.keepSeed(events, signal)
      const watch = (): unknown => pieces.push(0) < 5 ? setImmediate(watch) : abort()
      setImmediate(watch)
      return kept.finally(() => pieces.push(1))
    }
  }))
  await expect(started).rejects.toMatchObject({ code: 'START_ABORTED' })
  expect(pieces.at(-1)).toBe(1)
  await expectNothing(room, path)
})

test('4.1 a start that is refused at its publication gives up the transcript that it kept', async () => {
  const { started, room, path } = await startThatEnds(() => ({ publish: () => Promise.reject(refuse('TREE_LIMIT', { limit: 1 })) }))
  await expect(started).rejects.toMatchObject({ code: 'TREE_LIMIT' })
  await expectNothing(room, path)
})

test('2.8 a run on a long transcript is taken up again after a stop, and can be forked', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'store.db')}` }
  const first = await startService(onTestFinished, { env })
  const count = 2000
  const { id } = await first.start(fork(count, { agentOptions: { script: [{ hang: true }] } }))
  await first.stop()
  const second = await startService(onTestFinished, { env })
  const log = await second.log(id)
  expect(log.findLast((event) => event.type === 'turn/end')).toMatchObject({ seq: eventsOf(count) - 1, data: { turn: count / 2 } })
  const child = await second.start({ provider: 'fork', task: 'and you?', parent: { runId: id } })
  expect(child.seed).toEqual({ turns: count / 2, events: eventsOf(count) })
  expect(await second.result(child.id)).toMatchObject({ stopReason: 'completed' })
  await second.call('POST', `/v1/runs/${id}/cancel?wait=10`)
  expect(await second.result(id)).toMatchObject({ stopReason: 'aborted' })
})
