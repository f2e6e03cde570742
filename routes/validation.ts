import { _, Ajv2020 } from 'ajv/dist/2020.js'
import type { Code, ErrorObject, KeywordErrorDefinition, Name, ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { pointerToken } from '../src/core/json.ts'
import { invalid } from './invalid.ts'
import type { Fault } from './invalid.ts'

/** Past so many values in a body only its first fault is told: telling all could cost more than the body itself. */
const MANY = 5000

/**
 * Fastify's validator compiler over one Ajv each for "first fault" and "all faults" (small bodies only). No coercion, no
 * defaults, no removal. Schemas compile when first needed: an idle service holds none. A failed validation gives an
 * `INVALID_REQUEST`. Answer schemas serve the document and are never compiled here.
 */
export function createValidatorCompiler (schemas: readonly TSchema[]): FastifySchemaCompiler<object> {
  let first: Ajv2020 | undefined
  let all: Ajv2020 | undefined
  return ({ schema, httpPart }) => {
    if (httpPart === 'headers') return () => true
    let check: ValidateFunction | undefined
    let checkAll: ValidateFunction | undefined
    const source = httpPart === 'querystring' ? 'query' : 'body'
    return (value: unknown) => {
      first ??= createAjv(schemas, false)
      check ??= first.compile(schema)
      if (check(value)) return true
      if (!fewValues(value)) return { error: invalid(faultsOf(check.errors ?? [], source)) }
      all ??= createAjv(schemas, true)
      checkAll ??= all.compile(schema)
      checkAll(value)
      return { error: invalid(faultsOf(checkAll.errors ?? [], source)) }
    }
  }
}

function createAjv (schemas: readonly TSchema[], allErrors: boolean): Ajv2020 {
  const ajv = new Ajv2020({
    allErrors,
    coerceTypes: false,
    useDefaults: false,
    removeAdditional: false,
    discriminator: true,
    verbose: true,
    strict: false,
    code: { optimize: false }
  })
  addFormats.default(ajv)
  countFewCharacters(ajv)
  for (const schema of schemas) ajv.addSchema(schema)
  return ajv
}

const charactersOf = (text: string): number => {
  let count = 0
  for (let at = 0; at < text.length; at++, count++) if ((text.codePointAt(at) as number) > 0xffff) at++
  return count
}

/** Ajv counts the characters of any string that has a limit; one whose code units tell already needs no count. */
function countFewCharacters (ajv: Ajv2020): void {
  const error: KeywordErrorDefinition = { message: 'has a length outside its limits', params: ({ schemaCode }) => _`{limit: ${schemaCode}}` }
  const define = (keyword: string, fails: (text: Name, limit: number, count: Code) => Code): unknown => ajv.removeKeyword(keyword).addKeyword({
    keyword, type: 'string', schemaType: 'number', error,
    code (cxt) { cxt.fail(fails(cxt.data, cxt.schema as number, _`${cxt.gen.scopeValue('func', { ref: charactersOf })}(${cxt.data})`)) }
  })
  define('minLength', (text, least, count) => _`${text}.length < ${2 * least} && ${count} < ${least}`)
  define('maxLength', (text, most, count) => _`${text}.length > ${most} && (${text}.length > ${2 * most} || ${count} > ${most})`)
}

function fewValues (value: unknown): boolean {
  let left = MANY
  const within = (item: unknown): boolean => {
    if (--left <= 0) return false
    if (typeof item !== 'object' || item === null) return true
    if (Array.isArray(item)) return item.length < left && item.every(within)
    for (const name in item) if (!within((item as Record<string, unknown>)[name])) return false
    return true
  }
  return within(value)
}

/** What Ajv found, one line a place, in words for the sender. */
function faultsOf (errors: readonly ErrorObject[], source: 'query' | 'body'): Fault[] {
  const faults = withoutBranches(errors).map((error) => faultOf(error))
  const seen = new Set<string>()
  return faults
    .filter(({ pointer, detail }) => !seen.has(`${pointer}\n${detail}`) && seen.add(`${pointer}\n${detail}`))
    .map(
      ({ pointer, detail }) => (
        { pointer, detail: source === 'body' ? detail : `query parameter "${pointer.slice(1)}" ${detail}` }
      )
    )
}

/** Of a union's branches keep what is wrong inside a value of the right kind, or say once which kinds there are. */
function withoutBranches (errors: readonly ErrorObject[]): ErrorObject[] {
  const unions = errors.filter((error) => error.keyword === 'anyOf')
  return errors.filter((error) => {
    const own = unions.find(
      (union) => error !== union && error.schemaPath.startsWith(union.schemaPath) && error.instancePath === union.instancePath
    )
    if (own) return error.keyword !== 'type' && typeFits(error)
    return error.keyword !== 'anyOf' || !errors.some((other) => inside(other, error))
  })
}

const typeFits = (error: ErrorObject): boolean => {
  const { type } = (error.parentSchema ?? {}) as { type?: string }
  return type === (Array.isArray(error.data) ? 'array' : typeof error.data)
}
const inside = (error: ErrorObject, union: ErrorObject): boolean => error !== union &&
  (error.instancePath.startsWith(`${union.instancePath}/`) ||
  (error.instancePath === union.instancePath && error.keyword !== 'type' && error.keyword !== 'anyOf' && typeFits(error)))

function faultOf (error: ErrorObject): Fault {
  const { instancePath: pointer, params } = error
  const name = error.propertyName ?? (params['propertyName'] as string | undefined)
  if (name !== undefined) return { pointer: `${pointer}/${pointerToken(name)}`, detail: 'has a name that is empty or too long' }
  switch (error.keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const name = String(params['additionalProperty'] ?? params['unevaluatedProperty'])
      return { pointer: `${pointer}/${pointerToken(name)}`, detail: 'is not a known field' }
    }
    case 'required': return { pointer: `${pointer}/${pointerToken(String(params['missingProperty']))}`, detail: 'is required' }
    case 'enum': return { pointer, detail: `must be one of ${(params['allowedValues'] as unknown[]).join(', ')}` }
    case 'discriminator':
      return { pointer: `${pointer}/${String(params['tag'])}`, detail: `must be one of ${tagsOf(error).join(', ')}` }
    case 'anyOf': return { pointer, detail: `must be ${kindsOf(error).join(' or ')}` }
    case 'minLength': return { pointer, detail: 'must not be empty' }
    case 'maxLength': return { pointer, detail: `must have at most ${String(params['limit'])} characters` }
    case 'minItems': return { pointer, detail: `must have at least ${String(params['limit'])} items` }
    case 'maxItems': {
      const hint = pointer.endsWith('/messages') ? '; keep a longer conversation here (POST /v1/sessions) and append to it in pieces' : ''
      return { pointer, detail: `must have at most ${String(params['limit'])} items${hint}` }
    }
    case 'maxProperties': return { pointer, detail: `must have at most ${String(params['limit'])} members` }
    case 'pattern': return { pointer, detail: `must match ${String(params['pattern'])}` }
    default: return { pointer, detail: error.message ?? 'is not valid' }
  }
}

function kindsOf (error: ErrorObject): string[] {
  const branches = (error.parentSchema as { anyOf?: { type?: string }[] } | undefined)?.anyOf ?? []
  return branches.map((branch) => branch.type ?? 'another kind')
}

function tagsOf (error: ErrorObject): string[] {
  const branches = (
    error.parentSchema as { oneOf?: { properties?: Record<string, { const?: string }> }[] } | undefined
  )?.oneOf ?? []
  return branches.map((branch) => branch.properties?.[String(error.params['tag'])]?.const ?? '?')
}
