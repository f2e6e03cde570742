import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Json, JsonObject } from '../../src/core/json.ts'
import { compilePattern } from '../../src/tools/pattern.ts'
import { createSchemaCompiler } from '../../src/tools/schema.ts'

const compile = createSchemaCompiler()
const check = (schema: Json, value: Json): string[] => compile(schema)(value)
const many = (count: number, make: (i: number) => Json): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, make(i)]))
const nest = (levels: number, inner: Json, wrap: (inner: Json) => Json): Json => levels === 0 ? inner : nest(levels - 1,
  wrap(inner), wrap)

test('violations name the place and what must be', () => {
  const schema = {
    type: 'object',
    properties: {
      path: { type: 'string' }, n: { type: 'integer', minimum: 1 }, mode: { enum: ['r', 'w'] }, v: { const: 2 },
      list: { type: 'array', items: { type: ['string', 'null'] }, minItems: 3, uniqueItems: true }, 'a/b': { type: 'boolean' },
      at: { type: 'string', format: 'date-time' }, code: { type: 'string', pattern: '^[a-z]{2}$' }
    },
    required: ['path', 'text'],
    additionalProperties: false
  }
  expect(check(schema, { path: 'x', text: 1 } as never)).toEqual(['must not have the property "text"'])
  expect(check(schema, { path: 1, n: 0, mode: 'x', v: 3, list: ['a', 1], 'a/b': 0, at: 'now', code: 'abc', more: 1 })).toEqual([
    'must have the property "text"',
    'must not have the property "more"',
    '/path: must be string',
    '/n: must be >= 1',
    '/mode: must be one of "r","w"',
    '/v: must be 2',
    '/list: must not have fewer than 3 items',
    '/list/1: must be string,null',
    '/a~1b: must be boolean',
    '/at: must be in the format "date-time"',
    '/code: must match the pattern "^[a-z]{2}$"'
  ])
  expect(check({ type: 'object' }, [])).toEqual(['must be object'])
  expect(check({ uniqueItems: true }, [{ a: 1, b: 2 }, { b: 2, a: 1 }])).toEqual(['must not hold the same item twice'])
})

test('what is valid has no violations, and nothing is coerced, filled in or removed', () => {
  const value = { a: 1, extra: '2' }
  expect(check({ type: 'object', properties: { a: { type: 'integer' }, b: { default: 3 } } }, value)).toEqual([])
  expect(value).toEqual({ a: 1, extra: '2' })
  expect(check({ properties: { a: { type: 'integer' } } }, { a: '1' })).toEqual(['/a: must be integer'])
  expect(check(true, 1)).toEqual([])
  expect(check(false, 1)).toEqual(['must not be there'])
})

test('violations are at most twenty, and short whatever the value', () => {
  expect(check({ items: { type: 'string' } }, Array(1000).fill(1))).toHaveLength(20)
  const [text] = check({ enum: ['x'.repeat(10_000)] }, 1)
  expect(text?.length).toBeLessThan(300)
  expect(check({ additionalProperties: false }, { ['k'.repeat(100_000)]: 1 })[0]?.length).toBeLessThan(300)
  expect(check({ additionalProperties: { type: 'string' } }, { ['k'.repeat(100_000)]: 1 })[0]?.length).toBeLessThan(300)
})

test('drafts 6, 7, 2019-09 and 2020-12 are taken, with their own array and dependency keywords', () => {
  const tuple = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }], additionalItems: false }
  expect(check(tuple, ['a', 1])).toEqual(['must not have more than 1 items'])
  expect(check({ ...tuple, additionalItems: { type: 'number' } }, ['a', 'b'])).toEqual(['/1: must be number'])
  const dependent = { dependencies: { a: ['b'], c: { required: ['d'] } } }
  expect(check(dependent, { a: 1, c: 1 })).toHaveLength(2)
  expect(check({ $schema: 'http://json-schema.org/draft-07/schema', definitions: { s: { type: 'string' } },
    $ref: '#/definitions/s' }, 1)).toEqual(['must be string'])
  expect(check({ $schema: 'https://json-schema.org/draft/2020-12/schema', prefixItems: [{ type: 'string' }] },
    [1])).toEqual(['/0: must be string'])
  expect(check({ $schema: 'https://json-schema.org/draft/2019-09/schema', type: 'string' }, 'x')).toEqual([])
  expect(() => compile({ $schema: 'http://json-schema.org/draft-04/schema#' })).toThrow(
    '#/$schema: only drafts 2020-12, 2019-09, 7 and 6 are supported'
  )
  expect(() => compile({ properties: { a: { $schema: 3 } } })).toThrow('#/properties/a/$schema: only drafts')
})

test('annotations and unknown keywords and formats say nothing about a value', () => {
  expect(check({ title: 't', 'x-order': 1, examples: [1], format: 'colour', properties: { a: { format: 'url' } } },
    { a: 'no url' })).toEqual([])
})

test.each<[string, Json, string]>([
  ['no schema', [1], '#: a schema must be an object or a boolean'],
  ['a place that is none', { properties: { a: 3 } }, '#/properties/a: a schema must be an object or a boolean'],
  ['an unknown type', { properties: { a: { type: 'strin' } } }, '#/properties/a/type: must be one of'],
  ['a keyword of a wrong kind', { minLength: '3' }, '#/minLength: must be integer'],
  ['draft 4', { minimum: 1, exclusiveMinimum: true }, '#/exclusiveMinimum: must be number'],
  ['a reference to elsewhere', { $ref: 'http://127.0.0.1:1/schema.json' },
    'can\'t resolve reference http://127.0.0.1:1/schema.json'],
  ['a reference to nowhere', { $ref: '#/$defs/x' }, 'can\'t resolve reference #/$defs/x'],
  ['asynchronous schemas', { $async: true }, '#: $async is not supported'],
  ['__proto__', JSON.parse('{"properties":{"__proto__":{}}}') as Json, '#/properties: the name __proto__ is not allowed'],
  ['a pattern with a back-reference', { pattern: '(a)\\1' }, 'back-references are not supported'],
  ['a pattern with an inner look-ahead', { pattern: 'a(?=b)' }, 'a look-ahead is only supported right after a leading ^'],
  ['a pattern that is none', { patternProperties: { '(': {} } }, 'the pattern "(" cannot be used: missing closing )'],
  ['deep nesting', nest(100, {}, (items) => ({ items })), 'schemas nest deeper than 64 levels'],
  ['nesting that is no schema', { enum: [nest(200, 1, (item) => [item])] }, 'nests deeper than 128 levels'],
  ['100,000 properties', { properties: many(100_000, () => ({})) }, '#: the schema is longer than 262144 characters'],
  ['2,000 properties', { properties: many(2000, () => ({})) }, 'the schema holds more than 1500 subschemas'],
  ['a chain of references', { $defs: many(700, (i) => i === 699 ? {} : { items: { $ref: `#/$defs/p${i + 1}` } }),
    $ref: '#/$defs/p0' }, 'the schema refers to more than 200 places'],
  ['references in a ring', { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
    '#: the schema refers too deeply to its own parts']
])('%s is refused by name', (_, schema, message) => {
  expect(() => compile(schema)).toThrow(message)
})

test('a pattern that hangs others takes no time', () => {
  expect(check({ pattern: '^(a+)+$' }, `${'a'.repeat(100_000)}!`)).toEqual(['must match the pattern "^(a+)+$"'])
  expect(check({ pattern: '(x+x+)+y' }, 'x'.repeat(100_000))).toHaveLength(1)
})

test('patterns that would take long to compile are refused', () => {
  expect(() => compile({ pattern: '(a{0,1000}){0,1000}' })).toThrow('cannot be used')
  expect(() => compile({ pattern: '[a-z]{0,900}x[a-z]{0,900}' })).toThrow('is too large: use smaller repeat counts')
  expect(() => compile({ pattern: 'a'.repeat(3000) })).toThrow('is longer than 2000 characters')
  expect(() => compile({ allOf: Array.from({ length: 30 }, (_,
    i) => ({ pattern: `a{900}${i}` })) })).toThrow('the patterns of the schema are too large together')
})

test('patterns of one schema are not mixed up', () => {
  const schema = { properties: { a: { pattern: '^a$' }, b: { pattern: '^b$' }, c: { pattern: '^a$' } },
    patternProperties: { '^x': { type: 'string' }, '^y': { type: 'number' } } }
  expect(check(schema, { a: 'a', b: 'b', c: 'a', x1: 's', y1: 1 })).toEqual([])
  expect(check(schema, { a: 'b', b: 'a', x1: 1 })).toHaveLength(3)
})

test('a pattern means what it means in ECMAScript, look-aheads after ^ included', () => {
  const patterns = [
    '^a$', 'a$', '.', '^.$', '\\d+', '^\\w+$', '^[^]$', '^[\\w.-]+@[\\w-]+\\.\\w{2,}$', '\\u0041', '\\x41|b', '^\\/', '[/]',
      '^$', 'a|b', '^(?:a|b)+$', '\\bfoo\\b',
    '^(?!a)', '^(?!a)b', '^(?!.*\\.\\.)[a.]+$', '^(?=.*\\d)(?=.*[a-z]).{3,}$', '^(?!a|b)[abc)]', '^(?=[)]).', '^(?!a)b|c',
      '(?<=a)b', '(?<!a)b', '^\\p{L}+$'
  ]
  const unsupported = new Set(['^(?!a)b|c'])
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'A', '.', '1', '@', '/', ')', '-', '\n', ' ', 'é', '😀', 'foo'),
    maxLength: 8 })
  for (const source of patterns.filter((pattern) => !unsupported.has(pattern))) {
    const ours = compilePattern(source)
    const native = new RegExp(source, 'u')
    fc.assert(fc.property(text, (sample) => { expect([source, sample, ours.test(sample)]).toEqual([source, sample,
      native.test(sample)]) }), { numRuns: 60 })
  }
  for (const source of unsupported) expect(() => compilePattern(source)).toThrow('cannot be used')
  expect(compilePattern('^\\uD83D\\uDE00$').test('😀')).toBe(true)
})

test('exponential schemas and values end with a violation, not a stall', () => {
  const twice = (items: Json): Json => ({ anyOf: [{ type: 'array', items }, { type: 'array', items, minItems: 1 }] })
  const deep = nest(100, 'x', (item) => [item])
  const tooLarge = ['is too large to be checked against its schema']
  expect(check({ $defs: { a: twice({ $ref: '#/$defs/a' }) }, $ref: '#/$defs/a' }, deep)).toEqual(tooLarge)
  expect(check({ default: twice({ $ref: '#/default' }), $ref: '#/default' }, deep)).toEqual(tooLarge)
  expect(check({ items: { allOf: Array(1000).fill({ type: 'string' }) } }, Array(50_000).fill(1))).toEqual(tooLarge)
  expect(check({ allOf: Array(1000).fill({ minLength: 3 }) }, 'x'.repeat(1_000_000))).toEqual(tooLarge)
  expect(check({ $ref: '#' }, 1)).toEqual(['cannot be checked: its schema refers to itself without end'])
  expect(check({}, nest(1000, 1, (item) => [item]))).toEqual(['must have fewer than 100000 parts and nest less than 128 levels'])
  expect(check({}, Array(200_000).fill(1))).toEqual(['must have fewer than 100000 parts and nest less than 128 levels'])
  expect(check({ uniqueItems: true }, Array(90_000).fill([]))).toEqual(['must not hold the same item twice'])
  expect(check({ $defs: { a: { properties: many(700, () => ({ type: 'string' })) } },
    allOf: Array(700).fill({ $ref: '#/$defs/a' }) }, { p1: 1 })).toEqual(['/p1: must be string'])
})

test('a recursive schema of an ordinary tree works', () => {
  const tree = compile({ $id: 'T', type: 'object', properties: { children: { type: 'array', items: { $ref: 'T' } } },
    required: ['children'] })
  expect(tree({ children: [{ children: [] },
    { children: [{}] }] })).toEqual(['/children/1/children/0: must have the property "children"'])
})

test('names of Object.prototype are names like others', () => {
  const schema = { properties: { constructor: { type: 'string' }, toString: { type: 'number' } }, required: ['constructor',
    'hasOwnProperty'] }
  expect(check(schema, {})).toEqual(['must have the property "constructor"', 'must have the property "hasOwnProperty"'])
  expect(check(schema, { constructor: 1, hasOwnProperty: 1 })).toEqual(['/constructor: must be string'])
})

test('schemas with the same $id, one of a meta-schema, or $anchor do not meet', () => {
  for (const $id of ['x', 'https://json-schema.org/draft/2020-12/schema', '#']) {
    for (const type of ['string', 'number']) {
      expect(check({ $id, properties: { a: { $id: 'inner', type, $anchor: 'here' } } },
        { a: true })).toEqual([`/a: must be ${type}`])
    }
  }
})

test('no text of a schema runs as code', () => {
  const name = '"];globalThis.hacked=1;//`${globalThis.hacked=1}'
  check({ title: name, properties: { [name]: { const: name, pattern: '\\"]`' } }, required: [name] }, { [name]: 'x' })
  expect('hacked' in globalThis).toBe(false)
})

test('the same schema gives the same validator, until many others were used', () => {
  const compileHere = createSchemaCompiler()
  const schema = (i: number): Json => ({ type: 'object', title: `s${i}` })
  const first = compileHere(schema(0))
  expect(compileHere(schema(0))).toBe(first)
  for (let i = 1; i <= 200; i++) compileHere(schema(i))
  expect(compileHere(schema(0))).not.toBe(first)
})

test('a validator answers each value by itself', () => {
  const validate = compile({ type: 'string' })
  expect([validate(1), validate('a'), validate(2)]).toEqual([['must be string'], [], ['must be string']])
})

test('any JSON value as a schema is compiled or refused with an Error, and then checks any value', () => {
  const keyword = fc.constantFrom('type', 'properties', 'items', '$ref', 'anyOf', 'pattern', 'enum', 'required', '$id',
    '$dynamicRef', 'not', 'format', 'const', 'dependencies', 'if', 'unevaluatedProperties', 'nullable', 'id', '$anchor')
  const { schema } = fc.letrec((tie) => ({
    schema: fc.oneof({ maxDepth: 4 },
      fc.constantFrom<unknown>('string', 'object', '#', '#/properties', '^a', 1, true, null, ['a']),
      fc.array(tie('schema'), { maxLength: 3 }), fc.dictionary(keyword, tie('schema'), { maxKeys: 4 }))
  }))
  fc.assert(fc.property(schema, fc.jsonValue({ maxDepth: 3 }), (given, value) => {
    let validate
    try { validate = compile(given as Json) } catch (error) { expect(error).toBeInstanceOf(Error) }
    expect(Array.isArray(validate?.(value as Json) ?? [])).toBe(true)
  }), { numRuns: 300 })
})
