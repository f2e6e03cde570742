import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSlots, type Slot } from '../../src/engine/slots.ts'

const never = new AbortController().signal

test('8.3 places go to who came first, and the queue before them is bounded', async () => {
  const slots = createSlots({ running: 2, queued: 2 })
  const [a, b, c, d] = [1, 2, 3, 4].map(() => slots.reserve('t', false)) as [Slot, Slot, Slot, Slot]
  expect([a, b, c, d].map(({ free }) => free)).toEqual([true, true, false, false])
  expect(() => slots.reserve('t', false)).toThrow('the queue of runs is full')
  const order: string[] = []
  const taken = [d.acquire(never).then(() => order.push('d')), c.acquire(never).then(() => order.push('c'))]
  a.release()
  a.release()
  b.release()
  await Promise.all(taken)
  expect(order).toEqual(['c', 'd'])
  expect([slots.running, slots.queued]).toEqual([2, 0])
})

test('8.3 what a restart finds is taken in whatever the queue holds', () => {
  const slots = createSlots({ running: 1, queued: 0 })
  expect([slots.reserve('t', true), slots.reserve('t', true), slots.reserve('t', true)].map(({ free }) => free)).toEqual([true, false, false])
  expect(() => slots.reserve('t', false)).toThrow('the queue of runs is full')
  expect(slots.queued).toBe(2)
})

test('8.3 a place in the queue is free again once its run is cancelled', async () => {
  const slots = createSlots({ running: 1, queued: 1 })
  const first = slots.reserve('t', false)
  const waiting = slots.reserve('t', false)
  const cancel = new AbortController()
  const acquired = waiting.acquire(cancel.signal)
  cancel.abort(new Error('cancelled'))
  await expect(acquired).rejects.toThrow('cancelled')
  expect(slots.queued).toBe(0)
  const next = slots.reserve('t', false)
  first.release()
  await next.acquire(never)
  expect(slots.running).toBe(1)
})

test('8.3 who gave up its place comes again at the end of the queue', async () => {
  const slots = createSlots({ running: 1, queued: 9 })
  const first = slots.reserve('t', false)
  const second = slots.reserve('t', false)
  first.release()
  const again = first.acquire(never)
  await second.acquire(never)
  second.release()
  await again
  expect([slots.running, slots.queued]).toEqual([1, 0])
})

test('8.3 whatever is reserved and released: no more hold a place than there are, none idles while others wait', async () => {
  const step = fc.oneof(
    fc.record(
      { do: fc.constantFrom('release', 'acquire', 'cancel'), who: fc.nat(20) }
    ), fc.record({ do: fc.constant('reserve'), who: fc.constant(0) })
  )
  await fc.assert(fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 40 }), async (running, steps) => {
    const slots = createSlots({ running, queued: 5 })
    const held: { slot: Slot, cancel: AbortController }[] = []
    for (const { do: what, who } of steps) {
      const one = held[who % Math.max(1, held.length)]
      if (what === 'reserve') {
        if (slots.running < running || slots.queued < 5) held.push({ slot: slots.reserve('t', false), cancel: new AbortController() })
      } else if (one && what === 'release') one.slot.release()
      else if (one && what === 'acquire') one.slot.acquire(one.cancel.signal).catch(() => {})
      else if (one) {
        one.cancel.abort()
        one.cancel = new AbortController()
      }
      await Promise.resolve()
      expect(slots.running).toBeLessThanOrEqual(running)
      if (slots.queued > 0) expect(slots.running).toBe(running)
    }
    for (const { slot } of held) slot.release()
    expect([slots.running, slots.queued]).toEqual([0, 0])
  }), { numRuns: 200 })
})
