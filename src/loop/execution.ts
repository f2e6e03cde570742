import { messageOf } from '../core/errors.ts'
import { plainJsonFault } from '../core/json.ts'
import { SuspendReason } from '../core/live.ts'
import { toolError, type Tool, type ToolOutcome } from '../core/tool.ts'
import type { Agent, Execution } from './agent.ts'
import { createProgressNotes } from './progress.ts'

/**
 * Executes a service tool under the run's signal and `limits.toolTimeoutMs`. A tool that throws, ignores its signal or answers
 * what no log can hold gives an error result; it holds up nobody, and no listener or timer of it stays. `identity`: the
 * execution that its effects belong to (driver.md 9.4).
 */
export async function executeTool (
  agent: Agent, tool: Tool, execution: Execution, signal: AbortSignal, identity: object = execution
): Promise<ToolOutcome> {
  const ms = agent.limits.toolTimeoutMs
  const { toolCallId, input } = execution
  const { runId, tenant } = agent
  const controller = new AbortController()
  const progress = createProgressNotes(agent.log, toolCallId)
  const ended = Promise.withResolvers<ToolOutcome>()
  let over: string | undefined
  const end = (reason: unknown, why: string): void => {
    over = why
    if (!tool.delegates && !tool.awaited) ended.resolve(toolError(why))
    // After a suspension nothing more is logged (driver.md 2.8).
    progress.end(!(reason instanceof SuspendReason))
    controller.abort(reason)
  }
  const onAbort = (): void => end(signal.reason, 'tool call aborted')
  const onTimeout = (): void => end(new DOMException(`${ms} ms are over`, 'TimeoutError'), `tool call timed out after ${ms} ms`)
  const timer = ms === undefined || tool.delegates ? undefined : setTimeout(onTimeout, ms)
  signal.addEventListener('abort', onAbort)
  try {
    const work = tool.execute(input, { toolCallId, execution: identity, runId, tenant, signal: controller.signal, progress: progress.note })
    const outcome = await Promise.race([ended.promise, work.then(kept)])
    return over !== undefined && tool.awaited ? toolError(over) : outcome
  } catch (error) {
    return toolError(messageOf(error))
  } finally {
    progress.end(true)
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** The outcome, if a log can hold it. */
function kept ({ content, isError, structured }: ToolOutcome): ToolOutcome {
  const outcome: ToolOutcome = { content, isError, ...(structured === undefined ? {} : { structured }) }
  const fault = plainJsonFault(outcome)
  return fault ? toolError(`the tool answered what is not plain JSON, at "${fault.pointer}": ${fault.reason}`) : outcome
}
