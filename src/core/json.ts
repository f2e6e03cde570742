/** Plain JSON: what survives `JSON.parse(JSON.stringify(value))` unchanged (driver.md 2.1). */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject { [key: string]: Json }

/** Depth past which a value is refused; a stack must never be the limit. */
export const MAX_NESTING = 128

interface JsonFault { pointer: string, reason: string }

/** Where `value` stops being plain JSON, as an RFC 6901 pointer and a reason; `undefined` when it is plain. */
export function plainJsonFault (value: unknown, nesting = 0): JsonFault | undefined {
  if (nesting > MAX_NESTING) return here(`nests deeper than ${MAX_NESTING} levels, or holds itself`)
  switch (typeof value) {
    case 'string':
    case 'boolean': return undefined
    case 'number':
      if (!Number.isFinite(value)) return here(`${value} is not a JSON number`)
      return Object.is(value, -0) ? here('-0 does not survive a JSON round trip') : undefined
    case 'object': return value === null ? undefined : Array.isArray(value) ? arrayFault(value, nesting) : objectFault(value, nesting)
    default: return here(`${typeof value} is not JSON`)
  }
}

const here = (reason: string): JsonFault => ({ pointer: '', reason })
/** Pointers are made on the way out of a fault alone: what is plain costs none. */
const below = (token: string | number, { pointer, reason }: JsonFault): JsonFault =>
  ({ pointer: `/${pointerToken(String(token))}${pointer}`, reason })

function arrayFault (value: unknown[], nesting: number): JsonFault | undefined {
  for (let i = 0; i < value.length; i++) {
    const fault = plainJsonFault(value[i], nesting + 1)
    if (fault) return below(i, fault)
  }
  const plain = Object.getPrototypeOf(value) === Array.prototype && Object.keys(value).length === value.length
  return plain ? undefined : here('an array with properties of its own is not plain JSON')
}

function objectFault (value: object, nesting: number): JsonFault | undefined {
  const proto: unknown = Object.getPrototypeOf(value)
  if (proto !== Object.prototype && proto !== null) return here('a class instance is not plain JSON')
  if (Object.getOwnPropertySymbols(value).length > 0) return here('a symbol key is not plain JSON')
  for (const [key, item] of Object.entries(value)) {
    const fault = plainJsonFault(item, nesting + 1)
    if (fault) return below(key, fault)
  }
  return undefined
}

/** One reference token of an RFC 6901 pointer. */
export const pointerToken = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** Equal as JSON values have equal canonical texts: object keys sorted, no white space. */
export function canonicalJson (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const members = Object.entries(value).filter(([, item]) => item !== undefined).sort(([a], [b]) => a < b ? -1 : 1)
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(',')}}`
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
