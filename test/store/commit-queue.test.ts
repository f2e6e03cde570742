import { expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import { CommitQueue, type Transaction } from '../../src/store/commit-queue.ts'

class DiskFull extends Error {}

/** A transaction over an array: what is committed, in order. */
function createFake (fail: Partial<Record<'begin' | 'commit' | 'rollback', () => void>> = {}) {
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
  const queue = new CommitQueue(transaction)
  const write = async (word: string): Promise<string> => queue.write(() => {
    open.push(word)
    return word
  })
  return { queue, write, committed, faults, sizes }
}

test('writes of one turn share a commit, in the order of the calls', async () => {
  const { write, committed, sizes } = createFake()
  expect(await Promise.all(['a', 'b', 'c'].map(write))).toEqual(['a', 'b', 'c'])
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

test('close writes what is queued, then refuses', async () => {
  const { queue, write, committed } = createFake()
  const written = write('a')
  queue.close()
  expect(committed).toEqual(['a'])
  await written
  await expect(write('b')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
})
