import { expect, test } from 'vitest'
import fc from 'fast-check'
import { declareTools } from '../../../src/tools/code/declarations.ts'
import type { Json } from '../../../src/core/json.ts'
import { createRunCode } from '../../../src/tools/code/run-code.ts'
import { createSandbox } from '../../../src/tools/code/sandbox.ts'
import { tool } from './room.ts'

const inputOf = (inputSchema: Json): string => /\(input\??: ([\s\S]*)\): Promise<unknown>$/.exec(declareTools([tool('t', inputSchema)]))?.[1] ?? ''

test('10 a tool is declared with its description, its types and what may be left out', () => {
  const declared = declareTools([{
    name: 'read_file',
    description: 'Reads a file.\nNever ends a comment: */ nor this.',
    inputSchema: {
      type: 'object',
      properties: {
        path: { type: 'string', description: 'Where it is' },
        range: { type: 'object', properties: { from: { type: 'integer' }, to: { type: ['integer', 'null'] } }, required: ['from'], additionalProperties: false },
        'max-lines': { type: 'number' }
      },
      required: ['path']
    },
    outputSchema: { type: 'array', items: { enum: ['a', 1, null] } }
  }, tool('a-b')])
  expect(declared).toBe(`/**
 * Reads a file.
 * Never ends a comment: *\\/ nor this.
 */
tools.read_file(input: {
  /** Where it is */
  path: string
  range?: {
    from: number
    to?: number | null
  }
  "max-lines"?: number
}): Promise<("a" | 1 | null)[]>

tools["a-b"](input?: Record<string, unknown>): Promise<unknown>`)
})

test.for<[Json, string]>([
  [{ type: 'object', properties: {}, additionalProperties: false }, '{}'],
  [{ type: 'object', additionalProperties: { type: 'boolean' } }, '{\n  [name: string]: boolean\n}'],
  [{ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] }, 'string | string[]'],
  [{ allOf: [{ $ref: '#/$defs/a' }, { type: 'object', properties: { b: { const: 'x' } } }], $defs: { a: { properties: { a: { type: 'null' } } } } }, '{\n  a?: null\n} & {\n  b?: "x"\n}'],
  [{ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }, '[string, number]'],
  [{ type: 'string', nullable: true }, 'string | null'],
  [{ $ref: '#/$defs/node', $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } } } } }, '{\n  next?: unknown\n}'],
  [{ $ref: 'https://example.test/schema' }, 'unknown'],
  [{ $ref: '#/constructor' }, 'unknown'],
  [true, 'unknown'],
  [{}, 'unknown']
])('10 the type of %j', ([schema, type]) => {
  expect(inputOf(schema)).toBe(type)
})

test('10 a schema that explodes is declared in bounds', () => {
  const wide: Json = { $defs: {} }
  const defs = wide.$defs as Record<string, Json>
  for (let i = 0; i < 30; i++) defs[`d${i}`] = { type: 'object', properties: Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`p${n}`, { $ref: `#/$defs/d${i + 1}` }])) }
  wide.$ref = '#/$defs/d0'
  expect(inputOf(wide)).toBe('Record<string, unknown>')
  expect(declareTools([{ ...tool('t'), description: 'x'.repeat(100_000) }]).length).toBeLessThan(1200)
})

test('10 any schema gives the same text each time, and none throws', () => {
  fc.assert(fc.property(fc.jsonValue(), fc.string(), (schema, name) => {
    const tools = [{ name, description: name, inputSchema: { type: 'object', properties: { a: schema, [name]: schema } } as Json }, { ...tool('b'), inputSchema: schema as Json }]
    expect(declareTools(tools)).toBe(declareTools(structuredClone(tools)))
  }))
})

test('10 the prompt section declares what a program may call: neither run_code itself nor what an upstream executes', () => {
  const options = { sandbox: createSandbox(), dispatch: () => Promise.reject(new Error('never')) }
  const { section } = createRunCode({ ...options, tools: [tool('a'), tool('run_code'), { ...tool('web_search'), serverTool: true }] })
  expect(section.text).toContain('```ts\ntools.a(input?: Record<string, unknown>): Promise<unknown>\n```')
  expect(section.text).not.toContain('web_search')
  expect(section.text).not.toContain('tools.run_code')
  expect(createRunCode({ ...options, tools: [] }).section.text).toContain('(There are no tools to call.)')
})
