import type { Outcome, OutcomeCode } from './events.ts'

/**
 * A refusal is thrown before a run exists. Each code has one exact text, made from its facts (driver.md §12,
 * http-api.md §5.5); a host relays it verbatim as `Error: <text>`. Codes whose text depends on the case take it as `detail`.
 */
const TEXTS = {
  INVALID_REQUEST: (c: { detail: string, errors?: { pointer: string, detail: string }[], status?: number }) => c.detail,
  UNAUTHENTICATED: (c: { detail: string }) => c.detail,
  FORBIDDEN: (c: { detail: string }) => c.detail,
  MODEL_FORBIDDEN: (c: { model: string }) => `model "${c.model}" is not allowed for this key`,
  RUN_NOT_FOUND: (c: { id: string }) => `no run "${c.id}"`,
  SESSION_NOT_FOUND: (c: { id: string }) => `no session "${c.id}"`,
  NOT_FOUND: (c: { detail: string }) => c.detail,
  METHOD_NOT_ALLOWED: (c: { method: string, allow: string }) => `${c.method} is not allowed here; allowed: ${c.allow}`,
  NOT_ACCEPTABLE: (c: { detail: string }) => c.detail,
  START_ABORTED: (c: { detail: string }) => c.detail,
  RUN_EXISTS: (c: { id: string }) => `a run with the id "${c.id}" exists already`,
  RUN_SETTLED: (c: { id: string }) => `run "${c.id}" is settled`,
  PARENT_ABORTED: (c: { id: string }) => `parent run "${c.id}" was cancelled`,
  TOOL_CALL_NOT_PENDING: (c: { toolCallId: string, reason: 'answered' | 'expired' | 'cancelled' | 'unknown' }) =>
    `tool call "${c.toolCallId}" is not pending: ${c.reason}`,
  SESSION_CONFLICT: (c: { detail: string, length?: number }) => c.detail,
  FRAME_GAP: (c: { expected: number }) => `frames are missing: expected line ${c.expected}`,
  CURSOR_EXPIRED: (_: object) => 'events after this cursor are no longer kept',
  PAYLOAD_TOO_LARGE: (c: { limit: number, line?: number }) =>
    c.line === undefined ? `the request body is larger than ${c.limit} bytes` : `line ${c.line} is longer than ${c.limit} bytes`,
  UNSUPPORTED_MEDIA_TYPE: (c: { detail: string }) => c.detail,
  DEPTH_INVALID: (_: object) => 'agent subagentDepth must be a non-negative safe integer',
  DEPTH_RANGE: (_: object) => 'subagent child depth exceeds the safe-integer range',
  DEPTH_EXCEEDED: (c: { depth: number, maxDepth: number }) => `subagent depth ${c.depth} exceeds maxDepth ${c.maxDepth}`,
  MAX_DEPTH_INVALID: (_: object) => 'subagent maxDepth must be a non-negative safe integer',
  NO_PROVIDER: (c: { name: string }) => `no subagent provider registered for "${c.name}"`,
  PROVIDER_UNAVAILABLE: (c: { name: string, reason: string }) => `subagent provider "${c.name}" is not available: ${c.reason}`,
  UNSUPPORTED_CAPABILITY: (c: { name: string, capability: string }) =>
    `subagent provider "${c.name}" does not support the "${c.capability}" capability`,
  UNSUPPORTED_SCHEMA: (c: { violations: string[] }) => `unsupported JSON schema: ${c.violations.join('; ')}`,
  TOOL_FILTER_INVALID: (c: { detail: string }) => c.detail,
  TOOL_NAME_TAKEN: (c: { name: string }) => `tool name "${c.name}" is taken`,
  MODEL_UNKNOWN: (c: { model: string, known: string[] }) =>
    `unknown model "${c.model}"; known: ${c.known.length === 0 ? '(none)' : c.known.join(', ')}`,
  TRANSCRIPT_INVALID: (c: { detail: string, pointer?: string }) => c.detail,
  TREE_LIMIT: (c: { limit: number }) => `subagent tree exceeds ${c.limit} runs`,
  IDEMPOTENCY_MISMATCH: (_: object) => 'the Idempotency-Key was used before with a different body',
  RATE_LIMITED: (c: { detail: string, retryAfter: number }) => c.detail,
  QUOTA_EXCEEDED: (c: { detail: string, retryAfter: number }) => c.detail,
  OVERLOADED: (c: { retryAfter: number, open?: number }) =>
    c.open === undefined ? 'the queue of runs is full' : `${c.open} runs are open, and no more may be`,
  SHUTTING_DOWN: (_: { retryAfter: number }) => 'the service is shutting down',
  STORE_UNAVAILABLE: (_: { retryAfter: number }) => 'the store is unavailable',
  AUTH_UNAVAILABLE: (_: { retryAfter: number }) => 'the token cannot be checked now: the keys of its issuer cannot be had',
  INTERNAL: (_: object) => 'internal error'
} as const

export type RefusalCode = keyof typeof TEXTS
export type RefusalContext<C extends RefusalCode> = Parameters<(typeof TEXTS)[C]>[0]
export const REFUSAL_CODES = Object.keys(TEXTS) as RefusalCode[]

export class Refusal extends Error {
  override readonly name: string = 'Refusal'
  readonly code: RefusalCode
  readonly context: Record<string, unknown>
  constructor (code: RefusalCode, message: string, context: object, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.context = { ...context }
  }
}

/** Past the safe integers a depth is a `RangeError` (seed 003), with the face of every other refusal. */
export class DepthRangeError extends RangeError {
  readonly code = 'DEPTH_RANGE'
  readonly context: Record<string, unknown> = {}
}

export const refuse = <C extends RefusalCode>(code: C, ...[context, cause]: object extends RefusalContext<C>
  ? [context?: RefusalContext<C>, cause?: unknown]
  : [context: RefusalContext<C>, cause?: unknown]): Refusal | DepthRangeError => {
  const message = (TEXTS[code] as (c: unknown) => string)(context ?? {})
  return code === 'DEPTH_RANGE' ? new DepthRangeError(message) : new Refusal(code, message, context ?? {}, cause)
}

export const isRefusal = (error: unknown): error is Refusal | DepthRangeError =>
  error instanceof Refusal || error instanceof DepthRangeError

const RETRYABLE: ReadonlySet<OutcomeCode> = new Set<OutcomeCode>(['MODEL_ERROR', 'MODEL_RATE_LIMITED', 'INTERRUPTED'])
/** Data in the log of how a run failed. `retryable`: starting it again as it is may succeed. */
export const outcome = (code: OutcomeCode, message: string, retryable = RETRYABLE.has(code)): Outcome =>
  ({ code, message, retryable })

/** The text of any thrown value, whatever it is; throws nothing itself. */
export function messageOf (error: unknown): string {
  try {
    return error instanceof Error ? `${error.message}` : String(error)
  } catch {
    return 'a thrown value without a text'
  }
}
