import { describe, expect, test } from 'vitest'
import type { NewStore } from './contract.ts'
import { append, at, childOf, createClock, DAY, hostSession, publish, refused, said, settle, T, turn } from './support.ts'

export function describeRetention (name: string, newStore: NewStore): void {
  const key = { route: 'runs', key: 'k', bodyHash: 'h' }

  describe(`${name}: forgetting`, () => {
    test('a deleted run is gone at once with its spec, session and log, and its id can be used again', async () => {
      const store = await newStore()
      const run = await publish(store, { idempotency: key })
      await append(store, run, 0, turn(1))
      const settled = settle(store, run, 3)
      await store.deleteRuns(T, [run.id])
      await settled
      expect(await store.getRun(T, run.id)).toBeUndefined()
      expect(await store.getSpec(T, run.id)).toBeUndefined()
      expect(await store.getSession(T, run.sessionId)).toBeUndefined()
      expect(await store.readEvents(run.segment, 0)).toEqual([])
      expect(await store.readTree(T, run.id, 0, 10)).toEqual([])
      await store.sweep(0)
      await publish(store, { run: { id: run.id } })
      expect(await store.readEvents(run.segment, 0)).toEqual([])
    })

    test('a run that is not settled is not forgotten', async () => {
      const store = await newStore()
      const open = await publish(store)
      await store.deleteRuns(T, [open.id])
      expect(await store.getRun(T, open.id)).toMatchObject({ status: 'running' })
      await append(store, open, 0, [said('a')])
    })

    test('a log that nobody owns takes no event', async () => {
      const store = await newStore()
      const run = await publish(store)
      await settle(store, run, 0)
      await store.deleteRuns(T, [run.id])
      await refused(append(store, run, 1, [said('late')]), 'SESSION_NOT_FOUND')
    })

    test('a log that loses its owner between two appends of one moment takes the first alone', async () => {
      const store = await newStore()
      const run = await publish(store)
      const fork = await publish(store, { run: childOf(run), seed: { events: turn(1) } })
      await Promise.all([
        append(store, fork, 3, [said('early')]),
        store.deleteSession(T, fork.sessionId),
        refused(append(store, fork, 4, [said('late')]), 'SESSION_NOT_FOUND')
      ])
      expect(await store.readEvents(fork.segment, 0)).toEqual([])
    })

    test('3.7 forks outlive what they were forked from, in any order of deletion', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, [...turn(1), ...turn(2), ...turn(3)])
      const child = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 6 } })
      await append(store, child, 6, turn(3, 'child'))
      const short = await publish(store, { run: childOf(child), seed: { segment: child.segment, length: 3 } })
      const long = await publish(store, { run: childOf(child), seed: { segment: child.segment, length: 9 } })
      await settle(store, parent, 9)
      await settle(store, child, 9)
      await store.deleteRuns(T, [parent.id])
      await store.sweep(0)
      expect(await store.readEvents(child.segment, 0, 9)).toEqual(at(0, [...turn(1), ...turn(2), ...turn(3, 'child')]))
      await store.deleteRuns(T, [child.id])
      await store.sweep(0)
      expect(await store.readEvents(long.segment, 0)).toEqual(at(0, [...turn(1), ...turn(2), ...turn(3, 'child')]))
      await settle(store, long, 9)
      await store.deleteRuns(T, [long.id])
      await store.sweep(0)
      expect(await store.readEvents(short.segment, 0)).toEqual(at(0, turn(1)))
    })

    test('a session that a follow-up stands on goes with the last of its runs', async () => {
      const store = await newStore()
      const first = await publish(store)
      await settle(store, first, 0)
      const second = await publish(store, { run: { continues: first.id, sessionId: first.sessionId } })
      await store.deleteRuns(T, [first.id])
      await store.sweep(0)
      expect(await store.getSession(T, first.sessionId)).toBeDefined()
      await settle(store, second, 1)
      await store.deleteRuns(T, [second.id])
      expect(await store.getSession(T, first.sessionId)).toBeUndefined()
    })

    test('a sweep forgets the settled runs whose time has come, tells how many, and no others', async () => {
      const store = await newStore({ retentionMs: 1000 })
      const given = await publish(store)
      const byRetention = await publish(store)
      const unending = await publish(store)
      const open = await publish(store, { run: { expiresAt: 1 } })
      await settle(store, given, 0, 9000, 9500)
      await settle(store, byRetention, 0, 9000)
      await store.patchRun(T, unending.id, { status: 'settled', settledAt: 9000, expiresAt: null })
      expect(await store.getRun(T, byRetention.id)).toMatchObject({ expiresAt: 10_000 })
      expect(await store.sweep(9499)).toBe(0)
      expect(await store.sweep(9500)).toBe(1)
      expect(await store.sweep(10_000)).toBe(1)
      expect(await store.sweep(Number.MAX_SAFE_INTEGER)).toBe(0)
      const left = await store.listRuns(T, {}, { limit: 10 })
      expect(left.map(({ id }) => id).toSorted()).toEqual([unending.id, open.id].toSorted())
    })

    test('many runs expire in one sweep', async () => {
      const store = await newStore()
      await Promise.all(Array.from({ length: 450 }, async () => settle(store, await publish(store), 0, 9000, 9500)))
      expect(await store.sweep(9500)).toBe(450)
      expect(await store.listRuns(T, {}, { limit: 10 })).toEqual([])
    })

    test('2.4 the key of a run is kept as long as the run, and at least a day', async () => {
      const clock = createClock()
      const store = await newStore({ now: clock.now })
      const brief = await publish(store, { idempotency: key })
      const lasting = await publish(store, { idempotency: { ...key, key: 'lasting' } })
      await settle(store, brief, 0, clock.now(), clock.now() + 10)
      clock.pass(DAY - 1)
      expect(await store.sweep(clock.now())).toBe(1)
      expect(await store.findIdempotency(T, 'runs', 'k')).toMatchObject({ subject: brief.id })
      clock.pass(1)
      expect(await store.findIdempotency(T, 'runs', 'k')).toBeUndefined()
      await store.sweep(clock.now())
      await publish(store, { idempotency: { ...key, bodyHash: 'other' } })
      clock.pass(30 * DAY)
      await store.sweep(clock.now())
      expect(await store.findIdempotency(T, 'runs', 'lasting')).toMatchObject({ subject: lasting.id })
    })

    test('2.4 the key of a deleted run names it until the key is a day old: nothing is made by it meanwhile', async () => {
      const clock = createClock()
      const store = await newStore({ now: clock.now })
      const run = await publish(store, { idempotency: key })
      const old = await publish(store, { idempotency: { ...key, key: 'old' } })
      await settle(store, run, 0, clock.now())
      await store.deleteRuns(T, [run.id])
      await store.sweep(clock.now())
      expect(await store.findIdempotency(T, 'runs', 'k')).toMatchObject({ subject: run.id, bodyHash: 'h' })
      await refused(publish(store, { idempotency: key }), 'RUN_EXISTS', { id: run.id })
      await refused(publish(store, { idempotency: { ...key, bodyHash: 'other' } }), 'IDEMPOTENCY_MISMATCH')
      clock.pass(DAY)
      await store.sweep(clock.now())
      await publish(store, { idempotency: { ...key, bodyHash: 'other' } })
      clock.pass(DAY)
      await settle(store, old, 0, clock.now())
      await store.deleteRuns(T, [old.id])
      expect(await store.findIdempotency(T, 'runs', 'old')).toBeUndefined()
    })

    test('2.4 keys of sessions, messages and tool results are kept a day; then they can be bound anew', async () => {
      const clock = createClock()
      const store = await newStore({ now: clock.now })
      const sessionKey = { ...key, route: 'sessions' }
      await store.createSession(hostSession(), sessionKey)
      const run = await publish(store)
      const idempotency = { ...key, route: 'tool-results', tenant: T, subject: '{}' }
      await store.append({ segment: run.segment, events: [], idempotency })
      clock.pass(DAY - 1)
      await store.sweep(clock.now())
      expect(await store.findIdempotency(T, 'sessions', 'k')).toBeDefined()
      expect(await store.findIdempotency(T, 'tool-results', 'k')).toBeDefined()
      clock.pass(1)
      expect(await store.findIdempotency(T, 'sessions', 'k')).toBeUndefined()
      const { id } = await store.createSession(hostSession(), { ...sessionKey, bodyHash: 'other' })
      await store.sweep(clock.now())
      expect(await store.findIdempotency(T, 'sessions', 'k')).toMatchObject({ subject: id })
      expect(await store.findIdempotency(T, 'tool-results', 'k')).toBeUndefined()
    })

    test('a host\'s session expires when nobody touched it for the retention and no run stands on it', async () => {
      const clock = createClock()
      const store = await newStore({ now: clock.now, retentionMs: 1000 })
      const idle = await store.createSession(hostSession())
      const parent = await store.createSession(hostSession())
      const grown = await store.createSession(hostSession())
      const run = await publish(store, { run: { parentSessionId: parent.id }, seed: { segment: parent.segment, length: 3 } })
      clock.pass(600)
      await store.appendSession(T, grown.id, 2, { events: [], tail: [], length: 3 })
      const left = async (): Promise<boolean[]> =>
        Promise.all([idle, parent, grown].map(async ({ id }) => await store.getSession(T, id) !== undefined))
      clock.pass(399)
      await store.sweep(clock.now())
      expect(await left()).toEqual([true, true, true])
      clock.pass(1)
      await store.sweep(clock.now())
      expect(await left()).toEqual([false, true, true])
      await settle(store, run, 3, clock.now())
      clock.pass(1000)
      await store.sweep(clock.now())
      expect(await left()).toEqual([false, false, false])
    })

    test('writes go on while a long log is swept away', async () => {
      const store = await newStore()
      const big = await publish(store)
      await append(store, big, 0, Array.from({ length: 9000 }, () => said('x')))
      await settle(store, big, 9000)
      const run = await publish(store)
      await store.deleteRuns(T, [big.id])
      let sweeping = true
      const swept = store.sweep(0).finally(() => { sweeping = false })
      let during = 0
      while (sweeping) {
        await append(store, run, during, [said('y')])
        during++
      }
      await swept
      expect(during).toBeGreaterThanOrEqual(9)
    })
  })
}
