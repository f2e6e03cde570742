import { text, type NewEvent, type SessionEvent } from './events.ts'
import { openTurn, type OpenCall } from './turn.ts'

export const OUTCOME_UNKNOWN = 'Error: the tool call was interrupted: outcome unknown: check before retrying'
export const NEVER_STARTED = 'Error: the tool call never started: the run was interrupted before dispatch'

/**
 * The events that balance a log whose tail turn is open (driver.md 2.7): an error result for each unanswered call of the
 * open step in order, `step/end`, `turn/end interrupted`. Pure and deterministic; `[]` for a balanced log.
 */
export function repair (events: readonly SessionEvent[]): NewEvent[] {
  const open = openTurn(events)
  if (!open) return []
  const repairs: NewEvent[] = open.calls.filter((call) => !call.result).map(interrupted)
  if (open.step) repairs.push({ type: 'step/end', data: { turn: open.turn, step: open.step.step } })
  repairs.push({ type: 'turn/end', data: { turn: open.turn, reason: 'interrupted' } })
  return repairs
}

/** The result of a call that a crash cut off. Only one that started may have had an effect. */
export const interrupted = ({ part, started }: OpenCall): NewEvent => ({
  type: 'tool/result',
  data: { toolCallId: part.toolCallId, name: part.name, content: [text(started ? OUTCOME_UNKNOWN : NEVER_STARTED)], isError: true }
})
