import { outcome } from '../core/errors.ts'
import type { NewEvent, Outcome, SessionEvent } from '../core/events.ts'
import { CancelReason } from '../core/live.ts'
import { repair } from '../core/repair.ts'
import { openTurn } from '../core/turn.ts'
import { DELEGATION_TOOLS } from '../core/tool.ts'

/** Restarts without progress after which a run is given up (driver.md 2.8). */
const FRUITLESS = 3

export interface Resumption {
  /** What to log before the run goes on. */
  events: NewEvent[]
  /** A cancellation that the stopped process had taken but not finished. */
  cancelled?: CancelReason
  /** The run is given up. */
  settle?: Outcome
}

/** How a run that a stopped process left open goes on, from its own events. Pure. */
export function resumeEvents (own: readonly SessionEvent[]): Resumption {
  const resumed = own.filter((event) => event.type === 'run/resumed').length
  const events: NewEvent[] = [{ type: 'run/resumed', data: { attempt: resumed + 1 } }]
  const cancel = own.findLast((event) => event.type === 'run/cancel')
  if (cancel?.type === 'run/cancel') return { events, cancelled: new CancelReason(cancel.data.by, cancel.data.reason) }
  if (fruitless(own) >= FRUITLESS - 1) {
    return { events, settle: outcome('INTERRUPTED', `the service stopped ${FRUITLESS} times before the run made progress`) }
  }
  return { events }
}

/**
 * What closes the turn that a failure outside the loop left open, or without one a cancellation: balanced as a repair would (2.7).
 * Pure; `[]` for a balanced log.
 */
export const closeFailedTurn = (events: readonly SessionEvent[], failure: Outcome | undefined): NewEvent[] =>
  repair(events).map((event) => event.type === 'turn/end'
    ? { type: 'turn/end', data: { turn: event.data.turn, ...failure ? { reason: 'error', error: failure } : { reason: 'aborted' } } }
    : event)

/**
 * Resumptions since the last event that got the run further. A life in which the run could only wait, for a slot, its host or a child,
 * says nothing of it: such ones do not count.
 */
function fruitless (own: readonly SessionEvent[]): number {
  const started = new Map<string, 'service' | 'host'>()
  let began = false
  let count = 0
  for (const event of own) {
    if (event.type === 'turn/start') began = true
    if (event.type === 'tool/call') started.set(event.data.toolCallId, DELEGATION_TOOLS.has(event.data.name) ? 'host' : event.data.executor)
    if (event.type === 'tool/result') started.delete(event.data.toolCallId)
    if (event.type === 'assistant/message' || event.type === 'tool/result') count = 0
    const waited = started.size > 0 && [...started.values()].every((executor) => executor === 'host')
    if (event.type === 'run/resumed' && began && !waited) count++
  }
  return count
}

/** Whether the open step's only way on is its host's answer: such a run needs no slot to wait again. */
export const waitsForHost = (own: readonly SessionEvent[]): boolean =>
  openTurn(own)?.calls.some(({ started, result }) => started?.data.executor === 'host' && !result) ?? false
