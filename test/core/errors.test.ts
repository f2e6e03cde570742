import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DepthRangeError, isRefusal, messageOf, outcome, refuse, Refusal, REFUSAL_CODES } from '../../src/core/errors.ts'

/** driver.md §12: the texts that hosts relay and models read, byte for byte. */
const exact: [() => Error, string, string][] = [
  [() => refuse('DEPTH_INVALID'), 'DEPTH_INVALID', 'agent subagentDepth must be a non-negative safe integer'],
  [() => refuse('DEPTH_RANGE'), 'DEPTH_RANGE', 'subagent child depth exceeds the safe-integer range'],
  [() => refuse('DEPTH_EXCEEDED', { depth: 4, maxDepth: 3 }), 'DEPTH_EXCEEDED', 'subagent depth 4 exceeds maxDepth 3'],
  [() => refuse('MAX_DEPTH_INVALID'), 'MAX_DEPTH_INVALID', 'subagent maxDepth must be a non-negative safe integer'],
  [() => refuse('TREE_LIMIT', { limit: 200 }), 'TREE_LIMIT', 'subagent tree exceeds 200 runs'],
  [() => refuse('NO_PROVIDER', { name: 'codex' }), 'NO_PROVIDER', 'no subagent provider registered for "codex"'],
  [() => refuse('UNSUPPORTED_CAPABILITY', { name: 'codex', capability: 'depthLimit' }), 'UNSUPPORTED_CAPABILITY',
    'subagent provider "codex" does not support the "depthLimit" capability'],
  [() => refuse('UNSUPPORTED_SCHEMA', { violations: ['a: b', 'c: d'] }), 'UNSUPPORTED_SCHEMA', 'unsupported JSON schema: a: b; c: d'],
  [() => refuse('TOOL_FILTER_INVALID', { detail: 'toolFilter names neither allow nor deny' }), 'TOOL_FILTER_INVALID',
    'toolFilter names neither allow nor deny'],
  [() => refuse('START_ABORTED', { detail: 'subagent request was aborted before child publication' }), 'START_ABORTED',
    'subagent request was aborted before child publication']
]

test.for(exact)('12 %#: the text of the refusal is exact', ([make, code, message]) => {
  const refusal = make()
  expect(refusal).toMatchObject({ code, message })
  expect(isRefusal(refusal)).toBe(true)
  expect(refusal).toBeInstanceOf(Error)
})

test('12 a depth past the safe integers is a RangeError; every other refusal is a Refusal', () => {
  expect(refuse('DEPTH_RANGE')).toBeInstanceOf(RangeError)
  expect(refuse('DEPTH_RANGE')).toBeInstanceOf(DepthRangeError)
  expect(refuse('DEPTH_INVALID')).toBeInstanceOf(Refusal)
  expect(refuse('DEPTH_INVALID')).not.toBeInstanceOf(RangeError)
})

test('http-api.md 5.5 the codes are those of the contract, none missing and none renamed', () => {
  expect(REFUSAL_CODES.toSorted()).toEqual([
    'AUTH_UNAVAILABLE', 'CURSOR_EXPIRED', 'DEPTH_EXCEEDED', 'DEPTH_INVALID', 'DEPTH_RANGE', 'FORBIDDEN', 'FRAME_GAP', 'IDEMPOTENCY_MISMATCH', 'INTERNAL',
    'INVALID_REQUEST', 'MAX_DEPTH_INVALID', 'METHOD_NOT_ALLOWED', 'MODEL_FORBIDDEN', 'MODEL_UNKNOWN', 'NOT_ACCEPTABLE', 'NOT_FOUND',
    'NO_PROVIDER', 'OVERLOADED', 'PARENT_ABORTED', 'PAYLOAD_TOO_LARGE', 'PROVIDER_UNAVAILABLE', 'QUOTA_EXCEEDED', 'RATE_LIMITED',
    'RUN_EXISTS', 'RUN_NOT_FOUND', 'RUN_SETTLED', 'SESSION_CONFLICT', 'SESSION_NOT_FOUND', 'SHUTTING_DOWN', 'START_ABORTED',
    'STORE_UNAVAILABLE', 'TOOL_CALL_NOT_PENDING', 'TOOL_FILTER_INVALID', 'TOOL_NAME_TAKEN', 'TRANSCRIPT_INVALID', 'TREE_LIMIT',
    'UNAUTHENTICATED', 'UNSUPPORTED_CAPABILITY', 'UNSUPPORTED_MEDIA_TYPE', 'UNSUPPORTED_SCHEMA'
  ])
})

test('a refusal keeps its facts and its cause, and shares no object with the caller', () => {
  const facts = { model: 'x/y', known: ['a/b'] }
  const cause = new Error('upstream')
  const refusal = refuse('MODEL_UNKNOWN', facts, cause)
  facts.model = 'changed'
  expect(refusal).toMatchObject({ message: 'unknown model "x/y"; known: a/b', context: { model: 'x/y' }, cause })
  expect(refuse('MODEL_UNKNOWN', { model: 'x', known: [] }).message).toBe('unknown model "x"; known: (none)')
})

test('an outcome says whether a new start may succeed, by its code unless told otherwise', () => {
  expect(outcome('MODEL_RATE_LIMITED', 'slow down')).toEqual({ code: 'MODEL_RATE_LIMITED', message: 'slow down', retryable: true })
  expect(outcome('MODEL_AUTH', 'bad key')).toEqual({ code: 'MODEL_AUTH', message: 'bad key', retryable: false })
  expect(outcome('MODEL_ERROR', 'bad request', false).retryable).toBe(false)
})

test('any thrown value has a text', () => {
  fc.assert(fc.property(fc.anything({ withNullPrototype: true, withObjectString: true }), (thrown) => {
    expect(typeof messageOf(thrown)).toBe('string')
  }))
  expect(messageOf(new Error('why'))).toBe('why')
  expect(messageOf('why')).toBe('why')
  expect(messageOf(Symbol('why'))).toBe('Symbol(why)')
  expect(messageOf(Object.create(null))).toBe('a thrown value without a text')
})
