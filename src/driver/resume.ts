import { outcome } from '../core/errors.ts'
import type { NewEvent, Outcome, SessionEvent } from '../core/events.ts'
import { CancelReason } from '../core/live.ts'

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

/** Resumptions since the last event that got the run further. */
function fruitless (own: readonly SessionEvent[]): number {
  const progress = own.findLastIndex((event) => event.type === 'assistant/message' || event.type === 'tool/result')
  return own.slice(progress + 1).filter((event) => event.type === 'run/resumed').length
}
