import fc from 'fast-check'
import { expect, test } from 'vitest'
import { askedInput, memberText } from '../../../src/providers/claude-code/member-text.ts'

test.each([
  ['{"a":1,"b":-0}', 'b', '-0'], ['{"b": 1.50 ,"a":2}', 'b', '1.50'], ['{"b":{"b":[{"b":1}]}}', 'b', '{"b":[{"b":1}]}'],
  ['{"a":{"b":1},"c":["b",2]}', 'b', undefined], ['{"b":1,"b":2}', 'b', '2'], ['{"\\u0062":3}', 'b', '3'], ['{"a":"b\\\\","b":"\\"}"}', 'b', '"\\"}"'],
  ['{"a":"b"}', 'b', undefined], ['{}', 'b', undefined], ['["b",{"b":1}]', 'b', undefined], ['"b"', 'b', undefined], ['', 'b', undefined], [' {\t"b" :\r null } ', 'b', 'null']
])('the text of a member stands as it stood: %s', (json, name, text) => {
  expect(memberText(json, name)).toBe(text)
})

test('it is the text of the value that JSON.parse finds there, in any object and print', () => {
  // None ends in a backslash: after one that does, JSON.parse of Node 24 takes a later `"\""` for it.
  const names = fc.constantFrom('a', 'input', '"', '\\d', '{', '', '__proto__', ':')
  const value = fc.jsonValue({ maxDepth: 3 })
  fc.assert(fc.property(fc.array(fc.tuple(names, value), { maxLength: 6 }), names, fc.constantFrom(undefined, 1, '\t'), (members, name, indent) => {
    const json = `{${members.map(([key, item]) => `${JSON.stringify(key)} : ${JSON.stringify(item, null, indent)}`).join(' ,\n')}}`
    const text = memberText(json, name)
    const parsed = Object.entries(JSON.parse(json) as object).find(([key]) => key === name)
    expect(text === undefined ? undefined : JSON.parse(text)).toEqual(parsed?.[1])
  }))
})

test('neither depth nor length is a limit', () => {
  const deep = `${'['.repeat(2_000_000)}${']'.repeat(2_000_000)}`
  expect(askedInput({}, `{"request":{"input":${deep}}}`) === deep).toBe(true)
})

test('no input reads as an empty one, and a frame that came as no text is printed', () => {
  expect(askedInput({}, '{"request":{"x":{"input":1}}}')).toBe('{}')
  expect(askedInput({}, '{"request":"input"}')).toBe('{}')
  expect([{}, { request: 7 }, { request: { input: { a: 1 } } }].map((frame) => askedInput(frame, undefined))).toEqual(['{}', '{}', '{"a":1}'])
})
