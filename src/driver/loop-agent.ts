import type { Agent, Slot } from '../loop/agent.ts'
import { Occupancy } from '../loop/occupancy.ts'
import { runSubCall } from '../loop/sub-calls.ts'
import type { AgentSetup, RunHooks } from './agent.ts'
import type { ChildRun } from './child-run.ts'
import { treeTokens } from './limits.ts'
import type { DriverOptions } from './options.ts'

/** What the loop runs a child's turn on: its set-up, its log, and the hooks that tie the set-up to the run. */
export function agentOf (options: DriverOptions, run: ChildRun, { hooks, slot }: { hooks: RunHooks, slot: Slot }, setup: AgentSetup): Agent {
  const { onModelCall, now, random, store } = options
  const { id: runId, tenant, log, spec, deltas, hostCalls: host, projection: { record: { rootId, firstSeq } } } = run
  hooks.onCapture = ({ toolCallId }, value) => { log.append('run/structured', { toolCallId, value }) }
  hooks.dispatch = (call) => runSubCall(agent, call)
  const occupancy = new Occupancy(slot, () => host.pending().length > 0)
  const agent: Agent = {
    runId, tenant, log, deltas, host, occupancy, now, random, ownFrom: firstSeq - log.seedLength,
    model: setup.model, system: setup.system, tools: setup.tools, options: spec.agentOptions, limits: spec.limits,
    treeTokens: async () => {
      await log.durable()
      return await treeTokens(store, { tenant, rootId })
    },
    ...(setup.scope ? { scope: setup.scope } : {}),
    ...(onModelCall ? { onModelCall } : {})
  }
  return agent
}
