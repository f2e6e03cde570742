import fc from 'fast-check'
import { expect, test } from 'vitest'
import { schemaViolations } from '../../src/driver/output-schema.ts'

const TYPES = 'object, array, string, number, integer, boolean, null'
const object = (properties: Record<string, unknown>, more: object = {}) => ({ type: 'object', properties, ...more })
/** Violations of a schema that stands as a property of a good root. */
const inside = (schema: unknown) => schemaViolations(object({ a: schema }))

test('9.1 the whole subset is supported', () => {
  expect(schemaViolations({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    title: 't', description: 'd', $comment: 'c', examples: [{}], default: {}, deprecated: false, readOnly: false,
      writeOnly: false,
    properties: {
      s: { type: 'string', enum: ['a', 'b'], description: 'd' },
      n: { type: 'number', const: 1.5 },
      i: { type: 'integer' },
      b: { type: 'boolean', enum: [true] },
      z: { type: 'null', const: null },
      list: { type: 'array', items: { type: 'array', items: { type: 'string' } } },
      any: { type: 'array' },
      o: object({ x: { type: 'string' } }, { required: ['x'], additionalProperties: false }),
      u: { oneOf: [{ type: 'string' }, { oneOf: [{ type: 'null' }, object({})] }] },
      constructor: { type: 'string' }
    },
    required: ['s', 'list', 'constructor'],
    additionalProperties: true
  })).toEqual([])
  expect(schemaViolations({ type: 'object' })).toEqual([])
})

test.each<[string, unknown, string[]]>([
  ['no object', 'string', ['#: a schema must be an object']],
  ['a boolean', true, ['#: a schema must be an object']],
  ['a list', [{}], ['#: a schema must be an object']],
  ['nothing', {}, [`#: needs a "type" of ${TYPES}`]],
  ['another type', { type: 'string' }, ['#/type: the root must be of the type "object"']],
  ['alternatives', { oneOf: [{ type: 'object' }, { type: 'object' }] },
    ['#: the root must be of the type "object", not "oneOf"']],
  ['a list of types', { type: ['object', 'null'] }, ['#/type: must be one type, not a list; use "oneOf" for alternatives']],
  ['undefined', undefined, ['#: undefined is not JSON']],
  ['NaN inside', object({}, { default: NaN }), ['#/default: NaN is not a JSON number']]
])('9.1 the root must be an object schema: %s', (_, schema, violations) => {
  expect(schemaViolations(schema)).toEqual(violations)
})

test.each<[unknown, string[]]>([
  [{ type: 'strin' }, [`#/properties/a/type: must be one of ${TYPES}`]],
  [{ type: null }, [`#/properties/a/type: must be one of ${TYPES}`]],
  [{ enum: ['a'] }, [`#/properties/a: needs a "type" of ${TYPES}`]],
  [{ type: 'string', minLength: 1, pattern: 'x', format: 'date' }, ['minLength', 'pattern',
    'format'].map((k) => `#/properties/a: the keyword "${k}" is not supported`)],
  [{ type: 'array', prefixItems: [], minItems: 1 }, ['prefixItems',
    'minItems'].map((k) => `#/properties/a: the keyword "${k}" is not supported`)],
  [{ type: 'object', $ref: '#', allOf: [], anyOf: [], not: {}, $defs: {} }, ['$ref', 'allOf', 'anyOf', 'not',
    '$defs'].map((k) => `#/properties/a: the keyword "${k}" is not supported`)],
  [{ type: 'string', $schema: 'x' }, ['#/properties/a: the keyword "$schema" is not supported']],
  [{ type: 'string', items: {} }, ['#/properties/a: the keyword "items" does not apply to the type "string"']],
  [{ type: 'array', properties: {}, required: [] }, ['properties',
    'required'].map((k) => `#/properties/a: the keyword "${k}" does not apply to the type "array"`)],
  [{ type: 'object', enum: [1] }, ['#/properties/a: the keyword "enum" does not apply to the type "object"']],
  [{ type: 'string', enum: [] }, ['#/properties/a/enum: must be a list of one or more values']],
  [{ type: 'string', enum: ['a', {}, ['b']] }, ['#/properties/a/enum/1: must be a string, number, boolean or null',
    '#/properties/a/enum/2: must be a string, number, boolean or null']],
  [{ type: 'string', const: {} }, ['#/properties/a/const: must be a string, number, boolean or null']],
  [{ type: 'object', additionalProperties: { type: 'string' } }, ['#/properties/a/additionalProperties: must be true or false']],
  [{ type: 'object', properties: [] }, ['#/properties/a/properties: must be an object of schemas']],
  [{ type: 'array', items: [{ type: 'string' }] }, ['#/properties/a/items: a schema must be an object']],
  [{ type: 'object', required: 'x' }, ['#/properties/a/required: must be a list of property names']],
  [{ type: 'object', required: ['toString', 1] }, ['#/properties/a/required/0: "toString" is not declared in "properties"',
    '#/properties/a/required/1: must be a property name']],
  [{ type: 'object', properties: { x: { type: 'null' } }, required: ['x', 'x'] }, ['#/properties/a/required/1: names "x" twice']],
  [{ oneOf: [{ type: 'string' }] }, ['#/properties/a/oneOf: must be a list of two or more schemas']],
  [{ oneOf: 'x' }, ['#/properties/a/oneOf: must be a list of two or more schemas']],
  [{ oneOf: [{ type: 'string' }, 1], type: 'string', title: 't' }, [
    '#/properties/a: "oneOf" stands alone: move "type" into its alternatives',
    '#/properties/a: "oneOf" stands alone: move "title" into its alternatives',
    '#/properties/a/oneOf/1: a schema must be an object'
  ]]
])('9.1 %j is refused with every violation and its place', (schema, violations) => {
  expect(inside(schema)).toEqual(violations)
})

test('9.1 violations of several places stand in document order', () => {
  expect(schemaViolations({
    type: 'object',
    required: ['zz'],
    properties: { 'a/b': { type: 'x' }, c: { type: 'array', items: { type: 'string', maxLength: 1 } } },
    patternProperties: {}
  })).toEqual([
    '#/required/0: "zz" is not declared in "properties"',
    `#/properties/a~1b/type: must be one of ${TYPES}`,
    '#/properties/c/items: the keyword "maxLength" is not supported',
    '#: the keyword "patternProperties" is not supported'
  ])
})

test('names of Object.prototype are no keywords; __proto__ is no property', () => {
  expect(inside({ type: 'string', constructor: 1, toString: 2 })).toHaveLength(2)
  expect(schemaViolations(JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}'))).toEqual(
    ['#/properties: the name __proto__ is not allowed']
  )
})

test('hostile schemas get a short answer', () => {
  const nest = (levels: number) => {
    let schema: object = { type: 'string' }
    for (let i = 0; i < levels; i++) schema = { type: 'array', items: schema }
    return object({ a: schema })
  }
  expect(schemaViolations(nest(31))).toEqual([])
  expect(schemaViolations(nest(40))).toEqual([expect.stringMatching(/^#\/properties\/a(\/items)+: nests deeper than 32 levels$/)])
  expect(schemaViolations(nest(10_000))).toEqual(
    [expect.stringMatching(/^#\/properties\/a.{1,300}…: nests deeper than 128 levels/)]
  )
  const loop: Record<string, unknown> = { type: 'array' }
  loop.items = loop
  expect(schemaViolations(loop)).toHaveLength(1)
  const many = (count: number, schema: unknown) => object(Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`,
    schema])))
  expect(schemaViolations(many(2000, { type: 'null' }))).toEqual(['#/properties/p999: more than 1000 schemas'])
  expect(schemaViolations(many(100_000, { type: 'null' }))).toEqual(['#: is longer than 131072 characters'])
  const all = schemaViolations(many(500, { type: 'x' }))
  expect(all).toHaveLength(101)
  expect(all.at(-1)).toBe('…and more')
  const [long] = schemaViolations(object({ ['x'.repeat(50_000)]: 1 }))
  expect(long?.length).toBeLessThan(400)
})

test('any value gets violations or none, never an exception, and every violation has a place', () => {
  const key = fc.constantFrom('type', 'properties', 'required', 'items', 'enum', 'const', 'oneOf', 'additionalProperties',
    'title', 'a', '__proto__')
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 6 }, fc.constantFrom('object', 'array', 'string', 'a', 1, null, true), fc.array(tie('value'),
      { maxLength: 3 }), fc.dictionary(key, tie('value')))
  }))
  fc.assert(fc.property(value, (schema) => {
    for (const violation of schemaViolations(schema)) expect(violation).toMatch(/^#[^:]*: .+/)
  }))
})
