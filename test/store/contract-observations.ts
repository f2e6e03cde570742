import { describe, expect, test } from 'vitest'
import type { ObservedWrite, Store } from '../../src/core/store.ts'
import type { NewStore } from './contract.ts'
import { at, childOf, newId, publication, publish, refused, resultOf, said, T, turn, type Published } from './support.ts'

const chatOf = (store: Store): Promise<Published> => publish(store, { run: { provider: 'claude-code', status: 'idle', external: { framesAccepted: 0 } } })
const child = (chat: Published, more: object = {}) => publication({ run: childOf(chat, { provider: 'claude-code', external: { id: 'a-1' }, ...more }) })
const lines = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => `{"line":${from + i}}`)
const settled = (id: string, seq: number): Pick<ObservedWrite, 'events' | 'patch'> => ({
  events: at(seq, [{ type: 'run/settled', data: { runId: id, result: resultOf() } }]),
  patch: { status: 'settled', stopReason: 'completed', settledAt: 9000, result: resultOf() }
})

export function describeObservations (name: string, newStore: NewStore): void {
  describe(`${name}: external chats`, () => {
    test('ingest: lines, logs, rows and new children are one write, in its order', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const made = child(chat)
      const { id } = made.run
      const places = await store.observe({
        tenant: T, chat: chat.id, frames: { from: 0, lines: lines(0, 3) }, writes: [
          { id: chat.id, events: at(0, turn(1).slice(0, 2)), patch: { status: 'running' } },
          { id, publication: made, events: at(0, [said('child')]) },
          { id: chat.id, events: at(2, [said('between')]), patch: { external: { framesAccepted: 3, id: 's-1' } } },
          { id, events: at(1, [said('again')]) }
        ]
      })
      const place = places.get(id)
      expect(place?.firstSeq).toBe(0)
      expect([...places.keys()]).toEqual([id])
      expect(await store.getRun(T, chat.id)).toMatchObject({ status: 'running', external: { framesAccepted: 3, id: 's-1' } })
      expect(await store.getRun(T, id)).toMatchObject({ status: 'running', segment: place?.segment, external: { id: 'a-1' } })
      expect((await store.readTree(T, chat.id, 0, 10)).map(({ runId, event }) => [runId === id, event.seq])).toEqual([[false, 0], [false, 1], [true, 0], [false, 2], [true, 1]])
      expect(await store.readFrames(T, chat.id, 0, 10)).toEqual(lines(0, 3))
      expect(await store.runningChildren(T, [chat.id])).toEqual(new Map([[chat.id, 1]]))
    })

    test('ingest: all of it or nothing, whichever part is refused', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const first = child(chat)
      const write = { id: chat.id, events: at(0, [said('a')]), patch: { status: 'running' as const } }
      const born = { id: first.run.id, publication: first, events: at(0, [said('b')]) }
      await refused(store.observe({ tenant: T, chat: chat.id, frames: { from: 1, lines: lines(1, 2) }, writes: [write, born] }), 'FRAME_GAP', { expected: 0 })
      await refused(store.observe({ tenant: T, chat: chat.id, frames: { from: 0, lines: lines(0, 1) }, writes: [write, born, { id: newId(), events: [] }] }), 'RUN_NOT_FOUND')
      await refused(store.observe({ tenant: T, chat: chat.id, frames: { from: 0, lines: lines(0, 1) }, writes: [write, born, { ...born, events: [] }] }), 'RUN_EXISTS')
      await refused(store.observe({ tenant: T, chat: newId(), frames: { from: 0, lines: lines(0, 1) }, writes: [write] }), 'RUN_NOT_FOUND')
      await refused(store.observe({ tenant: T, chat: chat.id, writes: [write, { id: chat.id, events: at(2, [said('gap')]) }] }), 'STORE_UNAVAILABLE')
      expect(await store.readEvents(chat.segment, 0)).toEqual([])
      expect(await store.readFrames(T, chat.id, 0, 10)).toEqual([])
      expect(await store.getRun(T, chat.id)).toMatchObject({ status: 'idle' })
      expect(await store.descendants(T, chat.id)).toEqual([])
      await store.observe({ tenant: T, chat: chat.id, frames: { from: 0, lines: lines(0, 1) }, writes: [write, born] })
      expect(await store.readFrames(T, chat.id, 0, 10)).toEqual(lines(0, 1))
    })

    test('ingest: a journal has no gap and no line twice, and is read from any number on', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const append = (from: number, to: number): Promise<unknown> => store.observe({ tenant: T, chat: chat.id, frames: { from, lines: lines(from, to) }, writes: [] })
      await Promise.all([append(0, 10), append(10, 11), append(11, 300)])
      await refused(append(301, 302), 'FRAME_GAP', { expected: 300 })
      await refused(append(299, 302), 'FRAME_GAP', { expected: 300 })
      for (const from of [0, 1, 9, 10, 11, 12, 299]) {
        const read = await store.readFrames(T, chat.id, from, 400)
        expect(read).toEqual(lines(from, 300))
        expect((await store.readFrames(T, chat.id, from, 1)).slice(0, 1)).toEqual(lines(from, from + 1))
      }
      expect(await store.readFrames(T, chat.id, 300, 10)).toEqual([])
      expect(await store.readFrames('tenant-b', chat.id, 0, 10)).toEqual([])
      expect(await store.readFrames(T, newId(), 0, 10)).toEqual([])
    })

    test('ingest: a read of long lines ends early, and the next one goes on from there', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const long = Array.from({ length: 12 }, (_, i) => `${i}`.repeat(1_500_000 / `${i}`.length))
      await store.observe({ tenant: T, chat: chat.id, frames: { from: 0, lines: long }, writes: [] })
      const found: string[] = []
      for (let read = await store.readFrames(T, chat.id, 0, 1000); read.length > 0; read = await store.readFrames(T, chat.id, found.length, 1000)) {
        expect(read.length).toBeLessThan(5)
        found.push(...read)
      }
      expect(found).toEqual(long)
    })

    test('ingest: any text is a line', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const odd = ['', '', 'NUL \0 here', '\r', '\u2028', '\u{1f600}', '"', "';--", ' ', '']
      await store.observe({ tenant: T, chat: chat.id, frames: { from: 0, lines: odd }, writes: [] })
      await store.observe({ tenant: T, chat: chat.id, frames: { from: odd.length, lines: [''] }, writes: [] })
      expect(await store.readFrames(T, chat.id, 0, 100)).toEqual([...odd, ''])
      expect(await store.readFrames(T, chat.id, 9, 100)).toEqual(['', ''])
    })

    test('B4 a run that continues a settled child stands on its session, whose log goes on', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      const first = child(chat)
      await store.observe({ tenant: T, chat: chat.id, writes: [{ id: first.run.id, publication: first, events: at(0, turn(1)) }, { id: first.run.id, ...settled(first.run.id, 3) }] })
      const second = child(chat, { continues: first.run.id, sessionId: first.run.sessionId })
      const places = await store.observe({ tenant: T, chat: chat.id, writes: [{ id: second.run.id, publication: second, events: at(4, turn(2)) }] })
      expect(places.get(second.run.id)).toMatchObject({ firstSeq: 4 })
      expect(await store.getSession(T, first.run.sessionId)).toMatchObject({ length: 7, turns: 2, completedLength: 7 })
      const third = child(chat, { continues: second.run.id, sessionId: newId() })
      await refused(store.observe({ tenant: T, chat: chat.id, writes: [{ id: third.run.id, publication: third, events: [] }] }), 'SESSION_NOT_FOUND')
    })

    test('ingest: a child that was seen is kept, though its parent\'s cancellation is known already', async () => {
      const store = await newStore()
      const chat = await chatOf(store)
      await store.patchRun(T, chat.id, { cancel: { at: 1, reason: null, by: 'request' } })
      const made = { ...child(chat), observed: true as const }
      await store.observe({ tenant: T, chat: chat.id, writes: [{ id: made.run.id, publication: made, events: [] }] })
      expect(await store.descendants(T, chat.id)).toHaveLength(1)
    })

    test('9 the journal of a chat that is gone goes in small steps, others\' stay, and its id finds nothing', async () => {
      const store = await newStore()
      const [gone, kept] = [await chatOf(store), await chatOf(store)]
      const big = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(70_000, 'x'))
      for (const { id } of [gone, kept]) await store.observe({ tenant: T, chat: id, frames: { from: 0, lines: big }, writes: [] })
      await store.observe({ tenant: T, chat: gone.id, writes: [{ id: gone.id, ...settled(gone.id, 0) }] })
      await store.deleteRuns(T, [gone.id])
      expect(await store.readFrames(T, gone.id, 0, 10)).toEqual([])
      let steps = 0
      let sweeping = true
      const swept = store.sweep(0).finally(() => { sweeping = false })
      for (; sweeping; steps++) await store.patchRun(T, kept.id, { notices: [`${steps}`] })
      await swept
      expect(steps).toBeGreaterThanOrEqual(3)
      const again = publication({ run: { id: gone.id, provider: 'claude-code', external: { framesAccepted: 0 } } })
      await store.publish(again)
      expect(await store.readFrames(T, gone.id, 0, 10)).toEqual([])
      expect(await store.readFrames(T, kept.id, 99, 10)).toEqual(big.slice(99))
    })
  })
}
