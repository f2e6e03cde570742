import type { EventType } from '../core/events.ts'
import { isObject } from '../core/json.ts'

/** Says what is wrong with a value: the way to it and the reason; `undefined` when it is right. */
export type Shape = (value: unknown) => string | undefined

const is = (what: string, test: (value: unknown) => boolean): Shape => (value) => test(value) ? undefined : ` must be ${what}`
const string = is('a string', (value) => typeof value === 'string')
const number = is('a number', (value) => typeof value === 'number')
const boolean = is('a boolean', (value) => typeof value === 'boolean')
export const count = is('a non-negative safe integer', (value) => Number.isSafeInteger(value) && (value as number) >= 0)
const ISO_8601 = /^\d{4}-\d\d-\d\dT/
/** Epoch ms as the log has it, or ISO 8601 as the API gives it. */
export const instant = is('epoch ms or an ISO 8601 time', (value) =>
  count(value) === undefined || (typeof value === 'string' && ISO_8601.test(value) && !Number.isNaN(Date.parse(value))))
const ordinal = is('a positive safe integer', (value) => Number.isSafeInteger(value) && (value as number) > 0)
const json = is('there', (value) => value !== undefined)
export const record = is('an object', isObject)
const oneOf = (...values: string[]): Shape => is(`one of ${values.join(', ')}`, (value) => values.includes(value as string))
const nullable = (shape: Shape): Shape => (value) => value === null ? undefined : shape(value)
const optional = (shape: Shape): Shape => (value) => value === undefined ? undefined : shape(value)

const list = (shape: Shape): Shape => (value) => {
  if (!Array.isArray(value)) return ' must be an array'
  for (const [index, item] of value.entries()) {
    const fault = shape(item)
    if (fault !== undefined) return `[${index}]${fault}`
  }
  return undefined
}

/** Fields beside the named ones are allowed: a later version of this service may write them. */
const object = (fields: Record<string, Shape>): Shape => (value) => {
  if (!isObject(value)) return ' must be an object'
  for (const [name, shape] of Object.entries(fields)) {
    const fault = shape(value[name])
    if (fault !== undefined) return `.${name}${fault}`
  }
  return undefined
}

const variant = (shapes: Record<string, Shape>): Shape => {
  const type = oneOf(...Object.keys(shapes))
  return (value) => {
    if (!isObject(value)) return ' must be an object'
    const fault = type(value.type)
    return fault === undefined ? shapes[value.type as string]?.(value) : `.type${fault}`
  }
}

const blocks = list(variant({ text: object({ text: string }), image: object({ data: string, mimeType: string }) }))
const parts = list(variant({
  text: object({ text: string }),
  reasoning: object({ text: string, signature: optional(string), redacted: optional(string) }),
  'tool-call': object({ toolCallId: string, name: string, arguments: string })
}))
const usage = object({
  inputTokens: count, cachedInputTokens: count, cacheWriteTokens: count, outputTokens: count, reasoningTokens: count, steps: count
})
const outcome = object({ code: string, message: string, retryable: boolean })

/** The data of each type of event; what the service itself decided (`run/…`) is not conversation and not looked into. */
export const DATA_SHAPES: Record<EventType, Shape> = {
  'turn/start': object({ turn: ordinal, origin: oneOf('task', 'message', 'transcript', 'service') }),
  'turn/end': object({
    turn: ordinal, error: optional(outcome),
    reason: oneOf('completed', 'max-tokens', 'aborted', 'refusal', 'error', 'interrupted')
  }),
  'step/start': object({ turn: ordinal, step: ordinal, attempt: ordinal }),
  'step/end': object({ turn: ordinal, step: ordinal }),
  'user/message': object({ content: blocks, messageId: optional(string) }),
  'assistant/message': object({
    content: parts, usage, model: string, stop: oneOf('end', 'tool-calls', 'max-tokens', 'refusal', 'aborted', 'error')
  }),
  'tool/call': object({
    toolCallId: string, name: string, input: json, executor: oneOf('service', 'host'), idempotent: boolean,
    deadline: optional(instant)
  }),
  'tool/progress': object({ toolCallId: string, progress: number, total: optional(number), message: optional(string) }),
  'tool/result': object({
    toolCallId: string, name: string, content: blocks, isError: boolean, ended: optional(oneOf('expired', 'cancelled'))
  }),
  'request/header': record,
  'subagent/start': object({ runId: string, toolCallId: optional(string), label: nullable(string) }),
  'subagent/end': object({
    runId: string, toolCallId: optional(string), stopReason: oneOf('completed', 'aborted', 'error', 'max-tokens', 'refusal')
  }),
  'run/cancel': record,
  'run/message': record,
  'run/resumed': record,
  'run/retry': record,
  'run/structured': record,
  'run/settled': record
}
