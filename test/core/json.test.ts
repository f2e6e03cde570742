import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson, isObject, MAX_NESTING, plainJsonFault, pointerToken } from '../../src/core/json.ts'

/** JSON values without `-0`, which JSON cannot keep. */
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown)
const anything = fc.anything({
  withBigInt: true, withBoxedValues: true, withDate: true, withMap: true, withSet: true, withSparseArray: true, withTypedArray: true
})

const nested = (levels: number): unknown => {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { down: value }
  return value
}

test('2.1 plain is exactly what a JSON round trip gives back unchanged', () => {
  const survives = (value: unknown): boolean => {
    try {
      return isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value)
    } catch { return false }
  }
  fc.assert(fc.property(anything, (value) => { expect(plainJsonFault(value) === undefined).toBe(survives(value)) }), { numRuns: 1_000 })
})

test('2.1 every JSON text parses to a plain value', () => {
  fc.assert(fc.property(json, (value) => { expect(plainJsonFault(value)).toBeUndefined() }))
  expect(plainJsonFault(JSON.parse('{"__proto__": {"a": [1]}, "constructor": null, "\\ud800": "\\u0000"}'))).toBeUndefined()
  expect(plainJsonFault(Object.assign(Object.create(null), { a: 1 }))).toBeUndefined()
})

test('2.1 a fault names its place as a pointer that resolves to it', () => {
  fc.assert(fc.property(fc.array(fc.oneof(fc.string(), fc.nat(3)), { maxLength: 8 }), (path) => {
    let value: unknown = NaN
    for (const key of path.toReversed()) value = typeof key === 'number' ? [...Array.from({ length: key }, () => 0), value] : { ['__proto__']: 1, [key]: value }
    const fault = plainJsonFault(value)
    expect(fault?.pointer).toBe(path.map((key) => `/${pointerToken(String(key))}`).join(''))
    expect(fault?.reason).toBe('NaN is not a JSON number')
  }))
})

test('2.1 a value may nest to the limit and not past it; a cycle ends there too', () => {
  expect(plainJsonFault(nested(MAX_NESTING))).toBeUndefined()
  expect(plainJsonFault(nested(MAX_NESTING + 1))?.reason).toContain('nests deeper')
  expect(plainJsonFault(nested(100_000))?.reason).toContain('nests deeper')
  const cycle: unknown[] = []
  cycle.push(cycle, cycle)
  expect(plainJsonFault(cycle)?.reason).toContain('holds itself')
})

test('canonical texts are equal exactly where the JSON values are, whatever the order of keys', () => {
  const shuffled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shuffled)
    return isObject(value) ? Object.fromEntries(Object.entries(value).toReversed().map(([key, item]) => [key, shuffled(item)])) : value
  }
  fc.assert(fc.property(json, json, (a, b) => {
    expect(canonicalJson(shuffled(a))).toBe(canonicalJson(a))
    expect(canonicalJson(a) === canonicalJson(b)).toBe(isDeepStrictEqual(a, b))
    expect(isDeepStrictEqual(JSON.parse(canonicalJson(a)), a)).toBe(true)
  }))
})

test('canonical text sorts keys, integer-like ones too, and leaves out what is undefined', () => {
  expect(canonicalJson({ b: 1, a: [{ 10: 1, 9: 2, x: undefined }], 'é': 'é' })).toBe('{"a":[{"10":1,"9":2}],"b":1,"é":"é"}')
  expect(canonicalJson(JSON.parse('{"n": 1.0, "e": 1e2, "z": -0}'))).toBe('{"e":100,"n":1,"z":0}')
})

test('a pointer token escapes tilde and slash', () => {
  expect(pointerToken('a/b~c~1')).toBe('a~1b~0c~01')
})

test('isObject is true for objects alone', () => {
  expect([{}, Object.create(null), [], null, 'x', 1, undefined].map(isObject)).toEqual([true, true, false, false, false, false, false])
})
