import { outcome } from '../core/errors.ts'
import { text, type Block, type Outcome, type RunResult, type SessionEvent, type SessionEventOf, type StopReason, type TurnEndReason } from '../core/events.ts'
import { usageOf } from '../core/usage.ts'
import { capturedValue } from './structured-output.ts'

/**
 * The result of a run, from its own events alone (driver.md §7): never a seeded message, even where the child said nothing.
 * `structured` says that a captured value is owed; `failed`, why a run without a turn's end failed. Pure.
 */
export function readResult (own: readonly SessionEvent[], { cancelled, structured, failed }: { cancelled: boolean, structured: boolean, failed?: Outcome }): RunResult {
  const captured = capturedValue(own)
  const end = lastTurnEnd(own)
  const recorded = !end && failed ? 'error' : recordedReason(end)
  const owed = structured && !captured && recorded === 'completed'
  const reached: StopReason = owed ? 'error' : recorded
  const stopReason: StopReason = cancelled && reached !== 'completed' ? 'aborted' : reached
  const error = stopReason === 'error' ? (end ? undefined : failed) ?? errorOf(end, owed) : undefined
  return {
    output: outputOf(own),
    ...(captured ? { structured: captured.value } : {}),
    stopReason,
    ...(error ? { diagnostic: error.message, error } : {}),
    usage: usageOf(own)
  }
}

/** 7.2: the last turn that consumed a user's message; turns that something else opened do not count. */
function lastTurnEnd (own: readonly SessionEvent[]): SessionEventOf<'turn/end'> | undefined {
  const counted = new Set<number>()
  for (const event of own) {
    if (event.type === 'turn/start' && (event.data.origin === 'task' || event.data.origin === 'message')) counted.add(event.data.turn)
  }
  const end = own.findLast((event) => event.type === 'turn/end' && counted.has(event.data.turn))
  return end?.type === 'turn/end' ? end : undefined
}

function recordedReason (end: SessionEventOf<'turn/end'> | undefined): StopReason {
  const reason: TurnEndReason = end?.data.reason ?? 'aborted'
  return reason === 'interrupted' ? 'error' : reason
}

function errorOf (end: SessionEventOf<'turn/end'> | undefined, owed: boolean): Outcome {
  if (owed) return outcome('NO_STRUCTURED_OUTPUT', 'the turn ended without a `structured_output` call that matched the schema')
  if (end?.data.error) return end.data.error
  return end?.data.reason === 'interrupted'
    ? outcome('INTERRUPTED', 'the run was interrupted and could not go on')
    : outcome('INTERNAL', 'the run ended without a reason')
}

/** 7.1: the last own assistant message that is not empty; the text that a cut-off stream left is logged as one. */
function outputOf (own: readonly SessionEvent[]): Block[] {
  for (let i = own.length - 1; i >= 0; i--) {
    const event = own[i]
    if (event?.type !== 'assistant/message') continue
    const blocks = event.data.content.filter((part) => part.type === 'text' && part.text !== '').map((part) => text(part.type === 'text' ? part.text : ''))
    if (blocks.length > 0) return blocks
  }
  return []
}
