import { expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import { CommitQueue, type Transaction } from '../../src/store/commit-queue.ts'
import { Durability } from '../../src/store/durability.ts'

class DiskFull extends Error {}

/** A transaction over an array: what is committed, in order. Durable at once, unless the test has a disk. */
function createFake (fail: Partial<Record<'begin' | 'commit' | 'rollback', () => void>> = {}, flush?: () => Promise<void>) {
  const committed: string[] = []
  const faults: unknown[] = []
  const sizes: number[] = []
  let open: string[] = []
  const transaction: Transaction = {
    begin: () => {
      open = []
      fail.begin?.()
    },
    commit: () => {
      fail.commit?.()
      sizes.push(open.length)
      committed.push(...open)
    },
    rollback: () => {
      open = []
      fail.rollback?.()
    },
    isStoreFault: (error) => error instanceof DiskFull,
    onFault: (error) => faults.push(error)
  }
  const durability = new Durability({ flush, onFault: transaction.onFault })
  const queue = new CommitQueue(transaction, durability)
  const write = async (word: string, level?: 'written' | 'durable'): Promise<string> => queue.write(() => {
    open.push(word)
    return word
  }, level)
  return { queue, write, committed, faults, sizes, durability }
}

/** The same on a disk whose flushes the test ends. */
function createFakeOnDisk () {
  const flushes: PromiseWithResolvers<void>[] = []
  const fake = createFake({}, () => {
    const flush = Promise.withResolvers<void>()
    flushes.push(flush)
    return flush.promise
  })
  const told: string[] = []
  const write = (word: string, level?: 'written' | 'durable'): Promise<unknown> =>
    fake.write(word, level).then(() => told.push(word), () => told.push(`lost ${word}`))
  return { ...fake, flushes, told, write }
}
const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

test('writes of one turn share a commit, in the order of the calls', async () => {
  const { write, committed, sizes } = createFake()
  expect(await Promise.all(['a', 'b', 'c'].map((word) => write(word)))).toEqual(['a', 'b', 'c'])
  expect(committed).toEqual(['a', 'b', 'c'])
  expect(sizes).toEqual([3])
  await write('d')
  expect(sizes).toEqual([3, 1])
})

test('no promise settles before the commit, a refusal neither', async () => {
  const told: string[] = []
  const { queue, write } = createFake({ commit: () => { told.push('commit') } })
  const refused = queue.write(() => { throw refuse('RUN_EXISTS', { id: 'x' }) }).catch(() => { told.push('refused') })
  await Promise.all([write('a').then(() => { told.push('written') }), refused])
  expect(told[0]).toBe('commit')
  expect(told.slice(1).toSorted()).toEqual(['refused', 'written'])
})

test('a store that fails rejects the whole batch, tells the cause once, and takes the next one', async () => {
  let full = true
  const { queue, write, committed, faults } = createFake({ commit: () => { if (full) throw new DiskFull('full') } })
  const refused = queue.write(() => { throw refuse('RUN_EXISTS', { id: 'x' }) })
  const outcomes = await Promise.allSettled([write('a'), refused, write('b')])
  const reason = { code: 'STORE_UNAVAILABLE', context: { retryAfter: 5 }, cause: { message: 'full' } }
  expect(outcomes).toMatchObject([{ reason }, { reason }, { reason }])
  expect(faults).toEqual([new DiskFull('full')])
  full = false
  await write('c')
  expect(committed).toEqual(['c'])
})

test('a store that fails inside an operation fails the batch', async () => {
  const { queue, write, committed, faults } = createFake()
  const outcomes = await Promise.allSettled([write('a'), queue.write(() => { throw new DiskFull('full') }), write('b')])
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(faults).toHaveLength(1)
  expect(committed).toEqual([])
})

test('an operation with a fault of its own rejects alone, with that fault; the others are written once', async () => {
  const { queue, write, committed, faults } = createFake()
  const wrong = queue.write(() => { throw new TypeError('wrong') })
  const outcomes = await Promise.allSettled([write('a'), wrong, write('b')])
  expect(outcomes).toMatchObject([{ value: 'a' }, { reason: new TypeError('wrong') }, { value: 'b' }])
  expect(committed).toEqual(['a', 'b'])
  expect(faults).toEqual([])
})

test('a rollback that fails too is told with both causes', async () => {
  const { write, faults } = createFake({
    begin: () => { throw new DiskFull('full') },
    rollback: () => { throw new Error('lost') }
  })
  await expect(write('a')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(faults[0]).toMatchObject({ errors: [{ message: 'full' }, { message: 'lost' }] })
})

test('a flush takes 2000 operations at most and lets others have their turn', async () => {
  const { write, sizes } = createFake()
  const turns: number[] = []
  const all = Promise.all(Array.from({ length: 4500 }, async (_, i) => write(`${i}`)))
  setImmediate(() => { turns.push(sizes.length) })
  await all
  expect(sizes).toEqual([2000, 2000, 500])
  expect(turns).toEqual([1])
})

test('a write is told of once a flush that began after its commit is over, one that is only written at its commit', async () => {
  const { write, flushes, told, committed } = createFakeOnDisk()
  const early = write('early', 'written')
  await early
  await turn()
  expect(flushes).toHaveLength(0)
  const all = [write('a'), write('b', 'written')]
  await all[1]
  await turn()
  expect({ committed, told }).toEqual({ committed: ['early', 'a', 'b'], told: ['early', 'b'] })
  expect(flushes).toHaveLength(1)
  flushes[0]?.resolve()
  await all[0]
  expect(told).toEqual(['early', 'b', 'a'])
})

test('writes that come while a flush is under way share the commit after it, and the flush after that', async () => {
  const { write, flushes, told, sizes } = createFakeOnDisk()
  const first = write('a')
  await turn()
  const later = [write('b')]
  await turn()
  later.push(write('c'))
  await turn()
  expect(sizes).toEqual([1])
  flushes[0]?.resolve()
  await first
  await turn()
  await turn()
  expect({ sizes, told, flushes: flushes.length }).toEqual({ sizes: [1, 2], told: ['a'], flushes: 2 })
  flushes[1]?.resolve()
  await Promise.all(later)
  expect(told).toEqual(['a', 'b', 'c'])
})

test('a refusal is not told before what it rests on is durable', async () => {
  const { queue, write, flushes, told } = createFakeOnDisk()
  await write('a', 'written')
  const refused = queue.write(() => { throw refuse('RUN_EXISTS', { id: 'x' }) }, 'written').catch(() => told.push('refused'))
  await turn()
  await turn()
  expect({ told, flushes: flushes.length }).toEqual({ told: ['a'], flushes: 1 })
  flushes[0]?.resolve()
  await refused
  expect(told).toEqual(['a', 'refused'])
})

test('a flush that fails loses all that is not durable and every later write; its cause is told once', async () => {
  const { queue, write, flushes, told, faults, committed } = createFakeOnDisk()
  const before = write('a')
  await turn()
  flushes[0]?.resolve()
  await before
  const lost = [write('b')]
  await turn()
  lost.push(write('c'))
  flushes[1]?.reject(new Error('EIO'))
  await Promise.all(lost)
  await write('d', 'written')
  expect(told).toEqual(['a', 'lost b', 'lost c', 'lost d'])
  expect(committed).toEqual(['a', 'b'])
  expect(faults).toEqual([new Error('EIO')])
  await queue.close()
  expect(flushes).toHaveLength(2)
})

test('close waits for the flush of all that was written', async () => {
  const { queue, write, flushes, told } = createFakeOnDisk()
  const written = [write('a')]
  await turn()
  written.push(write('b'))
  const closed = queue.close().then(() => told.push('closed'))
  await turn()
  expect(told).toEqual([])
  flushes[0]?.resolve()
  await turn()
  flushes[1]?.resolve()
  await Promise.all([...written, closed])
  expect(told).toEqual(['a', 'b', 'closed'])
})

test('close writes what is queued, then refuses', async () => {
  const { queue, write, committed } = createFake()
  const written = write('a')
  await queue.close()
  expect(committed).toEqual(['a'])
  await written
  await expect(write('b')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
})
