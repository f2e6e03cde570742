import type { TSchema, Type as TypeBox } from 'typebox'

/** TypeBox's builders for the few schemas of the wire, its types and all, without the library: at run time it weighs 13 MB. */

const OPTIONAL = '~optional'

const plain = (type: string) => (options: object = {}) => ({ type, ...options })

function object (properties: Record<string, TSchema>, options: object = {}): object {
  const required = Object.keys(properties).filter((name) => !(OPTIONAL in (properties[name] ?? {})))
  return { type: 'object', ...required.length > 0 ? { required } : {}, properties, ...options }
}

type Builders = Pick<typeof TypeBox,
  'Array' | 'Boolean' | 'Integer' | 'Literal' | 'Null' | 'Number' | 'Object' | 'Optional' | 'String' | 'Union' | 'Unsafe'>

export const Type = {
  Array: (items: TSchema, options: object = {}) => ({ type: 'array', items, ...options }),
  Boolean: plain('boolean'),
  Integer: plain('integer'),
  Literal: (value: string | number | boolean, options: object = {}) => ({ type: typeof value, const: value, ...options }),
  Null: plain('null'),
  Number: plain('number'),
  Object: object,
  // Only `Object` sees the mark: it is in no document.
  Optional: (schema: TSchema) => Object.defineProperty({ ...schema }, OPTIONAL, { value: true }),
  String: plain('string'),
  Union: (anyOf: readonly TSchema[], options: object = {}) => ({ anyOf, ...options }),
  Unsafe: (schema: TSchema) => schema
} as unknown as Builders
