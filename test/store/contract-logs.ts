import { describe, expect, test } from 'vitest'
import { noUsage, text, type NewEvent } from '../../src/core/events.ts'
import type { NewStore } from './contract.ts'
import { append, at, childOf, newId, publish, refused, resultOf, said, settle, T, turn } from './support.ts'

export function describeLogs (name: string, newStore: NewStore): void {
  describe(`${name}: logs`, () => {
    test('2.1 events are read back equal, whatever text they hold', async () => {
      const store = await newStore()
      const run = await publish(store)
      const hostile: NewEvent[] = [
        said('NUL \0, lone \ud800, \udfff, quote \', emoji \u{1f600}, \u2028'),
        {
          type: 'tool/call',
          data: { toolCallId: 'c', name: 't', input: { b: 1, a: [1e21, 0.1, {}], 2: '' }, executor: 'host', idempotent: true }
        },
        { type: 'run/structured', data: { toolCallId: 'c', value: JSON.parse('{"__proto__":{"constructor":1}}') as never } }
      ]
      const time = 1_767_225_600_123
      await store.append({ segment: run.segment, events: at(0, hostile, time) })
      const read = await store.readEvents(run.segment, 0)
      expect(JSON.stringify(read)).toBe(JSON.stringify(hostile.map(({ type, data }, seq) => ({ type, seq, time, data }))))
    })

    test('a range and a limit are read exactly', async () => {
      const store = await newStore()
      const run = await publish(store)
      const events = at(0, Array.from({ length: 2500 }, (_, i) => said(`${i}`)))
      await store.append({ segment: run.segment, events })
      expect(await store.readEvents(run.segment, 0)).toEqual(events)
      expect(await store.readEvents(run.segment, 10, 20)).toEqual(events.slice(10, 20))
      expect(await store.readEvents(run.segment, 999, undefined, 1002)).toEqual(events.slice(999, 2001))
      expect(await store.readEvents(run.segment, 2499)).toEqual(events.slice(2499))
      expect(await store.readEvents(run.segment, 2500)).toEqual([])
      expect(await store.readEvents(run.segment, 5, 5)).toEqual([])
      expect(await store.readEvents(run.segment, 5, 9, 0)).toEqual([])
    })

    test('2.3 an append and the change of its run are one: both or neither', async () => {
      const store = await newStore()
      const run = await publish(store)
      const usage = { ...noUsage(), inputTokens: 5, steps: 1 }
      await append(store, run, 0, [said('a')], { usage, startedAt: 7 })
      expect(await store.getRun(T, run.id)).toMatchObject({ usage, startedAt: 7, status: 'running' })
      const missing = append(store, { ...run, id: newId() }, 1, [said('b')], { startedAt: 8 })
      await refused(missing, 'RUN_NOT_FOUND')
      const gap = append(store, run, 2, [said('c')], { startedAt: 9 })
      await refused(gap, 'STORE_UNAVAILABLE')
      expect(await store.readEvents(run.segment, 0)).toHaveLength(1)
      expect(await store.getRun(T, run.id)).toMatchObject({ startedAt: 7 })
    })

    test('a log never has a hole nor two events of one place', async () => {
      const store = await newStore()
      const run = await publish(store)
      const lost = append(store, run, 1, [said('b')])
      await refused(lost, 'STORE_UNAVAILABLE', { retryAfter: 5 })
      await append(store, run, 0, [said('a')])
      await refused(append(store, run, 0, [said('again')]), 'STORE_UNAVAILABLE')
      const torn = [...at(1, [said('b')]), ...at(3, [said('d')])]
      await expect(store.append({ segment: run.segment, events: torn })).rejects.toThrow('contiguous')
      await refused(store.append({ segment: 999_999_999, events: at(0, [said('a')]) }), 'SESSION_NOT_FOUND')
      expect(await store.readEvents(run.segment, 0)).toEqual(at(0, [said('a')]))
    })

    test('changes of one run in one turn all take effect, the later over the earlier', async () => {
      const store = await newStore()
      const run = await publish(store)
      await Promise.all([
        store.patchRun(T, run.id, { status: 'waiting', notices: ['a'] }),
        append(store, run, 0, [said('a')], { startedAt: 3, notices: ['a', 'b'] }),
        store.patchRun(T, run.id, { status: 'running', error: null })
      ])
      const changed = { status: 'running', startedAt: 3, notices: ['a', 'b'], stopReason: null }
      expect(await store.getRun(T, run.id)).toMatchObject(changed)
    })

    test('7.3 a settled run never changes: of two terminal writes exactly one wins', async () => {
      const store = await newStore()
      const run = await publish(store)
      const abort = { status: 'settled', stopReason: 'aborted', settledAt: 9001, result: resultOf('aborted') } as const
      const outcomes = await Promise.allSettled([settle(store, run, 0), store.patchRun(T, run.id, abort)])
      expect(outcomes).toMatchObject([{ status: 'fulfilled' }, { status: 'rejected', reason: { code: 'RUN_SETTLED' } }])
      await refused(store.patchRun(T, run.id, { cancel: { at: 1, reason: null, by: 'request' } }), 'RUN_SETTLED')
      await refused(settle(store, run, 1), 'RUN_SETTLED')
      const settled = { status: 'settled', stopReason: 'completed', settledAt: 9000, cancel: null, result: resultOf() }
      expect(await store.getRun(T, run.id)).toMatchObject(settled)
      expect(await store.readEvents(run.segment, 0)).toHaveLength(1)
    })

    test('2.4 a key bound to an append is found for its body, and refuses another', async () => {
      const store = await newStore()
      const run = await publish(store)
      const record = { route: 'tool-results', key: 'k', bodyHash: 'h', subject: '{"a":1}' }
      const idempotency = { tenant: T, ...record }
      await store.append({ segment: run.segment, events: at(0, [said('a')]), idempotency })
      expect(await store.findIdempotency(T, 'tool-results', 'k')).toEqual(record)
      const events = at(1, [said('b')])
      const other = store.append({ segment: run.segment, events, idempotency: { ...idempotency, bodyHash: 'x' } })
      await refused(other, 'IDEMPOTENCY_MISMATCH')
      const again = store.append({ segment: run.segment, events, idempotency })
      await refused(again, 'SESSION_CONFLICT')
      expect(await store.readEvents(run.segment, 0)).toHaveLength(1)
    })

    test('6.1 a tree has one order, the order of the appends, and any place in it is resumed exactly', async () => {
      const store = await newStore()
      const root = await publish(store)
      await append(store, root, 0, turn(1))
      const child = await publish(store, { run: childOf(root), seed: { segment: root.segment, length: 3 } })
      const grandchild = await publish(store, { run: childOf(child, { rootId: root.id }) })
      const runs = [root, child, grandchild]
      const next = new Map([[root.id, 3], [child.id, 3], [grandchild.id, 0]])
      const expected = turn(1).map((event, i) => ({ runId: root.id, event: at(i, [event])[0] }))
      for (let i = 0; i < 400; i++) {
        const run = runs[(i * i + i % 7) % 3] as typeof root
        const seq = next.get(run.id) as number
        const event = at(seq, [said(`${i}`)])
        next.set(run.id, seq + 1)
        expected.push({ runId: run.id, event: event[0] })
        void store.append({ segment: run.segment, events: event })
      }
      await store.ping()
      const all = await store.readTree(T, root.id, 0, 1000)
      expect(all.map(({ runId, event }) => ({ runId, event }))).toEqual(expected)
      expect(all.map(({ pos }) => pos)).toEqual(all.map(({ pos }) => pos).toSorted((a, b) => a - b))
      for (const place of [0, 1, 2, 3, 150, 300, 401, 402]) {
        expect(await store.readTree(T, root.id, all[place]?.pos as number, 90)).toEqual(all.slice(place + 1, place + 91))
      }
      expect(await store.readTree(T, child.id, 0, 1000)).toEqual(all.filter(({ runId }) => runId !== root.id))
      expect(await store.readTree('tenant-b', root.id, 0, 10)).toEqual([])
    })

    test('6.3 what follows run/settled in a shared log belongs to the follow-up, never to the run before it', async () => {
      const store = await newStore()
      const first = await publish(store)
      await append(store, first, 0, turn(1))
      await settle(store, first, 3)
      const second = await publish(store, { run: { continues: first.id, sessionId: first.sessionId } })
      await append(store, first, 4, turn(2))
      const seqs = async (id: string): Promise<number[]> => (await store.readTree(T, id, 0, 100)).map(({ event }) => event.seq)
      expect(await seqs(first.id)).toEqual([0, 1, 2, 3])
      expect(await seqs(second.id)).toEqual([4, 5, 6])
    })

    test('a run that settles without an event ends where its log ends', async () => {
      const store = await newStore()
      const first = await publish(store)
      await append(store, first, 0, [said('a')])
      await store.patchRun(T, first.id, { status: 'settled', stopReason: 'aborted', settledAt: 5 })
      await publish(store, { run: { continues: first.id, sessionId: first.sessionId } })
      await append(store, first, 1, [said('b')])
      expect(await store.readTree(T, first.id, 0, 10)).toMatchObject([{ event: { data: { content: [text('a')] } } }])
    })

    test('after close everything is refused, what was asked before it is written, and closing again is harmless', async () => {
      const store = await newStore()
      const run = await publish(store)
      await store.ping()
      const written = append(store, run, 0, [said('a')])
      await Promise.all([store.close(), store.close()])
      await written
      await refused(append(store, run, 1, [said('b')]), 'STORE_UNAVAILABLE')
      await refused(store.getRun(T, run.id), 'STORE_UNAVAILABLE')
      await refused(store.readEvents(run.segment, 0), 'STORE_UNAVAILABLE')
      await refused(store.sweep(0), 'STORE_UNAVAILABLE')
      await refused(store.ping(), 'STORE_UNAVAILABLE')
    })
  })
}
