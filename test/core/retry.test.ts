import { expect, test } from 'vitest'
import fc from 'fast-check'
import { outcome } from '../../src/core/errors.ts'
import type { ModelFailure } from '../../src/core/model.ts'
import { RETRY_POLICY, retryDelay } from '../../src/core/retry.ts'

const failure = (more: Partial<ModelFailure> = {}, retryable = true): ModelFailure =>
  ({ outcome: outcome('MODEL_ERROR', 'x', retryable), ...more })
const half = (): number => 0.5

test('a failure that is not retryable is never tried again', () => {
  expect(retryDelay({ failure: failure({}, false), attempt: 1, deltas: false }, half)).toBeUndefined()
})

test('nothing is tried again once a delta was received', () => {
  expect(retryDelay({ failure: failure(), attempt: 1, deltas: true }, half)).toBeUndefined()
  expect(retryDelay({ failure: failure(), attempt: 1, deltas: false }, half)).toBeTypeOf('number')
})

test('there are four tries in all', () => {
  const delays = [1, 2, 3, 4, 5].map((attempt) => retryDelay({ failure: failure(), attempt, deltas: false }, half))
  expect(delays.map((delay) => delay !== undefined)).toEqual([true, true, true, false, false])
})

test('the wait doubles with each try and stops growing at the cap', () => {
  const policy = { ...RETRY_POLICY, tries: 20, baseMs: 100, maxMs: 800 }
  const delay = (attempt: number): number | undefined =>
    retryDelay({ failure: failure(), attempt, deltas: false }, () => 1, policy)
  expect([1, 2, 3, 4, 5, 19].map(delay)).toEqual([100, 200, 400, 800, 800, 800])
})

test('jitter spreads the wait over its upper half', () => {
  const at = (random: number): number | undefined => retryDelay({ failure: failure(), attempt: 1, deltas: false }, () => random)
  expect([at(0), at(1)]).toEqual([RETRY_POLICY.baseMs / 2, RETRY_POLICY.baseMs])
})

test('Retry-After is never undercut, and one past the cap ends the tries', () => {
  fc.assert(fc.property(fc.nat(120_000), fc.integer({ min: 1, max: 3 }), fc.double({ min: 0, max: 1, noNaN: true }),
    (asked, attempt, random) => {
    const delay = retryDelay({ failure: failure({ retryAfterMs: asked }), attempt, deltas: false }, () => random)
    if (asked > RETRY_POLICY.retryAfterCapMs) return delay === undefined
    return delay !== undefined && delay >= asked && delay <= Math.max(asked, RETRY_POLICY.maxMs) + RETRY_POLICY.baseMs
  }))
})

test('clients that were told the same Retry-After do not come back at once', () => {
  const at = (random: number): number | undefined =>
    retryDelay({ failure: failure({ retryAfterMs: 30_000 }), attempt: 1, deltas: false }, () => random)
  expect(at(0)).toBe(30_000)
  expect(at(0.9)).toBeGreaterThan(30_000)
})
