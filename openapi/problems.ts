import { Type } from './type.ts'
import type { RefusalCode } from '../src/core/errors.ts'
import { REFUSAL_CODES } from '../src/core/errors.ts'
import { Relay, ToolResult, closed, oneOf, ref } from './parts.ts'

/** Status and title of each code (http-api.md 5.5); never renamed, never reused. */
export const PROBLEMS: Readonly<Record<RefusalCode, readonly [status: number, title: string]>> = {
  INVALID_REQUEST: [400, 'Invalid request'],
  UNAUTHENTICATED: [401, 'Not authenticated'],
  FORBIDDEN: [403, 'Forbidden'],
  MODEL_FORBIDDEN: [403, 'Model not allowed'],
  RUN_NOT_FOUND: [404, 'Run not found'],
  SESSION_NOT_FOUND: [404, 'Session not found'],
  NOT_FOUND: [404, 'Not found'],
  METHOD_NOT_ALLOWED: [405, 'Method not allowed'],
  NOT_ACCEPTABLE: [406, 'Not acceptable'],
  START_ABORTED: [409, 'Start aborted'],
  RUN_EXISTS: [409, 'Run exists'],
  RUN_SETTLED: [409, 'Run settled'],
  PARENT_ABORTED: [409, 'Parent run cancelled'],
  TOOL_CALL_NOT_PENDING: [409, 'Tool call not pending'],
  SESSION_CONFLICT: [409, 'Session conflict'],
  FRAME_GAP: [409, 'Frames missing'],
  CURSOR_EXPIRED: [410, 'Cursor expired'],
  PAYLOAD_TOO_LARGE: [413, 'Payload too large'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'Unsupported media type'],
  DEPTH_INVALID: [422, 'Delegation depth invalid'],
  DEPTH_RANGE: [422, 'Delegation depth out of range'],
  DEPTH_EXCEEDED: [422, 'Delegation depth exceeded'],
  MAX_DEPTH_INVALID: [422, 'Depth cap invalid'],
  NO_PROVIDER: [422, 'No such provider'],
  PROVIDER_UNAVAILABLE: [422, 'Provider not available'],
  UNSUPPORTED_CAPABILITY: [422, 'Capability not supported'],
  UNSUPPORTED_SCHEMA: [422, 'Output schema not supported'],
  TOOL_FILTER_INVALID: [422, 'Tool filter invalid'],
  TOOL_NAME_TAKEN: [422, 'Tool name taken'],
  MODEL_UNKNOWN: [422, 'Model unknown'],
  TRANSCRIPT_INVALID: [422, 'Transcript invalid'],
  TREE_LIMIT: [422, 'Tree limit reached'],
  IDEMPOTENCY_MISMATCH: [422, 'Idempotency key used for another body'],
  RATE_LIMITED: [429, 'Too many requests'],
  QUOTA_EXCEEDED: [429, 'Quota exceeded'],
  OVERLOADED: [503, 'Overloaded'],
  SHUTTING_DOWN: [503, 'Shutting down'],
  STORE_UNAVAILABLE: [503, 'Store unavailable'],
  AUTH_UNAVAILABLE: [503, 'Authentication unavailable'],
  INTERNAL: [500, 'Internal error']
}

/** The problem type's relative URI. */
export const problemType = (code: RefusalCode): string => `/problems/${code.toLowerCase().replaceAll('_', '-')}`

export const Problem = Type.Object({
  type: Type.String({ format: 'uri-reference', examples: ['/problems/depth-exceeded'] }),
  title: Type.String({ examples: ['Delegation depth exceeded'] }),
  status: Type.Integer({ minimum: 400, maximum: 599, examples: [422] }),
  detail: Type.String({ examples: ['subagent depth 4 exceeds maxDepth 3'] }),
  code: oneOf(
    REFUSAL_CODES, { description: 'Stable; new ones may come: read unknown ones by `status`.', examples: ['DEPTH_EXCEEDED'] }
  ),
  requestId: Type.String({ description: 'Also in `X-Request-Id`; the service\'s log has the cause under it.' }),
  retryable: Type.Boolean({ description: 'The same request may succeed later; retry with the same `Idempotency-Key`.' }),
  errors: Type.Optional(Type.Array(closed({
    pointer: Type.String(
      { description: 'Where, as an RFC 6901 pointer into the body, or `/<name>` of a query parameter.', examples: ['/task'] }
    ),
    detail: Type.String({ examples: ['is required'] })
  }))),
  toolResult: ref(ToolResult),
  ...Relay
}, {
  $id: 'Problem',
  description: 'RFC 9457, with the text that a host relays to its model unchanged. Facts of the case may stand beside these ' +
    'members.'
})

const ALWAYS: readonly RefusalCode[] = ['INVALID_REQUEST', 'UNAUTHENTICATED', 'FORBIDDEN', 'INTERNAL', 'STORE_UNAVAILABLE', 'AUTH_UNAVAILABLE']
const WITH_BODY: readonly RefusalCode[] = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE']

/** The problem answers of a route, by status, for its schema. */
export function problems (codes: readonly RefusalCode[], options: {
  body?: boolean, open?: boolean
} = {}): Record<string, object> {
  const all = options.open ? [...codes] : [...ALWAYS, ...codes, ...options.body ? WITH_BODY : []]
  const byStatus: Record<string, RefusalCode[]> = {}
  for (const code of all) {
    const list = byStatus[PROBLEMS[code][0]] ??= []
    if (!list.includes(code)) list.push(code)
  }
  return Object.fromEntries(Object.entries(byStatus).map(([status, list]) => [status, {
    description: list.map((code) => `\`${code}\``).join(', '),
    content: { 'application/problem+json': { schema: ref(Problem) } }
  }]))
}

/** An answer without a body. */
export const noContent = (description: string): object => ({ type: 'null', description })
