import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { NewEvent } from '../../src/core/events.ts'
import type { Store } from '../../src/core/store.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { newPath, rowsOf } from './files.ts'
import { append, at, childOf, hostSession, publish, refused, said, settle, T, turn } from './support.ts'

/** Logs that are too long for one transaction: written in pieces, told of as a whole. */

const NOTHING = { events: 0, segments: 0, runs: 0, specs: 0, sessions: 0, idempotency: 0, garbage: 0 }
const TURNS = 700
const LONG = TURNS * 3
const turns = (count: number, from = 1): NewEvent[] => Array.from({ length: count }, (_, i) => turn(from + i)).flat()

async function openFile (): Promise<{ store: Store, path: string, rows: () => Promise<Record<string, number>> }> {
  const path = newPath()
  const store = await openSqliteStore({ path, now: () => 5000, onFault: (error) => expect.fail(`a fault: ${String(error)}`) })
  onTestFinished(() => store.close())
  /** What is in the file after a last sweep. */
  const rows = async (): Promise<Record<string, number>> => {
    await store.sweep(0)
    await store.close()
    return rowsOf(path)
  }
  return { store, path, rows }
}

test('3.7 a kept seed is read by nobody, a publication refers to it, and it goes with the last that does', async () => {
  const { store, rows } = await openFile()
  const seed = await store.keepSeed(turns(TURNS))
  expect(seed.length).toBe(LONG)
  expect(await store.readEvents(seed.segment, 0)).toEqual([])
  await store.sweep(0)
  const run = await publish(store, { seed })
  await store.sweep(0)
  await append(store, run, LONG, [said('own')])
  expect(await store.readEvents(run.segment, 0)).toEqual(at(0, [...turns(TURNS), said('own')]))
  expect(await store.getSession(T, run.sessionId)).toMatchObject({ length: LONG + 1, completedLength: LONG, turns: TURNS })
  expect(await store.readEvents(seed.segment, 0)).toEqual([])
  const fork = await publish(store, { run: childOf(run), seed: { segment: run.segment, length: 1200 } })
  await settle(store, run, LONG + 1)
  await store.deleteRuns(T, [run.id])
  await store.sweep(0)
  expect(await store.readEvents(fork.segment, 0)).toEqual(at(0, turns(400)))
  await settle(store, fork, 1200)
  await store.deleteRuns(T, [fork.id])
  expect(await rows()).toEqual(NOTHING)
})

test('other writes and reads have their turn while a long seed is written, and a sweep meanwhile leaves it whole', async () => {
  const { store } = await openFile()
  const run = await publish(store)
  let writing = true
  const kept = store.keepSeed(turns(4 * TURNS)).finally(() => { writing = false })
  let during = 0
  while (writing) {
    await store.sweep(0)
    await append(store, run, during, [said('y')])
    during++
  }
  expect(during).toBeGreaterThanOrEqual(2)
  const child = await publish(store, { seed: await kept })
  expect(await store.readEvents(child.segment, 0)).toHaveLength(4 * LONG)
})

test('a seed that is dropped is nobody\'s at once, and gone with the next sweep', async () => {
  const { store, rows } = await openFile()
  const seed = await store.keepSeed(turns(TURNS))
  store.dropSeed(seed.segment)
  store.dropSeed(seed.segment)
  await refused(publish(store, { seed }), 'SESSION_NOT_FOUND')
  expect(await rows()).toEqual(NOTHING)
})

test('a publication that is refused leaves its seed to whoever kept it', async () => {
  const { store, rows } = await openFile()
  const { id } = await publish(store)
  const seed = await store.keepSeed(turns(TURNS))
  await refused(publish(store, { run: { id }, seed }), 'RUN_EXISTS')
  await store.sweep(0)
  const run = await publish(store, { seed })
  expect(await store.readEvents(run.segment, 0)).toHaveLength(LONG)
  expect(await rows()).toMatchObject({ runs: 2, segments: 3, garbage: 0 })
})

test('4.1 a seed whose start is aborted in the middle is left unfinished, unreadable, and goes with the next sweep', async () => {
  const { store, rows } = await openFile()
  const abort = new AbortController()
  const reason = new Error('no more')
  const kept = store.keepSeed(turns(TURNS), abort.signal).catch((error: unknown) => error)
  const { segment } = await publish(store)
  await nextTurn()
  abort.abort(reason)
  expect(await kept).toBe(reason)
  await expect(store.keepSeed(turns(TURNS), abort.signal)).rejects.toBe(reason)
  for (let other = 1; other < segment + 5; other++) expect(await store.readEvents(other, 0)).toEqual([])
  expect(await rows()).toEqual({ ...NOTHING, segments: 1, runs: 1, specs: 1, sessions: 1 })
})

test('a seed that no publication followed before the process ended is swept by the next one', async () => {
  const { store, path } = await openFile()
  const { segment } = await store.keepSeed(turns(TURNS))
  await store.close()
  expect(rowsOf(path)).toMatchObject({ events: LONG, segments: 1, garbage: 1 })
  const next = await openSqliteStore({ path, now: () => 5000 })
  await refused(publish(next, { seed: { segment, length: LONG } }), 'SESSION_NOT_FOUND')
  await next.sweep(0)
  await next.close()
  expect(rowsOf(path)).toEqual(NOTHING)
})

test('a long session appears as a whole, with its key, and others have their turn before', async () => {
  const { store, rows } = await openFile()
  const given = hostSession({ events: turns(TURNS), tail: ['t'], length: 1401 })
  const key = { route: 'sessions', key: 'k', bodyHash: 'h' }
  let writing = true
  const created = store.createSession(given, key).finally(() => { writing = false })
  const run = await publish(store)
  let during = 0
  for (; writing; during++) {
    const found = await store.getSession(T, given.header.id)
    if (found) expect(found).toMatchObject({ turns: TURNS })
    await append(store, run, during, [said('y')])
  }
  expect(during).toBeGreaterThanOrEqual(2)
  const made = await created
  expect(made).toMatchObject({ length: 1401, completedLength: LONG, turns: TURNS, tail: ['t'] })
  expect(await store.getSession(T, made.id)).toEqual(made)
  expect(await store.readEvents(made.segment, 0)).toEqual(at(0, turns(TURNS)))
  expect(await store.findIdempotency(T, 'sessions', 'k')).toMatchObject({ subject: made.id })
  await refused(store.createSession(hostSession({ events: turns(TURNS) }, made.id)), 'SESSION_CONFLICT')
  await refused(store.createSession(hostSession({ events: turns(TURNS) }), { ...key, bodyHash: 'x' }), 'IDEMPOTENCY_MISMATCH')
  expect(await rows()).toMatchObject({ events: LONG + during, segments: 2, sessions: 2, garbage: 0 })
})

test('two long sessions of one id at once: one is made, of the other nothing stays', async () => {
  const { store, rows } = await openFile()
  const given = hostSession({ events: turns(TURNS) })
  const outcomes = await Promise.allSettled([store.createSession(given), store.createSession(given)])
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  expect(await rows()).toMatchObject({ events: LONG, segments: 1, sessions: 1, garbage: 0 })
})

test('a session grows by long pieces and short ones; who began on it before goes on with what they saw', async () => {
  const { store, rows } = await openFile()
  const first = await store.createSession(hostSession({ events: turns(1), length: 2 }))
  const second = await store.appendSession(T, first.id, 2, { events: turns(TURNS, 2), tail: ['t'], length: 1402 })
  expect(second).toMatchObject({ length: 1402, completedLength: LONG + 3, turns: TURNS + 1, tail: ['t'] })
  await store.appendSession(T, first.id, 1402, { events: turns(1, TURNS + 2), tail: [], length: 1404 })
  const last = await store.appendSession(T, first.id, 1404, { events: turns(TURNS, TURNS + 3), tail: [], length: 2804 })
  await store.sweep(0)
  const all = turns(2 * TURNS + 2)
  expect(await store.readEvents(last.segment, 0)).toEqual(at(0, all))
  expect(await store.readEvents(first.segment, 0)).toEqual(at(0, all.slice(0, 3)))
  const parentSessionId = first.id
  const early = await publish(store, { run: { parentSessionId }, seed: { segment: first.segment, length: 3 } })
  const late = await publish(store, { run: { parentSessionId }, seed: { segment: last.segment, length: all.length } })
  await settle(store, early, 3)
  await store.deleteRuns(T, [early.id])
  expect(await store.readEvents(first.segment, 0)).toHaveLength(3)
  await store.deleteSession(T, first.id)
  for (const { segment } of [first, second, last]) expect(await store.readEvents(segment, 0)).toEqual([])
  await refused(publish(store, { seed: { segment: first.segment, length: 3 } }), 'SESSION_NOT_FOUND')
  await store.sweep(0)
  expect(await store.readEvents(late.segment, 0)).toEqual(at(0, all))
  await settle(store, late, all.length)
  await store.deleteRuns(T, [late.id])
  expect(await rows()).toEqual(NOTHING)
})

test('of a long append and a short one to the same place exactly one is written, and nothing of the other stays', async () => {
  const { store, rows } = await openFile()
  const { id, segment } = await store.createSession(hostSession())
  const long = store.appendSession(T, id, 2, { events: turns(TURNS, 2), tail: [], length: 1402 })
  const outcomes = await Promise.allSettled([long, store.appendSession(T, id, 2, { events: turns(1, 2), tail: [], length: 4 })])
  expect(outcomes).toMatchObject([
    { status: 'rejected', reason: { code: 'SESSION_CONFLICT', context: { length: 4 } } },
    { status: 'fulfilled', value: { length: 4, segment } }
  ])
  expect(await store.readEvents(segment, 0)).toEqual(at(0, turns(2)))
  expect(await rows()).toMatchObject({ events: 6, segments: 1, sessions: 1, garbage: 0 })
})

test('a long append to a session that is deleted and made anew meanwhile does not land in the new one', async () => {
  const { store, rows } = await openFile()
  const given = hostSession()
  const { id } = await store.createSession(given)
  const growth = { events: turns(TURNS, 2), tail: [], length: 1402 }
  const long = store.appendSession(T, id, 2, growth)
  const [outcome] = await Promise.allSettled([long, store.deleteSession(T, id), store.createSession(given)])
  expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'SESSION_CONFLICT' } })
  await refused(store.appendSession(T, id, 7, growth), 'SESSION_CONFLICT')
  expect(await rows()).toMatchObject({ events: 3, segments: 1, sessions: 1, garbage: 0 })
})
