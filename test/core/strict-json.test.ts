import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createStrictParser } from '../../src/core/strict-json.ts'

const plain = createStrictParser()
const start = createStrictParser({
  verbatim: ['/parent/transcript/system', '/parent/transcript/messages/*', '/agentOptions/providerOptions'],
  anyNumber: ['/maxDepth', '/parent/delegationDepth']
})
const pointers = (text: string, parse = plain) => parse(text).faults.map(({ pointer }) => pointer)
const details = (text: string, parse = plain) => parse(text).faults.map(({ detail }) => detail)

const NAME = fc.string({ unit: 'grapheme' }).filter((name) => name !== '__proto__' && !name.includes('\0'))
const JSON_VALUE = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 5 },
    fc.constant(null), fc.boolean(), fc.maxSafeInteger(), fc.double({ min: -1e15, max: 1e15,
      noNaN: true }).filter((n) => !Object.is(n, -0)),
    NAME, fc.array(tie('value')), fc.dictionary(NAME, tie('value'))
  )
})).value
const TEXT = fc.tuple(JSON_VALUE, fc.constantFrom(undefined, 1, '\t', ' \n')).map(([value, space]) =>
  JSON.stringify(value, undefined, space as string))

test('a plain text gives what JSON.parse gives, without faults', () => {
  fc.assert(fc.property(TEXT, (text) => {
    const { value, faults } = plain(text)
    expect(faults).toEqual([])
    expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)))
  }))
})

test('a text is a syntax fault exactly where JSON.parse throws', () => {
  const piece = fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '\\', '\\u12', '-', '0', '1', '.', 'e', '+', 'true', 'nul',
    'null', ' ', '\n', '\u0001', 'a', '"a"', '\\n')
  const soup = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
  const broken = fc.tuple(TEXT, fc.nat(), piece, fc.nat(2)).map(([text, at, insert, drop]) =>
    text.slice(0, at % (text.length + 1)) + insert + text.slice(at % (text.length + 1) + drop))
  fc.assert(fc.property(fc.oneof(soup, broken), (text) => {
    const syntax = plain(text).faults.some(({ detail }) => detail.startsWith('not JSON: '))
    let throws = false
    try { JSON.parse(text) } catch { throws = true }
    if (plain(text).faults.some(({ detail }) => !detail.startsWith('not JSON: '))) return
    expect(syntax).toBe(throws)
  }), { numRuns: 1000 })
})

test('whatever the text, the parser throws nothing and answers a value or faults', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => {
    const { value, faults } = start(text)
    expect(value === undefined).toBe(faults.length > 0)
    for (const { pointer, detail } of faults) expect((pointer + detail).isWellFormed()).toBe(true)
  }))
})

test('a syntax fault says what was expected, and the line, column and offset', () => {
  expect(plain('{\n  "a": 1,\n}').faults).toEqual(
    [{ pointer: '', detail: 'not JSON: expected a member name in double quotes at line 3, column 1 (offset 12)' }])
  expect(details('')).toEqual(['not JSON: the text ends too early at line 1, column 1 (offset 0)'])
  expect(details('[1 2]')).toEqual(['not JSON: expected "," or "]" at line 1, column 4 (offset 3)'])
  expect(details('{"a":1}x')).toEqual(['not JSON: expected the end of the text at line 1, column 8 (offset 7)'])
  expect(details('["a')).toEqual(['not JSON: a string is not closed at line 1, column 4 (offset 3)'])
  expect(details('["\\x"]')).toEqual(['not JSON: not a JSON escape at line 1, column 3 (offset 2)'])
  expect(details('[NaN]')).toEqual(['not JSON: expected a JSON value at line 1, column 2 (offset 1)'])
})

test('a byte order mark is passed over', () => {
  expect(plain('\ufeff{"a":1}').value).toEqual({ a: 1 })
})

test('a name given twice is refused by place, at any depth, among few and many, written plainly or escaped', () => {
  expect(plain('{"a":[{"b":1,"b":2}]}').faults).toEqual([{ pointer: '/a/0/b', detail: 'this name is given twice' }])
  expect(pointers('{"x":1,"\\u0078":2}')).toEqual(['/x'])
  const many = Array.from({ length: 40 }, (_, i) => `"k${i}":{"k${i}":0}`)
  expect(pointers(`{${many.join(',')}}`)).toEqual([])
  for (const i of [0, 15, 16, 17, 39]) expect(pointers(`{${many.join(',')},"k${i}":1}`)).toEqual([`/k${i}`])
})

test('duplicates are found whatever the names', () => {
  fc.assert(fc.property(fc.uniqueArray(NAME, { minLength: 1, maxLength: 40 }), fc.nat(), (names, pick) => {
    const twice = names[pick % names.length] as string
    const members = [...names, twice].map((name) => `${JSON.stringify(name)}:{}`)
    expect(plain(`{${members.slice(0, -1).join(',')}}`).faults).toEqual([])
    expect(details(`{${members.join(',')}}`)).toEqual(['this name is given twice'])
  }))
})

test('__proto__ is refused as a name, escaped too; constructor and prototype are data', () => {
  expect(pointers('{"a":{"__proto__":{"x":1}}}')).toEqual(['/a/__proto__'])
  expect(pointers('{"\\u005f_proto_\\u005F":1}')).toEqual(['/__proto__'])
  expect(pointers('["__proto__"]')).toEqual([])
  const { value } = plain('{"constructor":{"prototype":{"x":1}}}')
  expect(JSON.stringify(value)).toBe('{"constructor":{"prototype":{"x":1}}}')
  expect(({} as { x?: unknown }).x).toBeUndefined()
})

test.each(['-0', '-0.0', '-0e0', '-0.00E-5', '-1e-400'])('negative zero %s is refused by name', (text) => {
  expect(plain(`{"a":${text}}`).faults).toEqual([{ pointer: '/a',
    detail: `${text} is negative zero, which does not survive; send 0` }])
})

test.each(['1e400', '-1e309', '9'.repeat(400)])('an overflow is refused', (text) => {
  expect(details(`[${text}]`)[0]).toMatch(/is too large for a number$/)
})

test.each(['9007199254740992', '-9007199254740993', '9007199254740993.0', '1e16',
  '12345678901234567890'])('%s, past 2^53-1, is refused', (text) => {
  expect(details(`[${text}]`)).toEqual([`${text} is past 2^53-1 and would lose digits; send it as a string`])
})

test.each(['0', '0.0', '0e9', '-0.5', '9007199254740991', '-9007199254740991', '1e15', '1.5e-300', '2.0',
  '900719925474099.25'])('%s is a plain number', (text) => {
  expect(plain(text)).toMatchObject({ value: Number(text), faults: [] })
})

test('6.3 at a depth the number goes on as it is, to be judged by the driver', () => {
  const depth = (text: string) =>
    (start(`{"maxDepth":${text},"parent":{"delegationDepth":${text}}}`).value as { maxDepth: unknown }).maxDepth
  expect(depth('-0')).toBe(-0)
  expect(depth('-0.0')).toBe(-0)
  expect(depth('1e400')).toBe(Infinity)
  expect(depth('9007199254740993')).toBe(2 ** 53)
  expect(depth('[-0]')).toEqual([-0])
  expect(depth('"2"')).toBe('2')
  expect(pointers('{"depth":-0,"parent":{"maxDepth":1e400}}', start)).toEqual(['/depth', '/parent/maxDepth'])
})

test('nesting past 128 levels is refused, however deep, at once', () => {
  expect(pointers('['.repeat(128) + ']'.repeat(128))).toEqual([])
  expect(plain('['.repeat(129) + ']'.repeat(129)).faults).toEqual([{ pointer: '/0'.repeat(128),
    detail: 'nests deeper than 128 levels' }])
  expect(details('['.repeat(10_000_000))).toEqual(['nests deeper than 128 levels'])
  expect(details('{"a":'.repeat(1_000_000))).toEqual(['nests deeper than 128 levels'])
})

test('half a surrogate pair is refused in strings and names, raw and escaped; a pair is not', () => {
  expect(pointers('{"a":"\\ud83d","b":"\\uDE00x","c":"\ud83d","d":"\\ud83d\\ude00\ud83d\ude00"}')).toEqual(['/a', '/b', '/c'])
  expect(details('{"\\ud83d":1}')).toEqual(['the name holds half of a surrogate pair; send whole Unicode characters'])
})

test('NUL is refused by place', () => {
  expect(plain('{"a":"x\\u0000y"}').faults).toEqual([{ pointer: '/a',
    detail: 'the string holds a NUL character (\\u0000); leave it out' }])
  expect(pointers('{"a\\u0000":1}')).toHaveLength(1)
})

test('faults are collected in document order, twenty at most', () => {
  expect(pointers('{"a":-0,"a":1e400,"b":["\\ud800"],"__proto__":0}')).toEqual(['/a', '/a', '/a', '/b/0', '/__proto__'])
  expect(plain(`[${'-0,'.repeat(100)}0]`).faults).toHaveLength(20)
})

test('pointers escape what RFC 6901 escapes, and shorten long names', () => {
  expect(pointers('{"a/b~c":-0}')).toEqual(['/a~1b~0c'])
  expect(pointers(`{"${'x'.repeat(1_000_000)}":-0}`)[0]).toHaveLength(102)
})

test('the source text of a verbatim value keeps key order, escapes, big numbers and white space', () => {
  const message = '{"role": "user",  "2":1, "1":2, "n":12345678901234567890, "e":"\\u00e9\\/", "z":"\\u0000"}'
  const { value, faults, raw } = start(`{"parent":{"transcript":{"system" : "s\\u0041" ,"messages":[ ${message} ,\n[1.0]]}}}`)
  expect(faults).toEqual([])
  expect(value).toMatchObject({ parent: { transcript: { system: 'sA' } } })
  expect(raw('/parent/transcript/messages/0')).toBe(message)
  expect(raw('/parent/transcript/messages/1')).toBe('[1.0]')
  expect(raw('/parent/transcript/system')).toBe('"s\\u0041"')
  expect(raw('/parent/transcript/messages/2')).toBeUndefined()
  expect(raw('/parent/transcript')).toBeUndefined()
})

test('a small verbatim part of a large text is had too', () => {
  const { raw } = start(`{"agentOptions":{"providerOptions":{"é": 1e2}},"task":"${'x'.repeat(10_000)}"}`)
  expect(raw('/agentOptions/providerOptions')).toBe('{"é": 1e2}')
})

test('in verbatim values duplicates, __proto__, overflows, negative zero and half pairs are refused all the same', () => {
  const at = '/parent/transcript/messages/0'
  const wrap = (message: string) => pointers(`{"parent":{"transcript":{"messages":[${message}]}}}`, start)
  expect(wrap('{"a":1,"a":2}')).toEqual([`${at}/a`])
  expect(wrap('{"__proto__":1}')).toEqual([`${at}/__proto__`])
  expect(wrap('{"a":1e400,"b":-0,"c":"\\ud800"}')).toEqual([`${at}/a`, `${at}/b`, `${at}/c`])
})

test('every verbatim text parses to the value it stands for', () => {
  fc.assert(fc.property(fc.array(JSON_VALUE), fc.constantFrom(undefined, 2), (messages, space) => {
    const { value, raw } = start(JSON.stringify({ parent: { transcript: { messages } } }, undefined, space))
    expect(value).toBeDefined()
    for (const [i, message] of messages.entries()) {
      expect(JSON.stringify(JSON.parse(raw(`/parent/transcript/messages/${i}`) as string))).toBe(JSON.stringify(message))
    }
  }))
})

test('a text of more values than can be read in one go is refused where they become too many, whatever holds them', () => {
  const ones = (count: number): string => `[${Array(count).fill('1').join(',')}]`
  expect(plain(ones(199_999)).faults).toEqual([])
  expect(plain(ones(200_000)).faults).toMatchObject([{ pointer: '/199999' }])
  const { value, faults } = plain(`{"a":${ones(300_000)}}`)
  expect(value).toBeUndefined()
  expect(faults[0]?.detail).toMatch(/^the text holds more than 200000 values; .*POST \/v1\/sessions/)
})

test.for<[what: string, text: (many: number) => string, most: number, detail: RegExp, pointer: string]>([
  ['white space', (many) => `{"a":[1,${'\n'.repeat(many)}2]}`, 1_048_576, /^more than 1048576 characters of white space/, '/a/1'],
  ['white space alone', (many) => `${' '.repeat(many)}1`, 1_048_576, /^more than 1048576 characters of white space/, ''],
  ['a name', (many) => `{"${'k'.repeat(many)}":1}`, 16_383, /^a member name is longer than 16384 characters$/, `/${'k'.repeat(100)}…`],
  ['a number', (many) => `{"maxDepth":${'1'.repeat(many)}}`, 1000, /^a number is longer than 1000 characters$/, '/maxDepth'],
  ['a fraction', (many) => `[0.${'1'.repeat(many)}]`, 998, /^a number is longer than 1000 characters$/, '/0'],
  ['an exponent', (many) => `{"agentOptions":{"providerOptions":[1e${'0'.repeat(many)}]}}`, 998, /^a number is longer than 1000 characters$/, '/agentOptions/providerOptions/0'],
  ['names of one object', (many) => `{${Array.from({ length: many }, (_, i) => `"k${i}":1`).join(',')}}`, 20_000, /^the text holds more than 20000 different names, or orders/, '/k20000'],
  ['names of many objects', (many) => `[${Array.from({ length: many }, (_, i) => `{"k${i}":1}`).join(',')}]`, 20_000, /^the text holds more than 20000 different names, or orders/, '/20000/k20000']
])('%s may have so much, and no more: what makes reading slow is refused by place', ([, text, most, detail, pointer]) => {
  expect(start(text(most)).faults).toEqual([])
  expect(start(text(most + 1 + (most === 16_383 ? 1 : 0))).faults).toEqual([{ pointer, detail: expect.stringMatching(detail) }])
})

test('the same names again, in the same order, are no new ones: a long list of equal objects is taken', () => {
  const item = JSON.stringify({ type: 'text', text: 'a' })
  expect(plain(`[${Array.from({ length: 60_000 }, () => item).join(',')}]`).faults).toEqual([])
})

test('two orders of many names are two kinds: what is told apart is what JSON.parse has to learn', () => {
  const names = Array.from({ length: 150 }, (_, i) => `"${i}n":0`)
  const turned = Array.from({ length: 150 }, (_, i) => `{${[...names.slice(i), ...names.slice(0, i)].join(',')}}`)
  expect(details(`[${turned.join(',')}]`)).toEqual([expect.stringMatching(/different names, or orders of names$/)])
})

test('to name the place of a syntax fault costs no more than to read up to it, whatever the line breaks', () => {
  const gap = '\r\n\n'.repeat(300_000)
  const text = `[${Array.from({ length: 8 }, () => `${gap}1`).join(',')}`
  const time = (source: string): number => Math.min(...[1, 2, 3].map(() => {
    const from = performance.now()
    plain(source)
    return performance.now() - from
  }))
  expect(details(`${text}x]`)).toEqual([expect.stringMatching(/at line 4800001, column 2 \(offset \d+\)$/)])
  expect(time(`${text}x]`)).toBeLessThan(8 * time(`${text}]`) + 20)
})

test('half a surrogate pair is found however its halves are written, and a whole one is taken', () => {
  const unit = fc.constantFrom('a', '\ud83d', '\ude00', '\\ud83d', '\\uDE00', '\\n', '\\u0041', '\\\\')
  fc.assert(fc.property(fc.array(unit, { maxLength: 8 }), (units) => {
    const text = `"${units.join('')}"`
    expect(plain(text).faults.length === 0).toBe((JSON.parse(text) as string).isWellFormed())
  }), { numRuns: 500 })
})
