import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSlots, type Slot, type Slots } from '../../src/engine/slots.ts'

const never = new AbortController().signal
const shared = (): boolean => true

/** Reserves a run of a tenant; its place, once it has one, is told to `order`. */
function arrive (slots: Slots, tenant: string, order: string[], name = tenant): Slot {
  const slot = slots.reserve(tenant, false)
  void slot.acquire(never).then(() => order.push(name))
  return slot
}
const settle = async (): Promise<void> => { for (let n = 0; n < 5; n++) await Promise.resolve() }

test('8.3 who waits gets places tenant by tenant, and within a tenant in the order in which they came', async () => {
  const slots = createSlots({ running: 1, queued: 100 })
  const order: string[] = []
  let last = slots.reserve('x', false)
  const queued = new Map<string, Slot>()
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) queued.set(name, arrive(slots, name.slice(0, 1), order, name))
  while (order.length < 7) {
    last.release()
    await settle()
    last = queued.get(order.at(-1) as string) as Slot
  }
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4'])
})

test('8.3 a tenant that comes late waits for one place of each tenant before it, not for all that they queued', async () => {
  const slots = createSlots({ running: 1, queued: 100_000 })
  const first = slots.reserve('other', false)
  const order: string[] = []
  const flood = Array.from({ length: 5000 }, (_, n) => arrive(slots, 'flood', order, `flood ${n}`))
  arrive(slots, 'late', order)
  first.release()
  await settle()
  flood[0]?.release()
  await settle()
  expect(order).toEqual(['flood 0', 'late'])
})

test('8.3 where several tenants may come, one has at most half of the places, however many it asks for', async () => {
  const slots = createSlots({ running: 4, queued: 100, shared })
  const order: string[] = []
  const flood = Array.from({ length: 10 }, () => arrive(slots, 'flood', order))
  await settle()
  expect([slots.running, slots.queued]).toEqual([2, 8])
  expect([slots.reserve('b', false).free, slots.reserve('c', false).free]).toEqual([true, true])
  expect(slots.reserve('d', false).free).toBe(false)
  flood[0]?.release()
  expect([slots.running, slots.queued]).toEqual([4, 8])
})

test('8.3 past its share of the queue a tenant is refused with QUOTA_EXCEEDED, past the whole with OVERLOADED; others still queue', () => {
  const slots = createSlots({ running: 1, queued: 5, shared })
  slots.reserve('a', false)
  for (let n = 0; n < 3; n++) slots.reserve('a', false)
  expect(() => slots.reserve('a', false)).toThrow(expect.objectContaining({
    code: 'QUOTA_EXCEEDED', message: '3 runs of this tenant are queued, its share of the queue', context: expect.objectContaining({ retryAfter: 1 })
  }))
  const [first] = [slots.reserve('b', false), slots.reserve('b', false)]
  expect(() => slots.reserve('b', false)).toThrow(expect.objectContaining({ code: 'OVERLOADED', context: { retryAfter: 1 } }))
  expect(() => slots.reserve('a', false)).toThrow(expect.objectContaining({ code: 'QUOTA_EXCEEDED' }))
  first?.release()
  expect(slots.reserve('c', false).free).toBe(false)
})

test('8.3 a tenant alone has every place and the whole queue', () => {
  const slots = createSlots({ running: 2, queued: 2 })
  expect([1, 2, 3, 4].map(() => slots.reserve('a', false).free)).toEqual([true, true, false, false])
  expect(() => slots.reserve('a', false)).toThrow(expect.objectContaining({ code: 'OVERLOADED' }))
})

test('8.3 one place or one in the queue is never halved away', () => {
  const slots = createSlots({ running: 1, queued: 1, shared })
  expect([slots.reserve('a', false).free, slots.reserve('a', false).free]).toEqual([true, false])
  expect(() => slots.reserve('b', false)).toThrow(expect.objectContaining({ code: 'OVERLOADED' }))
})

test('8.3 who waited past its share is let in once it is alone again', async () => {
  let many = true
  const slots = createSlots({ running: 4, queued: 100, shared: () => many })
  const order: string[] = []
  const runs = Array.from({ length: 6 }, (_, n) => arrive(slots, 'a', order, `a${n}`))
  await settle()
  expect(slots.running).toBe(2)
  many = false
  expect(slots.reserve('a', false).free).toBe(false)
  await settle()
  expect([slots.running, slots.queued]).toEqual([4, 3])
  expect(order).toEqual(['a0', 'a1', 'a2', 'a3'])
  for (const run of runs) run.release()
})

test('8.3 a place that is given up and taken back again while its tenant has nothing else still counts', async () => {
  const slots = createSlots({ running: 2, queued: 9, shared })
  const first = slots.reserve('a', false)
  first.release()
  const second = slots.reserve('a', false)
  const order: string[] = []
  void first.acquire(never).then(() => order.push('first'))
  await settle()
  expect([slots.running, order]).toEqual([1, []])
  second.release()
  await settle()
  expect([slots.running, order]).toEqual([1, ['first']])
})

const TENANTS = ['a', 'b', 'c', 'd']

test('8.3 no run starves: it has its place after so many releases as there are tenants times its place in its tenant\'s line', async () => {
  await fc.assert(fc.asyncProperty(
    fc.integer({ min: 1, max: 4 }), fc.array(fc.constantFrom(...TENANTS), { minLength: 1, maxLength: 40 }), fc.infiniteStream(fc.nat()),
    async (running, arrivals, choices) => {
      const slots = createSlots({ running, queued: 100 })
      const holding: Slot[] = Array.from({ length: running }, () => slots.reserve('first', false))
      const waits: { tenant: string, place: number, since: number, got?: number }[] = []
      let releases = 0
      for (const tenant of arrivals) {
        const place = waits.filter((other) => other.tenant === tenant).length + 1
        const wait: (typeof waits)[number] = { tenant, place, since: releases }
        waits.push(wait)
        const slot = slots.reserve(tenant, false)
        void slot.acquire(never).then(() => { wait.got = releases; holding.push(slot) })
      }
      const tenants = new Set(arrivals).size
      while (holding.length > 0) {
        releases++
        holding.splice((choices.next().value as number) % holding.length, 1)[0]?.release()
        await settle()
        expect(slots.running).toBeLessThanOrEqual(running)
      }
      for (const { place, since, got } of waits) expect((got ?? Infinity) - since).toBeLessThanOrEqual(tenants * place)
      for (const tenant of TENANTS) {
        const times = waits.filter((wait) => wait.tenant === tenant).map(({ got }) => got ?? Infinity)
        expect(times).toEqual(times.toSorted((x, y) => x - y))
      }
      expect([slots.running, slots.queued]).toEqual([0, 0])
    }), { numRuns: 200 })
})

interface Held { tenant: string, slot: Slot, cancel: AbortController }

test('8.3 whatever comes, goes and is cancelled: never more than there are, no tenant past its share, no place idle for who may have it', async () => {
  const step = fc.record({ do: fc.constantFrom('reserve', 'reserve', 'release', 'acquire', 'cancel'), tenant: fc.constantFrom(...TENANTS), who: fc.nat(50) })
  await fc.assert(fc.asyncProperty(
    fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 7 }), fc.boolean(), fc.array(step, { maxLength: 60 }),
    async (running, queued, halves, steps) => {
      const slots = createSlots({ running, queued, shared: () => halves })
      const share = halves ? Math.ceil(running / 2) : running
      const held: Held[] = []
      const isPlaced = new Map<Held, boolean>()
      const acquire = (one: Held): void => {
        one.slot.acquire(one.cancel.signal).then(() => { isPlaced.set(one, true) }, () => {})
      }
      for (const { do: what, tenant, who } of steps) {
        const one = held[who % Math.max(1, held.length)]
        if (what === 'reserve') {
          try {
            const made = { tenant, slot: slots.reserve(tenant, false), cancel: new AbortController() }
            held.push(made)
            isPlaced.set(made, made.slot.free)
            acquire(made)
          } catch (error) {
            expect(error).toMatchObject({ code: expect.stringMatching(/^(QUOTA_EXCEEDED|OVERLOADED)$/) })
          }
        } else if (one && what === 'release') {
          one.slot.release()
          isPlaced.set(one, false)
        } else if (one && what === 'acquire') acquire(one)
        else if (one) {
          const waited = !isPlaced.get(one)
          one.cancel.abort()
          one.cancel = new AbortController()
          if (waited) isPlaced.set(one, false)
        }
        await settle()
        expect(slots.running).toBeLessThanOrEqual(running)
        expect(slots.queued).toBeLessThanOrEqual(queued)
        for (const name of TENANTS) {
          expect(held.filter((each) => each.tenant === name && isPlaced.get(each)).length).toBeLessThanOrEqual(share)
        }
        if (slots.queued > 0 && !halves) expect(slots.running).toBe(running)
      }
      for (const { slot } of held) slot.release()
      expect([slots.running, slots.queued]).toEqual([0, 0])
    }), { numRuns: 300 })
})
