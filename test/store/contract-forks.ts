import { describe, expect, test } from 'vitest'
import type { NewStore } from './contract.ts'
import { append, at, childOf, publish, refused, said, T, turn } from './support.ts'

export function describeForks (name: string, newStore: NewStore): void {
  describe(`${name}: forks`, () => {
    test('3.3 a fork reads the prefix and its own events; neither log sees what the other adds', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, [...turn(1), said('open')])
      const child = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 3 } })
      expect(child.firstSeq).toBe(3)
      await append(store, parent, 4, [said('parent goes on')])
      await append(store, child, 3, turn(2, 'child'))
      expect(await store.readEvents(child.segment, 0)).toEqual(at(0, [...turn(1), ...turn(2, 'child')]))
      expect(await store.readEvents(child.segment, 2, 4)).toEqual(at(0, [...turn(1), ...turn(2, 'child')]).slice(2, 4))
      expect(await store.readEvents(parent.segment, 3)).toEqual(at(3, [said('open'), said('parent goes on')]))
    })

    test('3.5 the completed turns of a fork count on after its seed', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, [...turn(1), ...turn(2), said('x')])
      expect(await store.getSession(T, parent.sessionId)).toMatchObject({ length: 7, completedLength: 6, turns: 2 })
      const early = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 3 } })
      const late = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 6 } })
      expect(await store.getSession(T, early.sessionId)).toMatchObject({ length: 3, completedLength: 3, turns: 1 })
      expect(await store.getSession(T, late.sessionId)).toMatchObject({ length: 6, completedLength: 6, turns: 2 })
      await append(store, late, 6, turn(3))
      const grandchild = await publish(store, { run: childOf(late), seed: { segment: late.segment, length: 3 } })
      expect(await store.getSession(T, grandchild.sessionId)).toMatchObject({ completedLength: 3, turns: 1 })
      expect(await store.readEvents(grandchild.segment, 0)).toEqual(at(0, turn(1)))
    })

    test('3.5 turns that a parent completed after the fork are none of the fork', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, turn(1))
      const child = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 3 } })
      await append(store, parent, 3, turn(2))
      await append(store, child, 3, [said('a'), said('b'), said('c'), said('d'), ...turn(2)])
      const grandchild = await publish(store, { run: childOf(child), seed: { segment: child.segment, length: 7 } })
      expect(await store.getSession(T, grandchild.sessionId)).toMatchObject({ length: 7, completedLength: 3, turns: 1 })
    })

    test('3.4 an empty seed is no seed', async () => {
      const store = await newStore()
      const parent = await publish(store)
      for (const seed of [{ segment: parent.segment, length: 0 }, { events: [] }]) {
        const child = await publish(store, { run: childOf(parent), seed })
        expect(child.firstSeq).toBe(0)
        expect(await store.readEvents(child.segment, 0)).toEqual([])
      }
    })

    test('3.6 a host\'s transcript becomes the seed; a fork of the fork shares it', async () => {
      const store = await newStore({ now: () => 777 })
      const child = await publish(store, { seed: { events: [...turn(1), ...turn(2)] } })
      expect(child.firstSeq).toBe(6)
      expect(await store.readEvents(child.segment, 0)).toEqual(at(0, [...turn(1), ...turn(2)], 777))
      expect(await store.getSession(T, child.sessionId)).toMatchObject({ length: 6, completedLength: 6, turns: 2 })
      expect(await store.readTree(T, child.id, 0, 10)).toEqual([])
      const fork = await publish(store, { run: childOf(child), seed: { segment: child.segment, length: 3 } })
      expect(await store.readEvents(fork.segment, 0)).toEqual(at(0, turn(1), 777))
    })

    test('3.7 a seed that is gone, or longer than the log, is refused', async () => {
      const store = await newStore()
      const parent = await publish(store)
      await append(store, parent, 0, turn(1))
      const fork = async (segment: number, length: number): Promise<unknown> =>
        publish(store, { run: childOf(parent), seed: { segment, length } })
      await refused(fork(parent.segment, 4), 'SESSION_NOT_FOUND', { id: parent.sessionId })
      await refused(fork(123_456_789, 1), 'SESSION_NOT_FOUND')
      const deleted = store.deleteSession(T, parent.sessionId)
      await refused(fork(parent.segment, 3), 'SESSION_NOT_FOUND')
      await deleted
    })

    test('forks of forks of forks read one log through all of them', async () => {
      const store = await newStore()
      let parent = await publish(store)
      const whole = []
      for (let n = 1; n <= 12; n++) {
        await append(store, parent, whole.length, turn(n))
        whole.push(...turn(n))
        parent = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: whole.length } })
      }
      expect(await store.readEvents(parent.segment, 0)).toEqual(at(0, whole))
      expect(await store.readEvents(parent.segment, 4, 20)).toEqual(at(0, whole).slice(4, 20))
      expect(await store.readEvents(parent.segment, 0, undefined, 10)).toEqual(at(0, whole).slice(0, 10))
    })
  })
}
