import { describe, expect, test } from 'vitest'
import type { NewStore } from './contract.ts'
import { at, hostSession, newId, publish, refused, said, T, turn } from './support.ts'

export function describeSessions (name: string, newStore: NewStore): void {
  describe(`${name}: sessions of a host`, () => {
    test('a session is kept as it was given and can be forked', async () => {
      const store = await newStore({ now: () => 42 })
      const events = [...turn(1), ...turn(2)]
      const more = { model: 'm/\ud800', format: 'anthropic', metadata: { a: 'b' } }
      const given = hostSession({ events, tail: ['{"role":"user"}'], length: 5, ...more })
      const made = await store.createSession(given)
      expect(made).toEqual({
        id: given.header.id, tenant: T, segment: made.segment, header: given.header, registered: true, length: 5,
        completedLength: 6, turns: 2, tail: given.tail, ...more
      })
      expect(await store.getSession(T, made.id)).toEqual(made)
      expect(await store.readEvents(made.segment, 0)).toEqual(at(0, events, 42))
      const seed = { segment: made.segment, length: made.completedLength }
      const run = await publish(store, { run: { parentSessionId: made.id }, seed })
      expect((await store.runsOfSession(T, made.id)).map(({ id }) => id)).toEqual([run.id])
    })

    test('a session without a completed turn seeds nothing', async () => {
      const store = await newStore()
      expect(await store.createSession(hostSession({ events: [] }))).toMatchObject({ completedLength: 0, turns: 0 })
    })

    test('a taken id is refused, by a session as by a run', async () => {
      const store = await newStore()
      const { id } = await store.createSession(hostSession())
      await refused(store.createSession(hostSession({}, id)), 'SESSION_CONFLICT')
      const run = await publish(store)
      await refused(store.createSession(hostSession({}, run.id)), 'SESSION_CONFLICT')
    })

    test('an append must name the length it follows; of two at once exactly one is written', async () => {
      const store = await newStore()
      const { id, segment } = await store.createSession(hostSession())
      const growth = { events: turn(2), tail: ['t'], length: 4 }
      const outcomes = await Promise.allSettled([store.appendSession(T, id, 2, growth), store.appendSession(T, id, 2, growth)])
      expect(outcomes).toMatchObject([
        { status: 'fulfilled', value: { length: 4, completedLength: 6, turns: 2, tail: ['t'] } },
        { status: 'rejected', reason: { code: 'SESSION_CONFLICT', context: { length: 4 } } }
      ])
      expect(await store.readEvents(segment, 0, undefined)).toHaveLength(6)
      const grown = await store.appendSession(T, id, 4, { events: [], tail: ['t', 'u'], length: 5 })
      expect(grown).toMatchObject({ length: 5, completedLength: 6 })
      await refused(store.appendSession(T, newId(), 0, growth), 'SESSION_NOT_FOUND')
    })

    test('the session of a run takes no messages from a host', async () => {
      const store = await newStore()
      const run = await publish(store)
      const grown = store.appendSession(T, run.sessionId, 0, { events: turn(1), tail: [], length: 1 })
      await refused(grown, 'SESSION_CONFLICT')
      expect(await store.readEvents(run.segment, 0)).toEqual([])
    })

    test('2.4 keys of sessions and messages name the session; another body is a mismatch and writes nothing', async () => {
      const store = await newStore()
      const key = { route: 'sessions', key: 'k', bodyHash: 'h' }
      const { id } = await store.createSession(hostSession(), key)
      expect(await store.findIdempotency(T, 'sessions', 'k')).toEqual({ ...key, subject: id })
      await refused(store.createSession(hostSession(), { ...key, bodyHash: 'x' }), 'IDEMPOTENCY_MISMATCH')
      await refused(store.createSession(hostSession(), key), 'SESSION_CONFLICT')
      const message = { route: 'messages', key: 'k', bodyHash: 'h' }
      const growth = { events: [said('x')], tail: [], length: 3 }
      await store.appendSession(T, id, 2, growth, message)
      await refused(store.appendSession(T, id, 3, growth, { ...message, bodyHash: 'x' }), 'IDEMPOTENCY_MISMATCH')
      expect(await store.getSession(T, id)).toMatchObject({ length: 3 })
    })

    test('3.7 a deleted session is unreadable at once; forks of it read on, before and after a sweep', async () => {
      const store = await newStore()
      const session = await store.createSession(hostSession({ events: [...turn(1), ...turn(2)] }))
      const fork = await publish(store, { run: { parentSessionId: session.id }, seed: { segment: session.segment, length: 3 } })
      await store.deleteSession(T, session.id)
      await store.deleteSession(T, session.id)
      for (const sweeps of [0, 1, 1]) {
        if (sweeps === 1) await store.sweep(0)
        expect(await store.getSession(T, session.id)).toBeUndefined()
        expect(await store.readEvents(session.segment, 0)).toEqual([])
        expect(await store.readEvents(fork.segment, 0)).toHaveLength(3)
      }
      await refused(store.appendSession(T, session.id, 2, { events: [], tail: [], length: 2 }), 'SESSION_NOT_FOUND')
      await store.createSession(hostSession({}, session.id))
    })
  })
}
