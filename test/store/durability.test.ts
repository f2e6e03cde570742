import { expect, test } from 'vitest'
import { Durability } from '../../src/store/durability.ts'

/** A disk whose flushes the test ends, in order. */
function createDisk () {
  const flushes: PromiseWithResolvers<void>[] = []
  const faults: unknown[] = []
  const durability = new Durability({
    flush: () => {
      const flush = Promise.withResolvers<void>()
      flushes.push(flush)
      return flush.promise
    },
    onFault: (error) => faults.push(error)
  })
  const told: string[] = []
  const reach = async (name: string): Promise<void> => {
    await durability.reach()
    told.push(name)
  }
  return { durability, flushes, faults, told, reach }
}
const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

test('nothing is flushed before somebody waits, and nobody waits for what is durable', async () => {
  const { durability, flushes } = createDisk()
  await durability.reach()
  durability.committed()
  durability.committed()
  expect(durability.pending).toBe(true)
  expect(flushes).toHaveLength(0)
  const reached = durability.reach()
  expect(flushes).toHaveLength(1)
  flushes[0]?.resolve()
  await reached
  expect(durability.pending).toBe(false)
  await durability.reach()
  expect(flushes).toHaveLength(1)
})

test('a commit that lands while a flush is under way is durable with the next one, which many share', async () => {
  const { durability, flushes, told, reach } = createDisk()
  durability.committed()
  const first = reach('first')
  durability.committed()
  const second = reach('second')
  durability.committed()
  const third = reach('third')
  expect(flushes).toHaveLength(1)
  flushes[0]?.resolve()
  await first
  await turn()
  expect(told).toEqual(['first'])
  expect(durability.pending).toBe(true)
  expect(flushes).toHaveLength(2)
  flushes[1]?.resolve()
  await Promise.all([second, third])
  expect(told).toEqual(['first', 'second', 'third'])
  expect(flushes).toHaveLength(2)
})

test('after a flush that failed nothing is durable any more, and none is tried again', async () => {
  const { durability, flushes, faults } = createDisk()
  durability.committed()
  const first = durability.reach()
  durability.committed()
  const second = durability.reach()
  flushes[0]?.reject(new Error('EIO'))
  const outcomes = await Promise.allSettled([first, second])
  const reason = { code: 'STORE_UNAVAILABLE', context: { retryAfter: 5 }, cause: { message: 'EIO' } }
  expect(outcomes).toMatchObject([{ reason }, { reason }])
  expect(durability.lost).toMatchObject(reason)
  expect(faults).toEqual([new Error('EIO')])
  await expect(durability.reach()).rejects.toMatchObject(reason)
  expect(flushes).toHaveLength(1)
})

test('where a commit is all there is to it, nothing is ever pending', async () => {
  const durability = new Durability({ onFault: () => {} })
  durability.committed()
  expect(durability.pending).toBe(false)
  await durability.reach()
})
