import type { SessionEventOf } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { Json } from '../core/json.ts'
import { SuspendReason } from '../core/live.ts'
import { interrupted } from '../core/repair.ts'
import { toolError, type Tool, type ToolOutcome } from '../core/tool.ts'
import type { OpenCall } from '../core/turn.ts'
import type { Agent, Execution } from './agent.ts'
import { parseArguments } from './arguments.ts'
import { executeTool } from './execution.ts'
import { together } from './together.ts'

/** Tool calls of one message that run at the same time. */
const PARALLEL = 10

/**
 * Runs the calls of a message that have no result yet, in parallel up to a barrier (driver.md 9.6), and logs a result for each.
 * Calls that a restart finds started are judged by driver.md 2.8. Resolves when every call is answered, or at a suspension;
 * rejects with a fault (a lost store), and then no call is left running.
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

/** While only the host can go on, the run's slot is another's. */
async function runGroup (agent: Agent, group: readonly OpenCall[], signal: AbortSignal): Promise<void> {
  await together(signal, (shared) => {
    const hosts = group.filter((call) => isHost(agent, call)).map((call) => runCall(agent, call, shared))
    const service = group.filter((call) => !isHost(agent, call))
    const lanes = Array.from({ length: Math.min(PARALLEL, service.length) }, () => agent.occupancy.during(async () => {
      for (let call = service.shift(); call !== undefined; call = service.shift()) await runCall(agent, call, shared)
    }))
    agent.occupancy.look()
    return [...hosts, ...lanes]
  })
  if (!signal.aborted) await agent.occupancy.regain(signal)
}

const isHost = (agent: Agent, call: OpenCall): boolean => agent.tools.find(call.part.name)?.executor === 'host'
const isSuspended = (signal: AbortSignal): boolean => signal.reason instanceof SuspendReason

async function runCall (agent: Agent, call: OpenCall, signal: AbortSignal): Promise<void> {
  const { part: { toolCallId, name }, started } = call
  if (isSuspended(signal)) return
  const tool = agent.tools.find(name)
  if (started && !(tool && (tool.idempotent || tool.executor === 'host'))) return agent.log.appendAll(interrupted(call))
  const isAsked = started !== undefined && tool?.executor === 'host'
  if (signal.aborted && !isAsked) return logResult(agent, toolCallId, name, abortedCall(started !== undefined))
  const verdict = judge(agent, call, tool)
  if ('refusal' in verdict) return logResult(agent, toolCallId, name, toolError(verdict.refusal))
  const execution: Execution = { toolCallId, name, input: verdict.input }
  if (verdict.tool.executor === 'host') return await callHost(agent, execution, started, signal)
  await callService(agent, verdict.tool, execution, started !== undefined, signal)
}

const abortedCall = (started: boolean): ToolOutcome =>
  toolError(started ? 'tool call aborted' : 'tool call aborted before dispatch')

type Verdict = { tool: Tool, input: Json } | { refusal: string }
/** A call is refused by the child's guard, for a name outside the view, or for arguments that do not fit. */
function judge (agent: Agent, { part, started }: OpenCall, tool: Tool | undefined): Verdict {
  const guarded = started ? undefined : agent.scope?.guard(part.name)
  if (guarded !== undefined) return { refusal: guarded }
  if (!tool) return { refusal: agent.tools.explain?.(part.name) ?? `unknown tool "${part.name}"` }
  const parsed = parseArguments(part.arguments)
  if ('fault' in parsed) return { refusal: `invalid arguments: ${parsed.fault}` }
  const faults = started ? [] : tool.validate(parsed.input)
  return faults.length === 0 ? { tool, input: parsed.input } : { refusal: `invalid arguments: ${faults.join('; ')}` }
}

async function callService (
  agent: Agent, tool: Tool, execution: Execution, started: boolean, signal: AbortSignal
): Promise<void> {
  if (!started) agent.log.append('tool/call', { ...execution, executor: 'service', idempotent: tool.idempotent })
  at('call/appended')
  // What may not run twice must be known to have been started before it starts (driver.md 2.8).
  if (!tool.idempotent) await agent.log.durable()
  at('tool/starting')
  const result = signal.aborted ? abortedCall(false) : await executeTool(agent, tool, execution, signal)
  at('tool/ran')
  if (isSuspended(signal)) return
  agent.scope?.onResult(execution, result)
  logResult(agent, execution.toolCallId, execution.name, result)
  at('result/appended')
}

async function callHost (
  agent: Agent, execution: Execution, started: SessionEventOf<'tool/call'> | undefined, signal: AbortSignal
): Promise<void> {
  const deadline = started ? started.data.deadline ?? null : agent.host.deadline()
  if (!started) {
    const due = deadline === null ? {} : { deadline }
    agent.log.append('tool/call', { ...execution, executor: 'host', idempotent: false, ...due })
  }
  at('host-call/appended')
  await agent.host.wait({ ...execution, deadline }, signal)
}

function logResult (agent: Agent, toolCallId: string, name: string, { content, isError, structured }: ToolOutcome): void {
  agent.log.append('tool/result', { toolCallId, name, content, isError, ...(structured === undefined ? {} : { structured }) })
}
