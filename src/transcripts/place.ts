import { refuse } from '../core/errors.ts'
import { isObject, type Json } from '../core/json.ts'
import type { ImportOptions } from '../core/transcript.ts'
import { nestingFault, type Fail, type Fields } from './fields.ts'

/** Where a transcript stands in a request: makes the refusals that point at a part of it (http-api.md 4.5). */
export interface Place {
  message: (index: number) => Fail
  tool: (index: number) => Fail
  system: Fail
  /** The refusal of a system prompt that is given twice (4.2). */
  systemTwice: () => Error
}

export function createPlace ({ pointer = '/parent/transcript', known = 0 }: ImportOptions): Place {
  const label = pointer.endsWith('/transcript') ? 'transcript.' : ''
  const failAt = (name: string, path: string): Fail => (reason) =>
    refuse('TRANSCRIPT_INVALID', { detail: `${label}${name}: ${reason}`, pointer: `${pointer}/${path}` })
  const item = (list: string) => (index: number): Fail => failAt(`${list}[${index}]`, `${list}/${index}`)
  return {
    message: (index) => item('messages')(Math.max(0, index - known)),
    tool: item('tools'),
    system: failAt('system', 'system'),
    systemTwice: () => {
      const detail = `${label}system: the messages begin with a system prompt of their own: give one of the two`
      return refuse('INVALID_REQUEST', { detail, errors: [{ pointer: `${pointer}/system`, detail }] })
    }
  }
}

/** Reads a text whose value nothing needs to fear to walk. */
export function parseJson (text: string, fail: Fail): Json {
  const value = valueOf(text, fail)
  const fault = nestingFault(value)
  if (fault !== undefined) throw fail(fault)
  return value
}

export function parseObject (text: string, fail: Fail): Fields {
  const value = parseJson(text, fail)
  if (!isObject(value)) throw fail('must be an object')
  return value
}

function valueOf (text: string, fail: Fail): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    throw fail('is not JSON')
  }
}
