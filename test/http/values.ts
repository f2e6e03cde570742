import fc from 'fast-check'
import type { Schema } from './document.ts'

/** JSON as text that `JSON.stringify` would never write: a place in a value that stands for these very characters. */
export class Raw {
  readonly text: string
  constructor (text: string) { this.text = text }
}
/** An object as its members, so that names may repeat and be `__proto__`. */
export class Members {
  readonly list: readonly (readonly [string, unknown])[]
  constructor (list: readonly (readonly [string, unknown])[]) { this.list = list }
}

export function print (value: unknown): string {
  if (value instanceof Raw) return value.text
  if (value instanceof Members) return `{${value.list.map(([name, item]) => `${JSON.stringify(name)}:${print(item)}`).join(',')}}`
  if (Array.isArray(value)) return `[${value.map(print).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  return print(new Members(Object.entries(value).filter(([, item]) => item !== undefined)))
}

const SMALL = 12
const number = (value: unknown): number | undefined => typeof value === 'number' ? value : undefined

/** Values that a schema of the document allows, small ones. */
export function valid (schema: Schema, components: Record<string, Schema>, depth = 0): fc.Arbitrary<unknown> {
  const below = (inner: unknown): fc.Arbitrary<unknown> => valid(inner as Schema, components, depth + 1)
  if (typeof schema.$ref === 'string') return below(components[schema.$ref.split('/').at(-1) ?? ''])
  if ('const' in schema) return fc.constant(schema.const)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum as unknown[])
  const either = schema.anyOf ?? schema.oneOf
  if (Array.isArray(either)) return fc.oneof(...either.map(below))
  switch (schema.type) {
    case 'string': return strings(schema)
    case 'integer': return fc.integer({ min: number(schema.minimum) ?? -5, max: Math.min(number(schema.maximum) ?? 1000, 1000) })
    case 'number': return fc.double({ min: number(schema.minimum) ?? 0, max: number(schema.maximum) ?? 10, noNaN: true })
    case 'boolean': return fc.boolean()
    case 'null': return fc.constant(null)
    case 'array': {
      const minLength = number(schema.minItems) ?? 0
      return fc.array(below(schema.items ?? {}), { minLength, maxLength: Math.max(minLength,
        Math.min(number(schema.maxItems) ?? 3, 3)) })
    }
    case 'object': return objects(schema, below)
    default: return depth > 4 ? fc.constantFrom(null, 1, 'x', true) : fc.jsonValue({ maxDepth: 2 })
  }
}

function strings (schema: Schema): fc.Arbitrary<string> {
  if (typeof schema.pattern === 'string') return fc.stringMatching(new RegExp(schema.pattern))
  const minLength = number(schema.minLength) ?? 0
  return fc.string({ minLength, maxLength: Math.max(minLength, Math.min(number(schema.maxLength) ?? SMALL, SMALL)),
    unit: 'grapheme' })
}

function objects (schema: Schema, below: (inner: unknown) => fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const properties = schema.properties as Record<string, Schema> | undefined
  if (!properties) {
    const more = schema.additionalProperties
    return fc.dictionary(fc.string({ minLength: 1, maxLength: SMALL }),
      typeof more === 'object' && more !== null ? below(more) : fc.jsonValue({ maxDepth: 1 }), { maxKeys: 4 })
  }
  const required = new Set(schema.required as string[] | undefined)
  const members = Object.entries(properties).map(([name, inner]) =>
    (required.has(name) ? below(inner) : fc.option(below(inner), { nil: undefined, freq: 2 })).map((value) => [name,
      value] as const))
  return fc.tuple(...members).map((list) => Object.fromEntries(list.filter(([, value]) => value !== undefined)))
}

const deep = (depth: number): Raw => new Raw('['.repeat(depth) + ']'.repeat(depth))
/** What stands in the place of something that was right. */
const JUNK: readonly unknown[] = [
  null, true, '', 0, -1, 1.5, [], {}, [[]], '2', 'null', 'x'.repeat(300), 'x'.repeat(5000), '\u0000', '\ud800', 'a\udfffb',
    '‮\u2028é😀', '__proto__', '../../etc',
  ...['-0', '1e400', '-1e400', 'NaN', 'Infinity', '9007199254740993', '-9007199254740993', '1'.repeat(400), '0.1e-400', '01',
    '+1', '1.', '.5', '0x10',
    'undefined', "'a'", '"\\ud800"', '"\\u0000"', '"\u0001"', '"a\nb"', '"\\x"', '"\\u12"', '{"a":1,"a":2}',
      '{"__proto__":{"x":1}}', '{"constructor":{"prototype":{"x":1}}}',
    '{"a":1,}', '[1,]', '{,}', '{"a" 1}', '', '/* c */ 1', '{"toString":1,"hasOwnProperty":2}',
      '"' + 'y'.repeat(70_000) + '"'].map((text) => new Raw(text)),
  deep(10), deep(100), deep(2000), deep(60_000),
  new Raw('{"a":'.repeat(500) + '1' + '}'.repeat(500)),
  new Raw(`[${'0,'.repeat(20_000)}0]`),
  new Raw(`{${Array.from({ length: 2000 }, (_, i) => `"k${i}":0`).join(',')}}`),
  { type: 'object', $ref: '#' }, { type: 'string', pattern: '(a+)+$' }, { $ref: 'http://127.0.0.1:1/x' }, { type: 'object',
    properties: { a: { $ref: '#' } } },
  { allOf: Array.from({ length: 50 }, () => ({ anyOf: [{}, {}] })) }
]
const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '', 'x', 'Task', 'task ', '\u0000', 'é',
  '$ref', 'x'.repeat(300)]

export interface Mutation { place: number[], how: 'replace' | 'remove' | 'add' | 'repeat', junk: unknown, name: string }
export const mutations: fc.Arbitrary<Mutation> = fc.record({
  place: fc.array(fc.nat(30), { minLength: 1, maxLength: 6 }),
  how: fc.oneof({ weight: 6, arbitrary: fc.constant('replace' as const) }, fc.constantFrom('remove' as const, 'add' as const,
    'repeat' as const)),
  junk: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...JUNK) }, fc.jsonValue({ maxDepth: 3 })),
  name: fc.constantFrom(...NAMES)
})

/** The value with one thing wrong in it: at `place`, or above it where the value ends before. */
export function mutate (value: unknown, mutation: Mutation, at = 0): unknown {
  const { place, how, junk, name } = mutation
  const step = place[at]
  if (typeof value !== 'object' || value === null || step === undefined || value instanceof Raw || value instanceof Members) {
    return how === 'replace' ? junk : value
  }
  const last = at === place.length - 1
  if (Array.isArray(value)) {
    if (value.length === 0) return [junk]
    const index = step % value.length
    if (last && how === 'remove') return value.toSpliced(index, 1)
    if (last && how === 'repeat') return [...value as unknown[], value[index]]
    return value.with(index, mutate(value[index], mutation, at + 1))
  }
  const members = Object.entries(value)
  const index = step % Math.max(1, members.length)
  const member = members[index]
  if (last && how === 'add') return new Members([...members, [name, junk]])
  if (!member) return new Members([[name, junk]])
  if (last && how === 'remove') return new Members(members.toSpliced(index, 1))
  if (last && how === 'repeat') return new Members([...members, [member[0], member[1]]])
  return new Members(members.with(index, [member[0], mutate(member[1], mutation, at + 1)]))
}
