import fc from 'fast-check'
import { expect, test } from 'vitest'
import { emptyMap, find, noneRecent, put, remember, valuesOf, without, type PersistentMap } from '../../../src/providers/claude-code/persistent-map.ts'

const key = fc.oneof(fc.nat({ max: 60 }).map(String), fc.constantFrom('', '__proto__', 'constructor'))

test('a persistent map is a map, and every earlier one stays what it was', () => {
  fc.assert(fc.property(fc.array(fc.tuple(key, fc.boolean()), { maxLength: 200 }), (steps) => {
    const model = new Map<string, number>()
    const past: [PersistentMap<number>, [string, number][]][] = []
    let map = emptyMap<number>()
    steps.forEach(([at, adds], i) => {
      map = adds ? put(map, at, i) : without(map, at)
      if (adds) model.set(at, i)
      else model.delete(at)
      past.push([map, [...model]])
    })
    for (const [then, entries] of past) {
      expect(then.size).toBe(entries.length)
      expect(entries.map(([at]) => find(then, at))).toEqual(entries.map(([, value]) => value))
      expect(valuesOf(then).toSorted((a, b) => a - b)).toEqual(entries.map(([, value]) => value).toSorted((a, b) => a - b))
    }
  }), { numRuns: 50 })
})

test('thousands of keys are told apart, and nothing is left when all are gone', () => {
  const keys = Array.from({ length: 5000 }, (_, i) => `k-${i}`)
  const map = keys.reduce((next, at) => put(next, at, at), emptyMap<string>())
  expect(keys.every((at) => find(map, at) === at)).toBe(true)
  expect(keys.reduce((next, at) => without(next, at), map)).toEqual(emptyMap())
})

test('a recent map forgets the oldest, and says what', () => {
  const keys = ['a', 'b', 'a', 'c', 'd']
  const forgotten: (string | undefined)[] = []
  const recent = keys.reduce((next, at) => {
    const [more, gone] = remember(next, at, at, 2)
    forgotten.push(gone)
    return more
  }, noneRecent<string>())
  expect(forgotten).toEqual([undefined, undefined, undefined, 'a', 'b'])
  expect(valuesOf(recent.map).toSorted()).toEqual(['c', 'd'])
})
