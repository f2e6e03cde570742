import type { ToolDefinition } from '../../core/events.ts'
import { isObject, type Json } from '../../core/json.ts'

/** What a program is told of a tool. `outputSchema`: the schema of its structured value, where it has one. */
export type CodeTool = Pick<ToolDefinition, 'name' | 'description' | 'inputSchema'> & { serverTool?: true, outputSchema?: Json }

/** Nesting past which a type is `unknown`, and the characters of one tool's types past which all are told by name alone. */
const MAX_DEPTH = 8
const MAX_CHARS = 8000
const MAX_COMMENT = 1000

/**
 * A TypeScript-like declaration of each tool, from its JSON schema: `tools.name(input: {…}): Promise<…>` under its description.
 * Pure: the same tools give the same text. What a type cannot say is left out; the arguments are validated anyway.
 */
export const declareTools = (tools: readonly CodeTool[]): string => tools.map(declareTool).join('\n\n')

function declareTool ({ name, description, inputSchema, outputSchema }: CodeTool): string {
  const input = typeOf(inputSchema)
  const output = outputSchema === undefined ? 'unknown' : typeOf(outputSchema)
  return `${comment(description, '')}${accessOf(name)}(input${needsInput(inputSchema) ? '' : '?'}: ${input}): Promise<${output}>`
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/
/** How a program names a tool. */
export const accessOf = (name: string): string => IDENTIFIER.test(name) ? `tools.${name}` : `tools[${JSON.stringify(name)}]`

function needsInput (schema: Json): boolean {
  if (!isObject(schema)) return false
  const isRequired = Array.isArray(schema.required) && schema.required.length > 0
  return isRequired || ['$ref', 'oneOf', 'anyOf', 'allOf'].some((key) => key in schema)
}

function typeOf (schema: Json): string {
  const type = new TypeWriter(schema).write(schema, { indent: '', depth: 0, refs: [] })
  return type.length <= MAX_CHARS ? type : 'Record<string, unknown>'
}

/** Where in a schema, and in the text, a type stands. */
interface Place { indent: string, depth: number, refs: readonly string[] }
type Schema = Record<string, unknown>

class TypeWriter {
  readonly #root: Json
  /** Characters left: a schema whose references multiply must not. */
  #left = 4 * MAX_CHARS

  constructor (root: Json) { this.#root = root }

  write (schema: unknown, place: Place): string {
    if (schema === false) return 'never'
    if (!isObject(schema) || place.depth > MAX_DEPTH || this.#left <= 0) return 'unknown'
    const type = this.#bare(schema, place)
    this.#left -= type.length
    return type
  }

  #bare (schema: Schema, place: Place): string {
    const { $ref: ref, allOf } = schema
    const below = (item: unknown): string => this.#below(item, place)
    if (typeof ref === 'string') {
      return place.refs.includes(ref) ? 'unknown' : this.#below(this.#resolve(ref), { ...place, refs: [...place.refs, ref] })
    }
    if ('const' in schema) return literal(schema.const)
    if (Array.isArray(schema.enum)) return union(schema.enum.map(literal))
    for (const key of ['oneOf', 'anyOf'] as const) {
      const { [key]: members } = schema
      if (Array.isArray(members)) return union(members.map(below))
    }
    if (Array.isArray(allOf)) return intersection([...allOf.map(below), ...('properties' in schema ? [this.#object(schema, place)] : [])])
    const types: unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type ?? guessed(schema)]
    return union([...types, ...(schema.nullable === true ? ['null'] : [])].map((type) => this.#named(type, schema, place)))
  }

  #below (schema: unknown, place: Place): string { return this.write(schema, { ...place, depth: place.depth + 1 }) }

  #named (type: unknown, schema: Schema, place: Place): string {
    switch (type) {
      case 'string':
      case 'boolean':
      case 'null': return type
      case 'number':
      case 'integer': return 'number'
      case 'array': {
        const tuple = schema.prefixItems ?? schema.items
        if (Array.isArray(tuple)) return `[${tuple.map((item) => this.#below(item, place)).join(', ')}]`
        const item = this.#below(schema.items, place)
        return /[|&]/.test(item) && !/^[{[]/.test(item) ? `(${item})[]` : `${item}[]`
      }
      case 'object': return this.#object(schema, place)
      default: return 'unknown'
    }
  }

  #object (schema: Schema, place: Place): string {
    const { properties, additionalProperties: rest } = schema
    const required: unknown[] = Array.isArray(schema.required) ? schema.required : []
    const inner = `${place.indent}  `
    const write = (item: unknown): string => this.#below(item, { ...place, indent: inner })
    const lines = Object.entries(isObject(properties) ? properties : {}).map(([name, member]) => {
      const key = IDENTIFIER.test(name) ? name : JSON.stringify(name)
      const note = isObject(member) && typeof member.description === 'string' ? comment(member.description, inner) : ''
      return `${note}${inner}${key}${required.includes(name) ? '' : '?'}: ${write(member)}`
    })
    if (isObject(rest) || (rest === true && lines.length > 0)) lines.push(`${inner}[name: string]: ${write(rest)}`)
    if (lines.length === 0) return rest === false ? '{}' : 'Record<string, unknown>'
    return `{\n${lines.join('\n')}\n${place.indent}}`
  }

  /** What a pointer within the schema names; anything else is unknown. */
  #resolve (ref: string): unknown {
    if (!ref.startsWith('#')) return undefined
    let at: unknown = this.#root
    for (const token of ref.slice(1).split('/').slice(1)) {
      const key = token.replaceAll('~1', '/').replaceAll('~0', '~')
      if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
      at = (at as Record<string, unknown>)[key]
    }
    return at
  }
}

const guessed = (schema: Record<string, unknown>): string | undefined =>
  'properties' in schema || 'additionalProperties' in schema ? 'object' : 'items' in schema ? 'array' : undefined

const literal = (value: unknown): string => typeof value === 'object' && value !== null ? 'unknown' : JSON.stringify(value)
const union = (types: readonly string[]): string =>
  types.includes('unknown') || types.length === 0 ? 'unknown' : [...new Set(types)].join(' | ')

function intersection (types: readonly string[]): string {
  const known = [...new Set(types)].filter((type) => type !== 'unknown')
  const grouped = known.map((type) => type.includes(' | ') && !type.startsWith('{') ? `(${type})` : type)
  return grouped.length === 0 ? 'unknown' : grouped.join(' & ')
}

/** A description as a comment that it cannot end. */
function comment (description: string, indent: string): string {
  const cut = description.length > MAX_COMMENT ? `${description.slice(0, MAX_COMMENT)}…`.toWellFormed() : description
  const lines = cut.replaceAll('*/', '*\\/').trim().split(/\r\n|[\n\r\u2028\u2029]/).map((line) => line.trimEnd())
  if (lines.length === 1) return lines[0] === '' ? '' : `${indent}/** ${lines[0]} */\n`
  return `${indent}/**\n${lines.map((line) => `${indent} *${line === '' ? '' : ` ${line}`}\n`).join('')}${indent} */\n`
}
