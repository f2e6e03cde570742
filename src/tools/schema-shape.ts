import { isObject, plainJsonFault, pointerToken } from '../core/json.ts'
import type { Json, JsonObject } from '../core/json.ts'

/** A schema that is safe to compile: bounded, without what would change the way it is compiled, drafts 6 and 7 made 2020-12. */

const MAX_CHARS = 256 * 1024
const MAX_SCHEMAS = 1500
const MAX_DEPTH = 64
/** Different places that `$ref`s name: a chain of them is compiled recursively. */
const MAX_REFS = 200
const DIALECT = /^https?:\/\/json-schema\.org\/(draft\/2020-12|draft\/2019-09|draft-07|draft-06)\/schema#?$/

const MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const SINGLES = new Set([
  'items', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties', 'contains', 'propertyNames',
  'not', 'if', 'then', 'else'
])

/** A copy of the schema, whose JSON is `text`, for the compiler. Throws an `Error` that names the place and what is wrong. */
export function boundedSchema (schema: Json, text: string): JsonObject | boolean {
  if (text.length > MAX_CHARS) throw new Error(`#: the schema is longer than ${MAX_CHARS} characters`)
  const fault = plainJsonFault(schema)
  if (fault) throw new Error(`#${fault.pointer}: ${fault.reason}`)
  return copySchema(schema, '#', { left: MAX_SCHEMAS, refs: new Set() }, 0)
}

interface Count { left: number, refs: Set<string> }

function copySchema (schema: Json, at: string, count: Count, depth: number): JsonObject | boolean {
  if (typeof schema === 'boolean') return schema
  if (!isObject(schema)) throw new Error(`${at}: a schema must be an object or a boolean`)
  if (depth > MAX_DEPTH) throw new Error(`${shortened(at)}: schemas nest deeper than ${MAX_DEPTH} levels`)
  if (--count.left < 0) throw new Error(`${at}: the schema holds more than ${MAX_SCHEMAS} subschemas`)
  if (typeof schema.$ref === 'string' && count.refs.add(schema.$ref).size > MAX_REFS) {
    throw new Error(`${at}: the schema refers to more than ${MAX_REFS} places`)
  }
  if (schema.$async !== undefined) throw new Error(`${at}: $async is not supported`)
  if (schema.$schema !== undefined && !(typeof schema.$schema === 'string' && DIALECT.test(schema.$schema))) {
    throw new Error(`${at}/$schema: only drafts 2020-12, 2019-09, 7 and 6 are supported`)
  }
  const out: JsonObject = {}
  for (const [key, value] of Object.entries(schema) as [string, Json][]) {
    if (key === '__proto__') throw new Error(`${at}: the name __proto__ is not allowed`)
    if (key === '$schema') continue
    const below = `${at}/${pointerToken(key)}`
    const copy = (item: Json, token?: string | number): Json =>
      copySchema(item, token === undefined ? below : `${below}/${pointerToken(String(token))}`, count, depth + 1)
    if (MAPS.has(key) && isObject(value)) out[key] = copyMap(value as JsonObject, below, copy)
    else if (key === 'items' && Array.isArray(value)) out.prefixItems = value.map(copy)
    else if (key === 'additionalItems' && Array.isArray(schema.items)) out.items = copy(value)
    else if (key === 'dependencies' && isObject(value)) splitDependencies(value as JsonObject, out, copy)
    else if (LISTS.has(key) && Array.isArray(value)) out[key] = value.map(copy)
    else if (SINGLES.has(key)) out[key] = copy(value)
    else out[key] = value
  }
  return out
}

function copyMap (map: JsonObject, at: string, copy: (item: Json, token: string) => Json): JsonObject {
  if (Object.hasOwn(map, '__proto__')) throw new Error(`${at}: the name __proto__ is not allowed`)
  return Object.fromEntries(Object.entries(map).map(([name, item]) => [name, copy(item, name)]))
}

/** Draft 7 has one keyword for what are two since. */
function splitDependencies (map: JsonObject, out: JsonObject, copy: (item: Json, token: string) => Json): void {
  const entries = Object.entries(map)
  out.dependentRequired = Object.fromEntries(entries.filter(([, item]) => Array.isArray(item)))
  const schemas = entries.filter(([, item]) => !Array.isArray(item))
  out.dependentSchemas = Object.fromEntries(schemas.map(([name, item]) => [name, copy(item, name)]))
}

const shortened = (at: string): string => at.length > 200 ? `${at.slice(0, 200)}…` : at
