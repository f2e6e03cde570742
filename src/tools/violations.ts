import type { ErrorObject } from 'ajv'

const MAX_VIOLATIONS = 20
const MAX_PLACE = 200
const MAX_SHOWN = 200

/**
 * What is wrong with a value, for a model or a person to mend: `<pointer>: must …`, for the whole value without a pointer.
 * At most 20, each once.
 */
export function violations (errors: readonly ErrorObject[]): string[] {
  const texts = new Set<string>()
  for (const error of errors) {
    const place = clip(error.instancePath, MAX_PLACE)
    texts.add(place === '' ? mend(error) : `${place}: ${mend(error)}`)
    if (texts.size === MAX_VIOLATIONS) break
  }
  return [...texts]
}

/** What must be, in words. */
export function mend ({ keyword, params, message }: ErrorObject): string {
  const of = (name: string): string => clip(shown((params as Record<string, unknown>)[name]), MAX_SHOWN)
  switch (keyword) {
    case 'required': return `must have the property ${of('missingProperty')}`
    case 'additionalProperties': return `must not have the property ${of('additionalProperty')}`
    case 'unevaluatedProperties': return `must not have the property ${of('unevaluatedProperty')}`
    case 'enum': return `must be one of ${of('allowedValues').replace(/^\[|\]$/g, '')}`
    case 'const': return `must be ${of('allowedValue')}`
    case 'pattern': return `must match the pattern ${of('pattern')}`
    case 'format': return `must be in the format ${of('format')}`
    case 'uniqueItems': return 'must not hold the same item twice'
    case 'oneOf':
      if ((params as { passingSchemas?: unknown }).passingSchemas) return 'must match one alternative only'
      return 'must match one of the alternatives'
    case 'anyOf': return 'must match one of the alternatives'
    case 'false schema': return 'must not be there'
    default: return clip((message ?? `must satisfy ${keyword}`).replace('must NOT', 'must not'), MAX_SHOWN)
  }
}

const shown = (value: unknown): string => JSON.stringify(value) ?? 'undefined'
const clip = (text: string, length: number): string => text.length > length ? `${text.slice(0, length)}…`.toWellFormed() : text
