import { messageOf } from '../core/errors.ts'
import { isObject, plainJsonFault, type Json } from '../core/json.ts'

/** How deep in an event the input stands at most: in `run/settled`, as the structured value of the result. */
const NESTED = 3

/** The input of a call from the text that the model wrote; a `fault` names what is wrong with it. */
export function parseArguments (written: string): { input: Json } | { fault: string } {
  if (written.trim() === '') return { input: {} }
  try {
    const input: unknown = JSON.parse(written)
    if (!isObject(input)) return { fault: 'must be a JSON object' }
    const unkept = plainJsonFault(input, NESTED)
    return unkept ? { fault: `${unkept.pointer}: ${unkept.reason}` } : { input: input as Json }
  } catch (error) {
    return { fault: `not valid JSON (${messageOf(error)})` }
  }
}
