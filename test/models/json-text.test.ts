import { expect, test } from 'vitest'
import fc from 'fast-check'
import { clip, isObjectText, joinElements, objectMembers } from '../../src/models/json-text.ts'

test('the members of an object keep their text: order, numbers, white space, escapes', () => {
  const text = ' { "b" : [1, {"x":"},\\"{"}] ,"2":1e400, "1": 12345678901234567890 ,"\\u0061": "\\\\" } '
  expect(objectMembers(text)).toEqual([
    { key: 'b', text: '"b" : [1, {"x":"},\\"{"}]' },
    { key: '2', text: '"2":1e400' },
    { key: '1', text: '"1": 12345678901234567890' },
    { key: 'a', text: '"\\u0061": "\\\\"' }
  ])
  expect(objectMembers('{}')).toEqual([])
  expect(objectMembers('{ }')).toEqual([])
})

test('members put together again are the same object', () => {
  fc.assert(fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(3), (object, indent) => {
    const members = objectMembers(JSON.stringify(object, null, indent))
    expect(JSON.parse(`{${members.map(({ text }) => text).join(',')}}`)).toEqual(JSON.parse(JSON.stringify(object)))
    expect(members.map(({ key }) => key)).toEqual(Object.keys(object))
  }))
})

test('only the text of an object is one', () => {
  expect(['{}', ' {"a":1} '].map(isObjectText)).toEqual([true, true])
  expect(['', '[]', 'null', '"{}"', '{', '{"a":}'].map(isObjectText)).toEqual([false, false, false, false, false, false])
})

test('an empty text stands for no element', () => {
  expect(joinElements(['1', '', '2,3', ''])).toBe('1,2,3')
})

test('a clipped text never ends in half a pair', () => {
  expect(clip('ab😀', 3)).toBe('ab')
  expect(clip('ab😀', 4)).toBe('ab😀')
})
