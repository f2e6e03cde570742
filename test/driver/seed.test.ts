import { expect, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import type { RunRecord } from '../../src/core/run.ts'
import type { Store } from '../../src/core/store.ts'
import { readSeed } from '../../src/driver/seed.ts'

const stored = Array.from({ length: 2500 }, (_, seq) => ({ type: 'step/end', seq, time: 0, data: { turn: 1, step: 1 } }) as SessionEvent)

/** A store that counts its reads. */
function reader (onRead: (n: number) => void = () => {}, length = stored.length) {
  const reads: number[] = []
  const readEvents: Store['readEvents'] = (_, from, to, limit = Infinity) => {
    onRead(reads.push(from))
    return Promise.resolve(stored.slice(from, Math.min(to ?? length, from + limit, length)))
  }
  return { reads, store: { readEvents } as Store }
}
const record = (events: number) => ({ id: 'r', segment: 1, seed: { turns: 1, events } }) as RunRecord
const { signal } = new AbortController()

test('3.7 a long seed is read in pages, whole and in order; an empty one is not read at all', async () => {
  const { reads, store } = reader()
  expect(await readSeed(store, record(2500), signal)).toEqual(stored)
  expect(reads.length).toBeGreaterThan(5)
  expect(reads).toEqual(reads.map((_, page) => page * (reads[1] ?? 0)))
  const before = reads.length
  expect(await readSeed(store, record(0), signal)).toEqual([])
  expect(reads).toHaveLength(before)
})

test('§5 a cancellation does not wait for the rest of a long seed', async () => {
  const controller = new AbortController()
  const { reads, store } = reader(() => controller.abort())
  expect(await readSeed(store, record(2500), controller.signal)).toBeUndefined()
  expect(reads).toEqual([0])
})

test('a seed that the store holds less of is a fault, not a shorter history', async () => {
  const { store } = reader(undefined, 1700)
  await expect(readSeed(store, record(2500), signal)).rejects.toThrow('the seed of run r ends at 1700 of 2500 events')
})
