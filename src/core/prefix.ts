import type { SessionEvent } from './events.ts'

/**
 * The fork seed: everything up to and including the last `turn/end`, `[]` when there is none (driver.md 3.1, seed 000).
 * Pure; the events themselves are shared, not copied.
 */
export const completedTurnPrefix = (events: readonly SessionEvent[]): readonly SessionEvent[] =>
  events.slice(0, completedLength(events))

/** Length of the completed-turn prefix. */
export const completedLength = (events: readonly SessionEvent[]): number =>
  events.findLastIndex((event) => event.type === 'turn/end') + 1

/** How many turns a log has completed. Turn numbers count from 1 and continue after a seed (3.5). */
export function completedTurns (events: readonly SessionEvent[]): number {
  const last = events.findLast((event) => event.type === 'turn/end')
  return last?.type === 'turn/end' ? last.data.turn : 0
}
