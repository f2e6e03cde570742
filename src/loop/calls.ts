import { messageOf } from '../core/errors.ts'
import type { SessionEventOf } from '../core/events.ts'
import { SuspendReason } from '../core/live.ts'
import { interrupted } from '../core/repair.ts'
import { toolError, type Tool, type ToolOutcome } from '../core/tool.ts'
import type { OpenCall } from '../core/turn.ts'
import type { Agent, Execution } from './agent.ts'
import { parseArguments } from './step.ts'

/** Tool calls of one message that run at the same time. */
const PARALLEL = 10

/**
 * Runs the calls of a message that have no result yet, in parallel up to a barrier (driver.md 9.6), and logs a result for each.
 * Calls that a restart finds started are judged by driver.md 2.8. Resolves when every call is answered, or at a suspension.
 */
export async function runCalls (agent: Agent, calls: readonly OpenCall[], signal: AbortSignal): Promise<void> {
  for (const group of barrierGroups(agent, calls.filter((call) => !call.result))) {
    if (isSuspended(signal)) return
    await runGroup(agent, group, signal)
  }
}

/** Splits at barriers: what stands before one, the barrier alone, what follows. */
function barrierGroups (agent: Agent, calls: readonly OpenCall[]): OpenCall[][] {
  const groups: OpenCall[][] = [[]]
  for (const call of calls) {
    if (agent.tools.find(call.part.name)?.barrier) groups.push([call], [])
    else groups.at(-1)?.push(call)
  }
  return groups.filter((group) => group.length > 0)
}

async function runGroup (agent: Agent, group: readonly OpenCall[], signal: AbortSignal): Promise<void> {
  const host = group.filter((call) => isHost(agent, call)).map((call) => runCall(agent, call, signal))
  const service = group.filter((call) => !isHost(agent, call))
  const lanes = Array.from({ length: Math.min(PARALLEL, service.length) }, async () => {
    for (let call = service.shift(); call !== undefined; call = service.shift()) await runCall(agent, call, signal)
  })
  await Promise.all(lanes)
  if (host.length === 0) return
  const waits = agent.host.pending().length > 0
  if (waits) agent.slot.release()
  await Promise.all(host)
  if (waits && !signal.aborted) await agent.slot.acquire(signal).catch(() => {})
}

const isHost = (agent: Agent, call: OpenCall): boolean => agent.tools.find(call.part.name)?.executor === 'host'
const isSuspended = (signal: AbortSignal): boolean => signal.reason instanceof SuspendReason

async function runCall (agent: Agent, call: OpenCall, signal: AbortSignal): Promise<void> {
  const { part, started } = call
  const { toolCallId, name } = part
  if (isSuspended(signal)) return
  const tool = agent.tools.find(name)
  if (started && !(tool && (tool.idempotent || tool.executor === 'host'))) return agent.log.appendAll([interrupted(call)])
  if (signal.aborted) return logResult(agent, toolCallId, name, toolError('tool call aborted before dispatch'))
  const refusal = started ? undefined : refusalOf(agent, call, tool)
  if (refusal !== undefined) return logResult(agent, toolCallId, name, toolError(refusal))
  const parsed = parseArguments(part.arguments)
  if (!tool || 'fault' in parsed) return
  const execution: Execution = { toolCallId, name, input: parsed.input }
  if (tool.executor === 'host') return await callHost(agent, execution, started, signal)
  if (!started) agent.log.append('tool/call', { ...execution, executor: 'service', idempotent: tool.idempotent })
  if (!tool.idempotent) await agent.log.durable()
  const result = await execute(agent, tool, execution, signal)
  if (isSuspended(signal)) return
  agent.scope?.onResult(execution, result)
  logResult(agent, toolCallId, name, result)
}

/** Why a call is not executed: the child's guard, a name outside the view, or arguments that do not fit. */
function refusalOf (agent: Agent, { part }: OpenCall, tool: Tool | undefined): string | undefined {
  const guarded = agent.scope?.guard(part.name)
  if (guarded !== undefined) return guarded
  if (!tool) return `unknown tool "${part.name}"`
  const parsed = parseArguments(part.arguments)
  const faults = 'fault' in parsed ? [parsed.fault] : tool.validate(parsed.input)
  return faults.length === 0 ? undefined : `invalid arguments: ${faults.join('; ')}`
}

async function callHost (agent: Agent, execution: Execution, started: SessionEventOf<'tool/call'> | undefined, signal: AbortSignal): Promise<void> {
  const deadline = started ? started.data.deadline ?? null : agent.host.deadline()
  if (!started) {
    agent.log.append('tool/call', { ...execution, executor: 'host', idempotent: false, ...(deadline === null ? {} : { deadline }) })
  }
  await agent.host.wait({ ...execution, deadline }, signal)
}

async function execute (agent: Agent, tool: Tool, execution: Execution, signal: AbortSignal): Promise<ToolOutcome> {
  const ms = agent.limits.toolTimeoutMs
  const timeout = ms === undefined ? undefined : AbortSignal.timeout(ms)
  const both = timeout ? AbortSignal.any([signal, timeout]) : signal
  const { toolCallId, input } = execution
  try {
    return await untilAborted(tool.execute(input, { toolCallId, execution, runId: agent.runId, tenant: agent.tenant, signal: both }), both)
  } catch (error) {
    if (signal.aborted) return toolError('tool call aborted')
    if (timeout?.aborted) return toolError(`tool call timed out after ${ms} ms`)
    return toolError(messageOf(error))
  }
}

/** A tool that ignores its signal holds up nobody. */
async function untilAborted<T> (work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
    aborted.promise.catch(() => {})
    work.catch(() => {})
  }
}

function logResult (agent: Agent, toolCallId: string, name: string, { content, isError, structured }: ToolOutcome): void {
  agent.log.append('tool/result', { toolCallId, name, content, isError, ...(structured === undefined ? {} : { structured }) })
}
