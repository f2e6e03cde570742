import { isObject, plainJsonFault, type Json } from '../core/json.ts'
import { createStrictParser } from '../core/strict-json.ts'

/** How deep in an event the input stands at most: in `run/settled`, as the structured value of the result. */
const NESTED = 3

const parse = createStrictParser()

/**
 * The input of a call from the text that the model wrote; a `fault` names what is wrong with it. Nothing is changed on the way:
 * a number that JavaScript cannot hold, or a key that comes twice, is the model's to mend.
 */
export function parseArguments (written: string): { input: Json } | { fault: string } {
  if (written.trim() === '') return { input: {} }
  const { value, faults: [fault] } = parse(written)
  if (fault) return { fault: fault.pointer === '' ? `not valid JSON (${fault.detail})` : `${fault.pointer}: ${fault.detail}` }
  if (!isObject(value)) return { fault: 'must be a JSON object' }
  const unkept = plainJsonFault(value, NESTED)
  return unkept ? { fault: `${unkept.pointer}: ${unkept.reason}` } : { input: value as Json }
}
