import { hash } from 'node:crypto'
import type { TraceHeaders } from '../core/run.ts'

/** W3C Trace Context, as a header says it and as spans refer to it. Pure. */

export interface SpanPlace {
  traceId: string
  spanId: string
  sampled: boolean
  /** The vendors' part of the trace, verbatim. */
  state?: string
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const MAX_STATE = 512

/** Where the headers point to; `undefined` for none, or for what the specification says to ignore. */
export function parseTrace ({ traceparent, tracestate }: Partial<TraceHeaders>): SpanPlace | undefined {
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(traceparent?.trim() ?? '') ?? []
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (version === 'ff' || (version === '00' && more !== undefined) || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  const state = tracestate?.trim()
  return {
    traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1,
    ...state && state.length <= MAX_STATE ? { state } : {}
  }
}

export const headersOf = ({ traceId, spanId, sampled, state }: SpanPlace): TraceHeaders => ({
  traceparent: `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`,
  ...state === undefined ? {} : { tracestate: state }
})

/**
 * Ids follow from what they name, so that any process, before or after a restart, knows the span of a run or a call without
 * having seen it, and none is told twice.
 */
export const spanIdOf = (...names: (string | number)[]): string => digest(names).slice(0, 16)
export const traceIdOf = (tenant: string, rootId: string): string => digest(['trace', tenant, rootId]).slice(0, 32)

const digest = (names: readonly (string | number)[]): string => hash('sha256', JSON.stringify(names), 'hex')
