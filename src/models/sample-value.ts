import { canonicalJson, isObject, type Json, type JsonObject } from '../core/json.ts'

/**
 * A small value that is valid for a schema of the supported subset (driver.md 9.1); `undefined` where none was found. Pure and
 * deterministic.
 */
export const sampleValue = (schema: Json): Json | undefined => candidates(schema)[0]

/** Valid values, the smallest first; enough of them to tell the branches of a `oneOf` apart. */
function candidates (schema: Json): Json[] {
  if (!isObject(schema)) return [{}]
  return proposals(schema).filter((value) => accepts(schema, value))
}

function proposals (schema: Record<string, unknown>): Json[] {
  if (schema.const !== undefined) return [schema.const as Json]
  if (Array.isArray(schema.enum)) return schema.enum as Json[]
  if (Array.isArray(schema.oneOf)) return schema.oneOf.flatMap((branch) => candidates(branch as Json))
  switch (schema.type) {
    case 'object': return objects(schema)
    case 'array': return [[], ...candidates(schema.items as Json ?? {}).slice(0, 2).map((item) => [item])]
    case 'string': return ['text', '']
    case 'integer': return [0, 1]
    case 'number': return [0, 0.5]
    case 'boolean': return [true, false]
    case 'null': return [null]
    default: return ['text', 0, {}, []]
  }
}

/** With the required members, then with all. */
function objects (schema: Record<string, unknown>): JsonObject[] {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : []
  const required = Array.isArray(schema.required) ? schema.required : []
  const all = properties.map(([key, property]) => [key, candidates(property as Json)] as const)
  const own = all.filter(([, values]) => values.length > 0)
  const needed = own.filter(([key]) => required.includes(key))
  const members = (of: typeof own, pick: number): JsonObject =>
    Object.fromEntries(of.map(([key, values]) => [key, values[Math.min(pick, values.length - 1)] as Json]))
  return [members(needed, 0), members(needed, 1), members(own, 0)]
}

function accepts (schema: unknown, value: Json): boolean {
  if (!isObject(schema)) return true
  const same = (other: unknown): boolean => canonicalJson(other) === canonicalJson(value)
  if (schema.const !== undefined && !same(schema.const)) return false
  if (Array.isArray(schema.enum) && !schema.enum.some(same)) return false
  if (Array.isArray(schema.oneOf)) return schema.oneOf.filter((branch) => accepts(branch, value)).length === 1
  switch (schema.type) {
    case 'object': return isObject(value) && acceptsMembers(schema, value)
    case 'array': return Array.isArray(value) && value.every((item) => accepts(schema.items, item))
    case 'integer': return Number.isInteger(value)
    case 'null': return value === null
    case undefined: return true
    default: return typeof value === schema.type
  }
}

function acceptsMembers (schema: Record<string, unknown>, value: Record<string, unknown>): boolean {
  const properties = isObject(schema.properties) ? schema.properties : {}
  if (Array.isArray(schema.required) && !schema.required.every((key: string) => Object.hasOwn(value, key))) return false
  return Object.entries(value).every(([key, item]) =>
    Object.hasOwn(properties, key) ? accepts(properties[key], item as Json) : schema.additionalProperties !== false)
}
