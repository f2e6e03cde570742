import { expect, test } from 'vitest'
import { addUsage, noUsage } from '../../src/core/events.ts'

test('a sum of costs stays a number', () => {
  const dear = { ...noUsage(), cost: Number.MAX_VALUE }
  expect(addUsage(dear, dear).cost).toBe(Number.MAX_VALUE)
  expect(addUsage(addUsage(noUsage(), { ...noUsage(), cost: 0.5 }), { ...noUsage(), cost: 0.25 }).cost).toBe(0.75)
  expect(addUsage(noUsage(), noUsage())).not.toHaveProperty('cost')
})
