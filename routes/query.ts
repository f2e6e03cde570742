import { invalid } from './invalid.ts'

interface QuerySchema {
  properties?: Record<string, { type?: string }>
  patternProperties?: Record<string, unknown>
}

/**
 * Query parameters from text to what their schema declares: integers, booleans, lists. Nothing is coerced. Throws
 * `INVALID_REQUEST` naming a parameter that is unknown, repeated though it may not, or no integer or boolean.
 */
export function decodeQuery (query: Record<string, unknown>, schema: QuerySchema | undefined): Record<string, unknown> {
  const decoded: Record<string, unknown> = {}
  const patterns = Object.keys(schema?.patternProperties ?? {}).map((source) => new RegExp(source))
  for (const [name, given] of Object.entries(query)) {
    const known = schema?.properties !== undefined && Object.hasOwn(schema.properties, name)
    if (!known && !patterns.some((pattern) => pattern.test(name))) throw invalidQuery(name, 'is not known here')
    const type = known ? schema?.properties?.[name]?.type : 'string'
    if (type === 'array') decoded[name] = Array.isArray(given) ? given : [given]
    else if (Array.isArray(given)) throw invalidQuery(name, 'is given more than once')
    else decoded[name] = decodeOne(name, String(given), type)
  }
  return decoded
}

function decodeOne (name: string, text: string, type: string | undefined): unknown {
  switch (type) {
    case 'integer': {
      const number = /^(0|-?[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN
      if (!Number.isSafeInteger(number)) throw invalidQuery(name, 'must be an integer')
      return number
    }
    case 'boolean':
      if (text !== 'true' && text !== 'false') throw invalidQuery(name, 'must be true or false')
      return text === 'true'
    default: return text
  }
}

export const invalidQuery = (name: string, detail: string) =>
  invalid([{ pointer: `/${name}`, detail: `query parameter "${name}" ${detail}` }])

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/
/** Epoch ms of an ISO 8601 instant with a zone. Throws `INVALID_REQUEST`. */
export function instant (name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const time = INSTANT.test(value) ? Date.parse(value) : Number.NaN
  if (Number.isNaN(time) || !isDay(value)) throw invalidQuery(name, 'must be a time as in 2026-01-31T12:00:00Z')
  return time
}

/** JavaScript reads the 30th of February as a day in March. */
function isDay (value: string): boolean {
  const [year = 0, month = 0, day = 0] = value.slice(0, 10).split('-').map(Number)
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate()
}
