import { _ } from 'ajv'
import type { ValidateFunction } from 'ajv'
import type { RegExpEngine } from 'ajv/dist/types/index.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { canonicalJson } from '../core/json.ts'
import type { Json, JsonObject } from '../core/json.ts'
import type { CompileSchema } from '../core/tool.ts'
import { compilePattern } from './pattern.ts'
import { boundedSchema } from './schema-shape.ts'
import { mend, violations } from './violations.ts'

/**
 * Compiles JSON schemas that anybody may have written, for values that anybody may have written: bounded in size and time, no
 * reference is ever fetched, nothing of a schema outlives its validator but a place in a small cache. `compile` throws an
 * `Error` that names the place and what cannot be used there. A validator answers what is wrong with a value (violations.ts).
 */
export function createSchemaCompiler (): CompileSchema {
  const meta = new Ajv2020({ strict: false, logger: false, allErrors: true })
  const cache = createCache<(value: Json) => string[]>()
  return (schema) => {
    const text = JSON.stringify(schema)
    const known = cache.get(text)
    if (known) return known
    const bounded = boundedSchema(schema, text)
    if (typeof bounded === 'object' && meta.validateSchema(bounded) !== true) {
      throw new Error((meta.errors ?? []).slice(0, 3).map((error) => `#${error.instancePath}: ${mend(error)}`).join('; '))
    }
    const check = compile(bounded)
    cache.set(text, check)
    return check
  }
}

/** A value with more parts than this is not looked at, and a validation takes no more steps than that. */
const MAX_PARTS = 100_000
const MAX_STEPS = 300_000
const MAX_NESTED = 128
/** Size of all patterns of a schema together. */
const MAX_PATTERNS = 20_000

const TOO_LARGE = `must have fewer than ${MAX_PARTS} parts and nest less than ${MAX_NESTED} levels`

/** Thrown out of a validation that takes too long. */
const TOO_COSTLY = new Error('the validation takes too many steps')
type Spend = (steps: number, data?: unknown, eachMember?: boolean) => void

function compile (schema: JsonObject | boolean): (value: Json) => string[] {
  let left = 0
  const spend: Spend = (steps, data, eachMember) => {
    left -= steps
    if (typeof data === 'string') left -= data.length >> 6
    else if (eachMember === true) left -= Array.isArray(data) ? data.length : Object.keys(Object(data) as object).length
    if (left < 0) throw TOO_COSTLY
  }
  const validate = compileBounded(schema, spend)
  return (value) => {
    if (partsLeft(value, MAX_PARTS, 0) < 0) return [TOO_LARGE]
    left = MAX_STEPS
    try {
      return validate(value) ? [] : violations(validate.errors ?? [])
    } catch (error) {
      if (error === TOO_COSTLY) return ['is too large to be checked against its schema']
      if (error instanceof RangeError) return ['cannot be checked: its schema refers to itself without end']
      throw error
    } finally {
      validate.errors = null
    }
  }
}

/** A validator of an Ajv of its own (made in 0.05 ms): a shared one would keep parts of every schema it ever compiled. */
function compileBounded (schema: JsonObject | boolean, spend: Spend): ValidateFunction {
  let room = MAX_PATTERNS
  const regExp = Object.assign((source: string) => {
    const pattern = compilePattern(source)
    room -= pattern.size
    if (room < 0) throw new Error('#: the patterns of the schema are too large together')
    const test = (text: string): boolean => {
      spend(1 + Math.floor(text.length * pattern.size / 2048))
      return pattern.test(text)
    }
    return { test, toString: () => pattern.toString() }
  }, { code: 'compilePattern' })
  // Without inlined references and the optimizer's passes, compiling takes time linear in the schema.
  const ajv = new Ajv2020({
    strict: false,
    logger: false,
    meta: false,
    validateSchema: false,
    allErrors: true,
    ownProperties: true,
    inlineRefs: false,
    code: { regExp: regExp as unknown as RegExpEngine, optimize: false }
  })
  formats.default(ajv)
  ajv.addFormat('url', true) // not standard, and its expression takes quadratic time
  countSteps(ajv, spend)
  try {
    return ajv.compile(schema)
  } catch (error) {
    if (error instanceof RangeError) throw new Error('#: the schema refers too deeply to its own parts', { cause: error })
    throw error
  }
}

/** Keywords that look at each item or member of a value. */
const LOOPS = new Set([
  'items', 'prefixItems', 'contains', 'unevaluatedItems',
  'patternProperties', 'additionalProperties', 'propertyNames', 'unevaluatedProperties'
])
/** Keywords whose every part costs a step. */
const LISTS = new Set(['required', 'allOf', 'anyOf', 'oneOf', 'prefixItems'])

/** Makes the generated code count its steps. The definitions changed are this instance's own. */
function countSteps (ajv: Ajv2020, spend: Spend): void {
  ajv.removeKeyword('uniqueItems') // compares each pair
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    validate: (on: boolean, items: unknown[]) => !on || new Set(items.map(canonicalJson)).size === items.length
  })
  for (const [keyword, rule] of Object.entries(ajv.RULES.all)) {
    if (typeof rule !== 'object' || !('code' in rule.definition)) continue
    const { definition } = rule
    const { code } = definition
    definition.code = (cxt, type) => {
      const schema: unknown = cxt.schema
      const size = typeof schema === 'object' && schema !== null ? Object.keys(schema).length : 0
      const steps = 1 + (LISTS.has(keyword) ? size : size >> 3)
      cxt.gen.code(_`${cxt.gen.scopeValue('func', { ref: spend })}(${steps}, ${cxt.data}, ${LOOPS.has(keyword)})`)
      code(cxt, type)
    }
  }
}

/** `left` less the parts of the value; below 0 when there are more, or when it nests too deeply. */
function partsLeft (value: Json, left: number, depth: number): number {
  if (typeof value !== 'object' || value === null) return left - 1
  if (depth >= MAX_NESTED) return -1
  let rest = left - 1
  for (const item of Array.isArray(value) ? value : Object.values(value)) {
    rest = partsLeft(item, rest, depth + 1)
    if (rest < 0) return rest
  }
  return rest
}

const CACHED = 200
const CACHED_CHARS = 2_000_000

/** The validators used last, within a count and a total size of their schemas' texts. */
function createCache<T> (): { get (text: string): T | undefined, set (text: string, value: T): void } {
  const entries = new Map<string, T>()
  let chars = 0
  return {
    get (text) {
      const value = entries.get(text)
      if (value !== undefined) {
        entries.delete(text)
        entries.set(text, value)
      }
      return value
    },
    set (text, value) {
      entries.set(text, value)
      chars += text.length
      for (const oldest of entries.keys()) {
        if (entries.size <= CACHED && chars <= CACHED_CHARS) break
        entries.delete(oldest)
        chars -= oldest.length
      }
    }
  }
}
