import { addUsage, noUsage, text, type Block, type NewEvent, type Outcome, type RunResult, type StopReason, type TurnEndReason, type Usage } from '../../core/events.ts'
import { outcome } from '../../core/errors.ts'

/**
 * The result of an external run, read while its log passes by: what `readResult` reads of a log that is kept (driver.md §7), and
 * of a chat its last turn that a user opened (claude-code.md A6).
 */
export interface Reading {
  take (event: NewEvent): void
  /** Whether the turn that ended last is the run's answer, whoever seemed to open it: else the one before it still is (A6). */
  judge (answers: boolean): void
  /** What the CLI itself says came of it: the output of a run that said nothing in its log. */
  say (words: string): void
  /** What its whole session has cost so far, in US dollars. */
  spend (cost: number): void
  readonly usage: Usage
  /** `failed`: why a run failed whose turn did not end, or was stopped for it. */
  result (how: { cancelled: boolean, failed?: Outcome | undefined }): RunResult
}

interface Told { output: Block[], said?: string, end?: { reason: TurnEndReason, error?: Outcome } }

export function createReading (): Reading {
  let answer: Told = { output: [] }
  let turn: Told = { output: [] }
  /** Whether the last turn takes the answer's place. */
  let counts = false
  let usage = noUsage()
  const told = (): Told => counts ? turn : answer
  return {
    take (event) {
      switch (event.type) {
        case 'turn/start':
          answer = told()
          turn = { output: [] }
          counts = event.data.origin === 'task' || event.data.origin === 'message'
          return
        case 'assistant/message': {
          usage = addUsage(usage, event.data.usage)
          const words = event.data.content.flatMap((part) => part.type === 'text' && part.text !== '' ? [text(part.text)] : [])
          if (words.length > 0) turn.output = words
          return
        }
        case 'turn/end':
          turn.end = event.data
          return
        default:
      }
    },
    judge (answers) { counts = answers },
    say (words) { told().said = words },
    spend (cost) { usage = { ...usage, cost } },
    get usage () { return usage },
    result ({ cancelled, failed }) {
      const { output, said, end } = told()
      const stopped = end === undefined || (end.reason === 'aborted' && !cancelled)
      const reached = stopped && failed ? 'error' : stopOf(end?.reason ?? 'aborted')
      const stopReason: StopReason = cancelled && reached !== 'completed' ? 'aborted' : reached
      const error = stopReason === 'error' ? end?.error ?? failed ?? outcome('INTERNAL', 'the run ended without a reason') : undefined
      const words = output.length > 0 || said === undefined || said === '' ? output : [text(said)]
      return { output: words, stopReason, ...(error ? { diagnostic: error.message, error } : {}), usage }
    }
  }
}

const stopOf = (reason: TurnEndReason): StopReason => reason === 'interrupted' ? 'error' : reason
