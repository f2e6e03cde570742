import { isObject, plainJsonFault, pointerToken } from '../core/json.ts'

/**
 * The schemas that a structured result may have (driver.md 9.1). A violation reads `<place>: <what>`, its place a pointer from
 * the root `#`, like `#/properties/a`. The texts are those of this file; hosts relay them.
 */

const MAX_DEPTH = 32
const MAX_SCHEMAS = 1000
const MAX_CHARS = 128 * 1024
const MAX_VIOLATIONS = 100
const MAX_PLACE = 300

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$comment'])
/** Each keyword, and the types it stands beside. */
const KEYWORDS: Record<string, readonly string[]> = {
  properties: ['object'],
  required: ['object'],
  additionalProperties: ['object'],
  items: ['array'],
  enum: ['string', 'number', 'integer', 'boolean', 'null'],
  const: ['string', 'number', 'integer', 'boolean', 'null']
}

interface Check { violations: string[], schemas: number }

/** Every violation of a schema in document order (a hundred at most, then `…and more`); empty when it is supported. Pure. */
export function schemaViolations (schema: unknown): string[] {
  const fault = plainJsonFault(schema)
  if (fault) return [`${clip(`#${fault.pointer}`)}: ${fault.reason}`]
  if ((JSON.stringify(schema) ?? '').length > MAX_CHARS) return [`#: is longer than ${MAX_CHARS} characters`]
  const check: Check = { violations: [], schemas: 0 }
  checkSchema(check, schema, '#', 0)
  const { violations } = check
  return violations.length > MAX_VIOLATIONS ? [...violations.slice(0, MAX_VIOLATIONS), '…and more'] : violations
}

function checkSchema (check: Check, schema: unknown, at: string, depth: number): void {
  const say = (what: string, place = at): void => {
    if (check.violations.length <= MAX_VIOLATIONS) check.violations.push(`${clip(place)}: ${what}`)
  }
  if (depth > MAX_DEPTH) return say(`nests deeper than ${MAX_DEPTH} levels`)
  if (++check.schemas > MAX_SCHEMAS) {
    if (check.schemas === MAX_SCHEMAS + 1) say(`more than ${MAX_SCHEMAS} schemas`)
    return
  }
  if (!isObject(schema)) return say('a schema must be an object')
  if (Object.hasOwn(schema, 'oneOf')) return checkOneOf(check, schema, at, depth, say)
  checkType(schema.type, at, say)
  for (const [key, value] of Object.entries(schema)) {
    const place = `${at}/${pointerToken(key)}`
    const beside = Object.hasOwn(KEYWORDS, key) ? KEYWORDS[key] : undefined
    if (key === 'type' || ANNOTATIONS.has(key) || (key === '$schema' && at === '#')) continue
    if (!beside) say(`the keyword ${quoted(key)} is not supported`)
    else if (TYPES.includes(schema.type as string) && !beside.includes(schema.type as string)) {
      say(`the keyword "${key}" does not apply to the type "${String(schema.type)}"`)
    } else if (key === 'properties') checkProperties(check, value, place, depth, say)
    else if (key === 'items') checkSchema(check, value, place, depth + 1)
    else checkPlain(key, value, schema, place, say)
  }
}

type Say = (what: string, place?: string) => void

function checkType (type: unknown, at: string, say: Say): void {
  if (type === undefined) say(`needs a "type" of ${TYPES.join(', ')}`)
  else if (Array.isArray(type)) say('must be one type, not a list; use "oneOf" for alternatives', `${at}/type`)
  else if (!TYPES.includes(type as string)) say(`must be one of ${TYPES.join(', ')}`, `${at}/type`)
  else if (at === '#' && type !== 'object') say('the root must be of the type "object"', '#/type')
}

function checkOneOf (check: Check, schema: Record<string, unknown>, at: string, depth: number, say: Say): void {
  if (at === '#') say('the root must be of the type "object", not "oneOf"')
  const siblings = Object.keys(schema).filter((key) => key !== 'oneOf')
  for (const key of siblings) say(`"oneOf" stands alone: move ${quoted(key)} into its alternatives`)
  const alternatives = schema.oneOf
  if (!Array.isArray(alternatives) || alternatives.length < 2) return say('must be a list of two or more schemas', `${at}/oneOf`)
  for (const [i, alternative] of alternatives.entries()) checkSchema(check, alternative, `${at}/oneOf/${i}`, depth + 1)
}

function checkProperties (check: Check, value: unknown, at: string, depth: number, say: Say): void {
  if (!isObject(value)) return say('must be an object of schemas', at)
  for (const [name, schema] of Object.entries(value)) {
    if (name === '__proto__') say('the name __proto__ is not allowed', at)
    else checkSchema(check, schema, `${at}/${pointerToken(name)}`, depth + 1)
  }
}

function checkPlain (key: string, value: unknown, schema: Record<string, unknown>, at: string, say: Say): void {
  switch (key) {
    case 'required': return checkRequired(value, schema.properties, at, say)
    case 'additionalProperties': return typeof value === 'boolean' ? undefined : say('must be true or false', at)
    case 'const': return isScalar(value) ? undefined : say('must be a string, number, boolean or null', at)
    default:
      if (!Array.isArray(value) || value.length === 0) return say('must be a list of one or more values', at)
      for (const [i, item] of value.entries()) if (!isScalar(item)) say('must be a string, number, boolean or null', `${at}/${i}`)
  }
}

function checkRequired (value: unknown, properties: unknown, at: string, say: Say): void {
  if (!Array.isArray(value)) return say('must be a list of property names', at)
  const seen = new Set<unknown>()
  for (const [i, name] of value.entries()) {
    if (typeof name !== 'string') say('must be a property name', `${at}/${i}`)
    else if (seen.has(name)) say(`names ${quoted(name)} twice`, `${at}/${i}`)
    else if (!isObject(properties) || !Object.hasOwn(properties, name)) {
      say(`${quoted(name)} is not declared in "properties"`, `${at}/${i}`)
    }
    seen.add(name)
  }
}

const isScalar = (value: unknown): boolean => value === null || typeof value !== 'object'
const clip = (text: string): string => text.length > MAX_PLACE ? `${text.slice(0, MAX_PLACE)}…`.toWellFormed() : text
const quoted = (text: string): string => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
