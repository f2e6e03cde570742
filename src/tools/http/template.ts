import { isObject, type Json, type JsonObject } from '../../core/json.ts'

/** `{name}`: the place of an input property. Other braces stand for themselves. */
const PLACE = /\{([A-Za-z_][\w-]*)\}/g
const WHOLE = /^\{([A-Za-z_][\w-]*)\}$/

export interface UrlTemplate {
  /** The origin, which no input changes. */
  readonly base: URL
  /** Properties without which there is no URL. */
  readonly path: readonly string[]
  readonly query: readonly string[]
  /** The URL for an input. Throws an `Error` that says which value cannot stand there. */
  fill (input: JsonObject): URL
}

/**
 * Reads a URL with `{name}` in its path and in the values of its query. Values are encoded, so that none leaves its place: it adds
 * no segment, no parameter and no `..`. A query parameter whose properties are all absent or null is left out; a list repeats it.
 * Throws an `Error` for a template that is no such URL.
 */
export function parseUrlTemplate (template: string): UrlTemplate {
  const [, origin = '', path = '', query] = /^(https?:\/\/[^/?#\\]+)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(template) ?? []
  if (origin === '' || !URL.canParse(origin)) throw new Error('must be an absolute http or https URL without a fragment')
  if (/[{}]/.test(origin)) throw new Error('must have its placeholders in the path or the query')
  const base = new URL(origin)
  const { username, password } = base
  if (username !== '' || password !== '') throw new Error('must not hold a user name or a password')
  const rest = `${path}?${query ?? ''}`.replaceAll(PLACE, '')
  if (/[{}]/.test(rest)) throw new Error('has a brace that belongs to no {name}')
  const pairs = query === undefined || query === '' ? [] : query.split('&').map(parsePair)
  return {
    base,
    path: placesIn(path),
    query: pairs.flatMap(({ value }) => placesIn(value)),
    fill (input) {
      const filled = path.split('/').map((segment) => fillSegment(segment, input)).join('/')
      const parameters = pairs.flatMap((pair) => fillPair(pair, input))
      return new URL(`${origin}${filled}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`)
    }
  }
}

interface Pair { name: string, value: string }

function parsePair (pair: string): Pair {
  const at = pair.indexOf('=')
  const name = at === -1 ? pair : pair.slice(0, at)
  if (/[{}]/.test(name)) throw new Error('must not have a placeholder in the name of a query parameter')
  return { name, value: at === -1 ? '' : pair.slice(at) }
}

const placesIn = (text: string): string[] => [...text.matchAll(PLACE)].map((match) => match[1] as string)

function fillSegment (segment: string, input: JsonObject): string {
  const names = placesIn(segment)
  if (names.length === 0) return segment
  const filled = segment.replaceAll(PLACE, (_, name: string) => {
    const value = given(input, name)
    if (typeof value === 'object' || value === undefined) throw new Error(`"${name}" must be a text, a number or a boolean`)
    return encode(String(value))
  })
  if (filled === '' || /^(\.|%2e){1,2}$/i.test(filled)) throw new Error(`"${names.join('", "')}" must not be empty, "." or ".."`)
  return filled
}

function fillPair ({ name, value }: Pair, input: JsonObject): string[] {
  const names = placesIn(value)
  if (names.length === 0) return [`${name}${value}`]
  if (names.every((one) => isAbsent(given(input, one)))) return []
  const [, only] = WHOLE.exec(value.slice(1)) ?? []
  const list = only === undefined ? undefined : given(input, only)
  if (Array.isArray(list)) return list.map((item) => `${name}=${encode(asText(item))}`)
  return [`${name}${value.replaceAll(PLACE, (_, one: string) => encode(asText(given(input, one))))}`]
}

const encode = (value: string): string => encodeURIComponent(value.toWellFormed())
const isAbsent = (value: Json | undefined): boolean => value === undefined || value === null
const given = (input: JsonObject, name: string): Json | undefined => Object.hasOwn(input, name) ? input[name] : undefined

function asText (value: Json | undefined): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

export interface BodyTemplate {
  readonly names: readonly string[]
  fill (input: JsonObject): Json | undefined
}

/**
 * A JSON value in which a text that is just `{name}` stands for that property, whatever it is, and `{name}` within a text for its
 * text. What stands for an absent property is left out.
 */
export function parseBodyTemplate (template: Json): BodyTemplate {
  return { names: namesIn(template), fill: (input) => fillBody(template, input) }
}

function namesIn (template: Json): string[] {
  if (typeof template === 'string') return placesIn(template)
  if (Array.isArray(template)) return template.flatMap(namesIn)
  return isObject(template) ? Object.values(template).flatMap((value) => namesIn(value as Json)) : []
}

function fillBody (template: Json, input: JsonObject): Json | undefined {
  if (typeof template === 'string') {
    const [, only] = WHOLE.exec(template) ?? []
    return only === undefined ? template.replaceAll(PLACE, (_, name: string) => asText(given(input, name))) : given(input, only)
  }
  if (Array.isArray(template)) return template.map((item) => fillBody(item, input)).filter((item) => item !== undefined)
  if (typeof template !== 'object' || template === null) return template
  const members = Object.entries(template).map(([key, value]) => [key, fillBody(value, input)] as const)
  return Object.fromEntries(members.filter((member): member is readonly [string, Json] => member[1] !== undefined))
}
