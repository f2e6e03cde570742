import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createIds, isUuid } from '../../src/core/ids.ts'

const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

test('an id is a UUID of version 7 and of the RFC variant, in lower case', () => {
  const next = createIds(Date.now)
  for (let i = 0; i < 500; i++) expect(next()).toMatch(V7)
})

test('an id begins with the time it was made at', () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 2 ** 48 - 1 }), (time) => {
    expect(parseInt(createIds(() => time)().replaceAll('-', '').slice(0, 12), 16)).toBe(time)
  }))
})

test('ids ascend and are unique, whether the clock stands, runs or goes back', () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 200 }), (times) => {
    let at = 0
    const next = createIds(() => times[at++] ?? 1)
    const ids = times.map(() => next())
    expect(ids).toEqual([...new Set(ids)].toSorted())
  }))
})

test('more than 4096 ids in one millisecond still ascend', () => {
  const next = createIds(() => 1_000)
  const ids = Array.from({ length: 10_000 }, next)
  expect(ids).toEqual([...new Set(ids)].toSorted())
})

test('two sources at the same instant do not collide', () => {
  const ids = Array.from({ length: 1_000 }, () => createIds(() => 1_000)())
  expect(new Set(ids).size).toBe(1_000)
})

test('isUuid takes any UUID and nothing else', () => {
  fc.assert(fc.property(fc.uuid(), (id) => {
    expect(isUuid(id)).toBe(true)
    expect(isUuid(id.toUpperCase())).toBe(true)
    for (const no of [`${id} `, id.slice(1), `${id}\n`, id.replaceAll('-', ''), `{${id}}`, '']) expect(isUuid(no)).toBe(false)
  }))
})
