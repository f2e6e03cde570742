import type { OutcomeCode, Usage } from '../core/events.ts'
import { isObject, pointerToken, type Json } from '../core/json.ts'

/** What a host may put into `agentOptions.script`: step N answers model call N of the run, failed calls counted. */

/** `arguments`: the text as the model would write it, broken or not; else the text of `input`, or `{}`. */
export interface ScriptedCall { name: string, input?: Json, arguments?: string, id?: string }
export interface ScriptedFailure {
  status?: number
  code?: FailCode
  message?: string
  retryAfterMs?: number
  retryable?: boolean
}
export interface ScriptStepExtras {
  /** Thought before the answer. */
  reasoning?: string
  /** Waited before the answer begins. */
  delayMs?: number
  usage?: Partial<Omit<Usage, 'steps'>>
}
export type ScriptStep = ScriptStepExtras & (
  | { say: string }
  | { say?: string, call: ScriptedCall }
  | { say?: string, calls: ScriptedCall[] }
  /** Goes no further until the call is aborted. */
  | { say?: string, hang: true }
  /** Fails before the first delta. */
  | { fail: ScriptedFailure }
  /** Streams `after`, then the connection is lost. */
  | { reset: { after: string } }
  /** Streams `text` in `deltas` pieces (default: its words), each after `delayMs`. */
  | { slow: { text: string, delayMs: number, deltas?: number } }
  /** Declines with this text. */
  | { refuse: string }
  /** Stops at the token cap after this text. */
  | { maxTokens: string })
export type Script = ScriptStep[]

const FAIL_CODES = [
  'MODEL_ERROR', 'MODEL_RATE_LIMITED', 'MODEL_AUTH', 'CONTEXT_TOO_LONG'
] as const satisfies readonly OutcomeCode[]
export type FailCode = (typeof FAIL_CODES)[number]

const MAX_STEPS = 1000
/** Longest wait of one step and most pieces of one text. */
const MAX_DELAY_MS = 3_600_000
const MAX_DELTAS = 100_000

const text = { type: 'string' } as const
const amount = (maximum: number = Number.MAX_SAFE_INTEGER) => ({ type: 'integer', minimum: 0, maximum }) as const
const exactly = <P extends object, R extends keyof P & string>(properties: P, required: readonly R[]) =>
  ({ type: 'object', properties, required, additionalProperties: false }) as const

const CALL = exactly({ name: text, input: {}, arguments: text, id: text }, ['name'])
const STEP = exactly({
  say: text,
  call: CALL,
  calls: { type: 'array', items: CALL, minItems: 1, maxItems: 100 },
  hang: { const: true },
  fail: exactly({
    status: { type: 'integer', minimum: 400, maximum: 599 },
    code: { type: 'string', enum: FAIL_CODES },
    message: text,
    retryAfterMs: amount(),
    retryable: { type: 'boolean' }
  }, []),
  reset: exactly({ after: text }, ['after']),
  slow: exactly({
    text, delayMs: amount(MAX_DELAY_MS), deltas: { type: 'integer', minimum: 1, maximum: MAX_DELTAS }
  }, ['text', 'delayMs']),
  refuse: text,
  maxTokens: text,
  reasoning: text,
  delayMs: amount(MAX_DELAY_MS),
  usage: exactly({
    inputTokens: amount(),
    cachedInputTokens: amount(),
    cacheWriteTokens: amount(),
    outputTokens: amount(),
    reasoningTokens: amount()
  }, [])
}, [])
/** The script as JSON Schema, for documents. That a step does exactly one thing is `validateScript`'s to say. */
export const SCRIPT_SCHEMA = { type: 'array', items: STEP, maxItems: MAX_STEPS } as const

/** What a step does: exactly one of these, except that `say` may go before `call`, `calls` and `hang`. */
const ACTS = ['say', 'call', 'calls', 'hang', 'fail', 'reset', 'slow', 'refuse', 'maxTokens'] as const
const AFTER_SAY: readonly string[] = ['call', 'calls', 'hang']

/** Every violation of a script, each led by its RFC 6901 pointer; empty when it can be played. */
export function validateScript (script: unknown): string[] {
  return [...violations(SCRIPT_SCHEMA, script, ''), ...(Array.isArray(script) ? script.flatMap(actViolations) : [])]
}

function actViolations (step: unknown, index: number): string[] {
  if (!isObject(step)) return []
  const acts = ACTS.filter((act) => Object.hasOwn(step, act))
  const rest = acts.filter((act) => act !== 'say' || !acts.some((other) => AFTER_SAY.includes(other)))
  if (rest.length === 1) return []
  const has = rest.length === 0 ? 'none' : rest.join(', ')
  return [`/${index}: must have exactly one of ${ACTS.join(', ')}; has ${has}`]
}

interface Shape {
  type?: string
  const?: unknown
  enum?: readonly unknown[]
  properties?: Readonly<Record<string, Shape>>
  required?: readonly string[]
  items?: Shape
  minItems?: number
  maxItems?: number
  minimum?: number
  maximum?: number
}

function violations (shape: Shape, value: unknown, pointer: string): string[] {
  const fault = (what: string): string[] => [`${pointer === '' ? '(root)' : pointer}: must be ${what}`]
  if ('const' in shape && value !== shape.const) return fault(JSON.stringify(shape.const))
  if (shape.enum && !shape.enum.includes(value)) return fault(`one of ${shape.enum.join(', ')}`)
  switch (shape.type) {
    case 'string': return typeof value === 'string' ? [] : fault('a string')
    case 'boolean': return typeof value === 'boolean' ? [] : fault('a boolean')
    case 'integer': {
      const { minimum = -Infinity, maximum = Infinity } = shape
      const fits = Number.isSafeInteger(value) && Number(value) >= minimum && Number(value) <= maximum
      return fits ? [] : fault(`an integer from ${minimum} to ${maximum}`)
    }
    case 'array': {
      if (!Array.isArray(value)) return fault('an array')
      const { minItems = 0, maxItems = Infinity, items = {} } = shape
      if (value.length < minItems || value.length > maxItems) return fault(`an array of ${minItems} to ${maxItems} items`)
      return value.flatMap((item, i) => violations(items, item, `${pointer}/${i}`))
    }
    case 'object': return isObject(value) ? objectViolations(shape, value, pointer) : fault('an object')
    default: return []
  }
}

function objectViolations ({ properties = {}, required = [] }: Shape, value: Record<string, unknown>, pointer: string): string[] {
  const missing = required.filter((key) => !Object.hasOwn(value, key)).map((key) => `${pointer}/${key}: is missing`)
  return [...missing, ...Object.entries(value).flatMap(([key, item]) => {
    const at = `${pointer}/${pointerToken(key)}`
    return Object.hasOwn(properties, key) ? violations(properties[key] as Shape, item, at) : [`${at}: is not known`]
  })]
}
