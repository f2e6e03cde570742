import { isAnswered, sameAnswer } from '../core/answers.ts'
import { refuse } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import type { Json } from '../core/json.ts'
import { SuspendReason, type HostAnswer, type HostCalls } from '../core/live.ts'
import type { SessionLog } from '../core/log.ts'
import type { PendingToolCall } from '../core/run.ts'
import { toolError, type ToolOutcome } from '../core/tool.ts'

/** `parent`: the `run_code` call whose program asks. */
export interface HostCall { toolCallId: string, name: string, input: Json, deadline: number | null, parent?: string }

interface Waiting extends HostCall { settle: (outcome: ToolOutcome) => void, timer?: NodeJS.Timeout | undefined }

export interface HostDeskOptions {
  log: SessionLog
  now: () => number
  /** `null`: a call waits for its answer without end. */
  timeoutMs: number | null
  /** Told when the pending calls changed, in the tick of the event that changed them. */
  onChange: (pending: PendingToolCall[]) => void
}

/** Where calls to the host's tools wait for their answers (http-api.md §7). An answer is logged before the step goes on. */
export class HostDesk implements HostCalls {
  readonly #options: HostDeskOptions
  readonly #waiting = new Map<string, Waiting>()

  constructor (options: HostDeskOptions) { this.#options = options }

  pending (): PendingToolCall[] {
    return [...this.#waiting.values()].map(({ toolCallId, name, input, deadline }) => ({ toolCallId, name, input, deadline }))
  }

  deadline (): number | null {
    const { now, timeoutMs } = this.#options
    return timeoutMs === null ? null : now() + timeoutMs
  }

  /** Waits for the answer to a call whose `tool/call` is logged. The result is logged by the time it resolves. */
  wait (call: HostCall, signal: AbortSignal): Promise<ToolOutcome> {
    return new Promise((resolve) => {
      const onAbort = () => this.#onAbort(call.toolCallId, signal)
      const settle = (outcome: ToolOutcome) => {
        signal.removeEventListener('abort', onAbort)
        resolve(outcome)
      }
      const waiting: Waiting = { ...call, settle }
      this.#waiting.set(call.toolCallId, waiting)
      if (call.deadline !== null) waiting.timer = this.#timer(call, call.deadline)
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort)
      this.#options.onChange(this.pending())
      at('host-call/waiting')
    })
  }

  answer (answers: readonly HostAnswer[]): void {
    const seen = new Map<string, HostAnswer>()
    for (const answer of answers) {
      if (!this.#isRepeat(answer, seen.get(answer.toolCallId))) seen.set(answer.toolCallId, answer)
    }
    for (const { toolCallId, content, isError } of seen.values()) this.#close(toolCallId, { content, isError })
    at('answer/accepted')
  }

  /** Whether an answer says again what was answered before. Throws `TOOL_CALL_NOT_PENDING` for any that cannot be taken. */
  #isRepeat (answer: HostAnswer, sibling: HostAnswer | undefined): boolean {
    const { toolCallId } = answer
    if (sibling) {
      if (sameAnswer(sibling, answer)) return true
      throw refuse('TOOL_CALL_NOT_PENDING', { toolCallId, reason: 'answered' })
    }
    if (this.#waiting.has(toolCallId)) return false
    return isAnswered(this.#options.log.own, answer)
  }

  #timer (call: HostCall, deadline: number): NodeJS.Timeout {
    const expire = () => this.#close(call.toolCallId, toolError(`tool call timed out after ${this.#options.timeoutMs} ms`), 'expired')
    const timer = setTimeout(expire, Math.max(0, deadline - this.#options.now()))
    return timer
  }

  /** A cancelled call is answered so; a suspended one stays open for the next start (driver.md 2.8). */
  #onAbort (toolCallId: string, signal: AbortSignal): void {
    if (!(signal.reason instanceof SuspendReason)) return this.#close(toolCallId, toolError('tool call aborted'), 'cancelled')
    clearTimeout(this.#waiting.get(toolCallId)?.timer)
    this.#waiting.get(toolCallId)?.settle(toolError('tool call aborted'))
    this.#waiting.delete(toolCallId)
  }

  #close (toolCallId: string, outcome: ToolOutcome, ended?: 'expired' | 'cancelled'): void {
    const waiting = this.#waiting.get(toolCallId)
    if (!waiting) return
    this.#waiting.delete(toolCallId)
    clearTimeout(waiting.timer)
    const { content, isError } = outcome
    const { name, parent } = waiting
    this.#options.log.append('tool/result', {
      toolCallId, name, content, isError, ...(ended ? { ended } : {}), ...(parent === undefined ? {} : { parent })
    })
    this.#options.onChange(this.pending())
    waiting.settle(outcome)
  }
}
