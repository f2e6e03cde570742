import { describe, expect, test } from 'vitest'
import type { NewStore } from './contract.ts'
import { append, at, childOf, newId, publication, publish, refused, said, settle, T, turn } from './support.ts'

export function describePublication (name: string, newStore: NewStore): void {
  describe(`${name}: publication`, () => {
    test('2.1 a published run is read back as it was given, with its spec and its session', async () => {
      const store = await newStore()
      const given = publication({
        run: {
          label: 'a\0b \ud800 "\\"', model: 'x/\udfff', notices: ['n'], metadata: { __proto: 'a', 'k"': '\\' }, status: 'queued',
          pendingToolCalls: [{ toolCallId: 'c', name: 't', input: { 10: 1, 2: [null] }, deadline: null }],
          cancel: { at: 1, reason: null, by: 'request' }, error: { code: 'INTERNAL', message: 'm', retryable: false }
        }
      })
      const placed = await store.publish(given)
      expect(placed.firstSeq).toBe(0)
      expect(await store.getRun(T, given.run.id)).toEqual({ ...given.run, ...placed })
      expect(await store.getSpec(T, given.run.id)).toEqual(given.spec)
      expect(await store.getSession(T, given.run.sessionId)).toEqual({
        id: given.run.sessionId, tenant: T, segment: placed.segment, header: given.header, registered: false, length: 0,
        completedLength: 0, turns: 0, tail: [], model: null, format: null, metadata: {}
      })
    })

    test('2.1 what the caller changes after the call is not written', async () => {
      const store = await newStore()
      const given = publication()
      const written = store.publish(given)
      given.spec.model = 'other'
      given.run.status = 'settled'
      await written
      expect(await store.getSpec(T, given.run.id)).toMatchObject({ model: 'scripted/demo' })
      expect(await store.getRun(T, given.run.id)).toMatchObject({ status: 'running' })
    })

    test('2.6 a taken id is refused, by a run as by a session; another tenant may use it', async () => {
      const store = await newStore()
      const run = await publish(store)
      await refused(publish(store, { run: { id: run.id } }), 'RUN_EXISTS', { id: run.id })
      const session = newId()
      await store.createSession({
        header: { id: session, tenant: T, createdAt: 1 }, events: [], tail: [], length: 0, model: null, format: null, metadata: {}
      })
      await refused(publish(store, { run: { id: session } }), 'RUN_EXISTS')
      await publish(store, { run: { id: run.id, tenant: 'tenant-b' } })
      expect(await store.getRun('tenant-b', run.id)).toMatchObject({ tenant: 'tenant-b' })
    })

    test('4.1 a refused publication leaves nothing: no row, no session, no key; its id can be used again', async () => {
      const store = await newStore()
      const parent = await publish(store)
      const idempotency = { route: 'runs', key: 'k', bodyHash: 'h' }
      const id = newId()
      await refused(publish(store, { run: childOf(parent, { id }), treeRuns: 1, idempotency }), 'TREE_LIMIT')
      expect(await store.getRun(T, id)).toBeUndefined()
      expect(await store.getSession(T, id)).toBeUndefined()
      expect(await store.findIdempotency(T, 'runs', 'k')).toBeUndefined()
      await publish(store, { run: childOf(parent, { id }), treeRuns: 2, idempotency })
      expect(await store.findIdempotency(T, 'runs', 'k')).toEqual({ ...idempotency, subject: id })
    })

    test('2.4 a key binds at publication: the same body names the run it made, another body is a mismatch', async () => {
      const store = await newStore()
      const idempotency = { route: 'runs', key: 'k', bodyHash: 'h' }
      const first = await publish(store, { idempotency })
      await refused(publish(store, { idempotency }), 'RUN_EXISTS', { id: first.id })
      await refused(publish(store, { idempotency: { ...idempotency, bodyHash: 'other' } }), 'IDEMPOTENCY_MISMATCH')
      await publish(store, { idempotency: { ...idempotency, route: 'sessions', bodyHash: 'other' } })
      await publish(store, { idempotency: { ...idempotency, bodyHash: 'other' }, run: { tenant: 'tenant-b' } })
      expect(await store.findIdempotency(T, 'runs', 'k')).toMatchObject({ subject: first.id })
    })

    test('2.4 of two starts with one key in the same turn exactly one is published', async () => {
      const store = await newStore()
      const idempotency = { route: 'runs', key: 'k', bodyHash: 'h' }
      const first = publication({ idempotency })
      const second = publication({ idempotency })
      const outcomes = await Promise.allSettled([store.publish(first), store.publish(second)])
      const reason = { code: 'RUN_EXISTS', context: { id: first.run.id } }
      expect(outcomes).toMatchObject([{ status: 'fulfilled' }, { status: 'rejected', reason }])
      expect(await store.getRun(T, second.run.id)).toBeUndefined()
    })

    test('2.7 a parent whose cancellation was asked has no more children, also when asked in the same turn', async () => {
      const store = await newStore()
      const parent = await publish(store)
      const child = publication({ run: childOf(parent) })
      const cancelled = store.patchRun(T, parent.id, { cancel: { at: 1, reason: null, by: 'request' } })
      await refused(store.publish(child), 'PARENT_ABORTED', { id: parent.id })
      await cancelled
      expect(await store.descendants(T, parent.id)).toEqual([])
    })

    test('2.7 a parent that is gone has no children; a settled one can be forked', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, turn(1))
      await settle(store, parent, 3)
      await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 3 } })
      await refused(publish(store, { run: { parentRunId: newId() } }), 'PARENT_ABORTED')
    })

    test('7.3 whoever goes on with a child outlives its parent, but not the parent\'s cancellation; another run of its id is another', async () => {
      const store = await newStore()
      const parent = await publish(store)
      const child = await publish(store, { run: childOf(parent) })
      const next = (continues: string) => ({ run: { ...childOf(parent), sessionId: child.sessionId, continues } })
      await settle(store, child, 0)
      await store.patchRun(T, parent.id, { cancel: { at: 1, reason: null, by: 'request' } })
      await refused(publish(store, next(child.id)), 'PARENT_ABORTED', { id: parent.id })
      await settle(store, parent, 0)
      await store.deleteRuns(T, [parent.id])
      const second = await publish(store, next(child.id))
      expect(await store.getRun(T, second.id)).toMatchObject({ parentRunId: parent.id, rootId: parent.id, sessionId: child.sessionId })
      await settle(store, second, 1)
      await publish(store, { run: { id: parent.id, sessionId: parent.id, rootId: parent.id } })
      await store.patchRun(T, parent.id, { cancel: { at: 1, reason: null, by: 'request' } })
      await publish(store, next(second.id))
    })

    test('2.5 the tree under a root holds at most treeRuns runs, in one turn too', async () => {
      const store = await newStore()
      const root = await publish(store, { treeRuns: 1 })
      const starts = [1, 2, 3, 4].map(async () => publish(store, { run: childOf(root), treeRuns: 3 }))
      const outcomes = await Promise.allSettled(starts)
      expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected'])
      expect(outcomes[2]).toMatchObject({ reason: { code: 'TREE_LIMIT', message: 'subagent tree exceeds 3 runs' } })
      expect(await store.descendants(T, root.id)).toHaveLength(2)
      await publish(store, { treeRuns: 3 })
    })

    test('7.3 a follow-up goes on in the log of its session; one open run a session', async () => {
      const store = await newStore()
      const first = await publish(store)
      await append(store, first, 0, turn(1))
      const followUp = { run: { continues: first.id, sessionId: first.sessionId } }
      await refused(publish(store, followUp), 'SESSION_CONFLICT', { length: 3 })
      const settled = settle(store, first, 3)
      const second = await publish(store, followUp)
      await settled
      expect(second).toMatchObject({ segment: first.segment, firstSeq: 4 })
      expect(second.id).not.toBe(first.id)
      await refused(publish(store, followUp), 'SESSION_CONFLICT')
      await refused(publish(store, { run: { continues: first.id, sessionId: newId() } }), 'SESSION_NOT_FOUND')
      expect(await store.getSession(T, first.sessionId)).toMatchObject({ length: 4, completedLength: 3, turns: 1 })
    })

    test('a seed that is not as long as the run says is an error of the caller and writes nothing', async () => {
      const store = await newStore()
      const given = publication({ seed: { events: turn(1) } })
      given.run.seed = { turns: 1, events: 2 }
      await expect(store.publish(given)).rejects.toThrow('says its seed has 2 events, it has 3')
      expect(await store.getRun(T, given.run.id)).toBeUndefined()
    })

    test('a refused write does not disturb the others of its turn', async () => {
      const store = await newStore()
      const run = await publish(store)
      const outcomes = await Promise.allSettled([
        append(store, run, 0, [said('a')]),
        publish(store, { run: { id: run.id } }),
        append(store, run, 1, [said('b')]),
        store.patchRun(T, newId(), { startedAt: 1 })
      ])
      expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
      expect(await store.readEvents(run.segment, 0)).toEqual(at(0, [said('a'), said('b')]))
    })
  })
}
