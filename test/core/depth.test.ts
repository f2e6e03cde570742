import fc from 'fast-check'
import { expect, test } from 'vitest'
import { asMaxDepth, childDepth, depthOf, isDepth } from '../../src/core/depth.ts'

const INVALID = 'agent subagentDepth must be a non-negative safe integer'
const INVALID_MAX = 'subagent maxDepth must be a non-negative safe integer'
const RANGE = 'subagent child depth exceeds the safe-integer range'
const LARGEST = Number.MAX_SAFE_INTEGER

const depth = fc.maxSafeNat()
const known = fc.option(depth, { nil: undefined })
const malformed = fc.oneof(
  fc.constantFrom<unknown>(null, '2', '', true, false, -0, NaN, Infinity, -Infinity, 2 ** 53, {}, [], [2], 2n, new Number(2)),
  fc.integer({ max: -1 }),
  fc.double().filter((n) => !Number.isInteger(n)),
  fc.string(),
  fc.double({ min: 2 ** 53, noNaN: true })
)

test('6.1 the depth is the larger of the stored and the runtime one, absent counts as 0', () => {
  fc.assert(fc.property(known, known, (stored, runtime) => {
    expect(depthOf({ stored, runtime })).toBe(Math.max(stored ?? 0, runtime ?? 0))
  }))
  expect(depthOf({})).toBe(0)
})

test('6.1 a runtime depth deepens and never lowers the stored one', () => {
  fc.assert(fc.property(depth, known, (stored, runtime) => {
    expect(depthOf({ stored, runtime })).toBeGreaterThanOrEqual(stored)
  }))
  expect(childDepth({ stored: 2, runtime: 0 })).toBe(3)
  expect(childDepth({ stored: 0, runtime: 2 })).toBe(3)
})

test('6.2 a child stands one below its parent and never past maxDepth', () => {
  fc.assert(fc.property(fc.nat(50), fc.nat(50), fc.nat(50), (stored, runtime, maxDepth) => {
    const attempted = Math.max(stored, runtime) + 1
    if (attempted <= maxDepth) expect(childDepth({ stored, runtime }, maxDepth)).toBe(attempted)
    else {
      expect(() => childDepth({ stored, runtime }, maxDepth)).toThrow(expect.objectContaining({
        code: 'DEPTH_EXCEEDED', message: `subagent depth ${attempted} exceeds maxDepth ${maxDepth}`, context: { depth: attempted, maxDepth }
      }))
    }
  }))
})

test('6.2 maxDepth 0 forbids all delegation, 1 lets only a top-level agent delegate', () => {
  expect(() => childDepth({}, 0)).toThrow('subagent depth 1 exceeds maxDepth 0')
  expect(childDepth({}, 1)).toBe(1)
  expect(() => childDepth({ runtime: 1 }, 1)).toThrow('subagent depth 2 exceeds maxDepth 1')
})

test('6.3 what is no non-negative safe integer is malformed, as stored depth, as runtime depth and as maxDepth', () => {
  fc.assert(fc.property(malformed, known, (value, other) => {
    expect(isDepth(value)).toBe(false)
    for (const depths of [{ stored: value }, { runtime: value }, { stored: value, runtime: other }, { stored: other, runtime: value }]) {
      expect(() => childDepth(depths)).toThrow(expect.objectContaining({ code: 'DEPTH_INVALID', message: INVALID }))
    }
    expect(() => asMaxDepth(value)).toThrow(expect.objectContaining({ code: 'MAX_DEPTH_INVALID', message: INVALID_MAX }))
  }))
})

test('6.3 every non-negative safe integer is a depth, however JSON wrote it', () => {
  fc.assert(fc.property(depth, (value) => { expect(asMaxDepth(value)).toBe(value) }))
  for (const json of ['2', '2.0', '2e0', '20e-1']) expect(asMaxDepth(JSON.parse(json))).toBe(2)
  for (const json of ['-0', '9007199254740993', '1e400', '"2"', 'null', '[2]']) expect(() => asMaxDepth(JSON.parse(json))).toThrow(INVALID_MAX)
  expect(asMaxDepth(undefined)).toBeUndefined()
})

test('past 2^53-1 a child depth is a RangeError with its own text', () => {
  expect(childDepth({ stored: LARGEST - 1 })).toBe(LARGEST)
  expect(() => childDepth({ stored: LARGEST })).toThrow(RangeError)
  expect(() => childDepth({ runtime: LARGEST })).toThrow(expect.objectContaining({ code: 'DEPTH_RANGE', message: RANGE }))
})

test('4.1 the parent depth is judged before the safe range, the safe range before the cap', () => {
  expect(() => childDepth({ stored: LARGEST, runtime: '2' }, 0)).toThrow(INVALID)
  expect(() => childDepth({ stored: LARGEST }, 0)).toThrow(RANGE)
})
