import { at } from '../core/fault-point.ts'
import type { Json } from '../core/json.ts'
import { toolError, type Tool, type ToolContext, type ToolOutcome } from '../core/tool.ts'
import type { Agent, Execution } from './agent.ts'
import { executeTool } from './execution.ts'

/** A tool call that a program of `run_code` makes; `parent` is the execution of `run_code`. */
export interface SubCall { toolCallId: string, name: string, input: Json, signal: AbortSignal, parent: ToolContext }

/**
 * Runs a program's call through the guard, the view, validation and the log of its child (driver.md §10). Resolves with the
 * result, an error one for a refusal; rejects with a fault alone.
 */
export const runSubCall = (agent: Agent, call: SubCall): Promise<ToolOutcome> =>
  agent.occupancy.inside(call.parent.execution, call.signal, () => runCall(agent, call))

async function runCall (agent: Agent, { toolCallId, name, input, signal, parent }: SubCall): Promise<ToolOutcome> {
  const tool = agent.tools.findInCode(name)
  const refusal = refusalOf(agent, tool, name, input)
  if (refusal !== undefined || !tool) return toolError(refusal ?? `unknown tool "${name}"`)
  if (signal.aborted) return toolError('tool call aborted before dispatch')
  const execution: Execution = { toolCallId, name, input }
  if (tool.executor === 'host') return await askHost(agent, execution, parent.toolCallId, signal)
  agent.log.append('tool/call', { ...execution, executor: 'service', idempotent: tool.idempotent, parent: parent.toolCallId })
  if (!tool.idempotent) await agent.log.durable()
  at('sub-call/starting')
  const result = await executeTool(agent, tool, execution, signal, parent.execution)
  at('sub-call/ran')
  const { content, isError, structured } = result
  agent.log.append('tool/result', {
    toolCallId, name, content, isError, ...(structured === undefined ? {} : { structured }), parent: parent.toolCallId
  })
  return result
}

function refusalOf (agent: Agent, tool: Tool | undefined, name: string, input: Json): string | undefined {
  const guarded = agent.scope?.guard(name)
  if (guarded !== undefined) return guarded
  if (!tool) return `unknown tool "${name}"`
  const faults = tool.validate(input)
  return faults.length === 0 ? undefined : `invalid arguments: ${faults.join('; ')}`
}

async function askHost (agent: Agent, execution: Execution, parent: string, signal: AbortSignal): Promise<ToolOutcome> {
  const deadline = agent.host.deadline()
  agent.log.append('tool/call', { ...execution, executor: 'host', idempotent: false, parent, ...(deadline === null ? {} : { deadline }) })
  return await agent.occupancy.outside(agent.host.wait({ ...execution, deadline, parent }, signal))
}
