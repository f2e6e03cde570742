import { text, type EventMap, type NewEvent, type SessionEvent } from './events.ts'
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
  const repairs: NewEvent[] = open.calls.filter((call) => !call.result).flatMap(interrupted)
  if (open.step) repairs.push({ type: 'step/end', data: { turn: open.turn, step: open.step.step } })
  repairs.push({ type: 'turn/end', data: { turn: open.turn, reason: 'interrupted' } })
  return repairs
}

/**
 * The result of a call that a crash cut off, after those of what its program was calling. Only one that started may have had an
 * effect; its host is asked no more.
 */
export const interrupted = ({ part: { toolCallId, name }, started, inside = [] }: OpenCall): NewEvent[] => [
  ...inside.map(({ data }) => failed({
    toolCallId: data.toolCallId, name: data.name, parent: toolCallId, ...data.executor === 'host' ? { ended: 'cancelled' as const } : {}
  }, OUTCOME_UNKNOWN)),
  failed({ toolCallId, name }, started ? OUTCOME_UNKNOWN : NEVER_STARTED)
]

type Cut = Omit<EventMap['tool/result'], 'content' | 'isError'>
const failed = (call: Cut, why: string): NewEvent => ({ type: 'tool/result', data: { ...call, content: [text(why)], isError: true } })
