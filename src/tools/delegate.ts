import type { Block, RunResult } from '../core/events.ts'
import type { Json } from '../core/json.ts'
import { toolResultOf } from '../core/tool-result.ts'
import type { CompileSchema, Tool, ToolContext, ToolOutcome } from '../core/tool.ts'

/** The delegation tools (driver.md §11): a child that holds them makes children of its own, through the same driver. */

export interface DelegationRequest {
  provider: string
  prompt: Block[]
  label: string
  /** A named agent of the deployment. */
  agent?: string
  /** The call returns at once; the child belongs to the parent run and ends with it. */
  background: boolean
  call: ToolContext
}

/** Starts a child of the run that makes the call, or finds the one that the same call made before a restart. Rejects with a `Refusal`. */
export type Delegate = (request: DelegationRequest) => Promise<{ id: string, result: Promise<RunResult> }>
/** The result of a background child of the run that asks, once it settled. Rejects with an `Error` that names what is wrong. */
export type Collect = (id: string, call: ToolContext) => Promise<RunResult>

export interface DelegationOptions {
  delegate: Delegate
  collect: Collect
  compile: CompileSchema
  /** The registry names of the providers, as configured. */
  providers: { spawn: string, fork: string }
  agents: readonly { name: string, description: string }[]
}

export function createDelegationTools (options: DelegationOptions): Tool[] {
  const { providers: { spawn, fork } } = options
  return [
    delegationTool(options, 'subagent', spawn, 'Hands a self-contained task to a subagent with a fresh session: it knows nothing of this conversation but the prompt. Returns its final answer.'),
    delegationTool(options, 'subagent_fork', fork, 'Hands a task to a subagent that knows the completed turns of this conversation. Returns its final answer.'),
    collectionTool(options)
  ]
}

function delegationTool ({ delegate, compile, agents }: DelegationOptions, name: string, provider: string, description: string): Tool {
  const named = agents.map((agent) => `\n- ${agent.name}: ${agent.description}`).join('')
  const inputSchema: Json = {
    type: 'object',
    properties: {
      description: { type: 'string', description: 'The task in three to five words' },
      prompt: { type: 'string', minLength: 1, description: 'The task, with all that the subagent needs to know' },
      run_in_background: { type: 'boolean', description: 'Return at once; collect the result with subagent_result' },
      ...(agents.length === 0 ? {} : { agent: { type: 'string', enum: agents.map((agent) => agent.name), description: 'Which agent takes the task' } })
    },
    required: ['description', 'prompt'],
    additionalProperties: false
  }
  return {
    definition: { name, description: description + (named === '' ? '' : `\nAgents:${named}`), inputSchema },
    executor: 'service',
    idempotent: true,
    delegates: true,
    validate: compile(inputSchema),
    async execute (input, call) {
      const { prompt, description: label, agent, run_in_background: background = false } = input as unknown as Input
      const child = await delegate({ provider, prompt: [{ type: 'text', text: prompt }], label, background, call, ...(agent === undefined ? {} : { agent }) })
      if (!background) return outcomeOf(await child.result)
      const text = `Subagent ${child.id} runs in the background. It ends with this run; you are told when it settles. Collect its result with subagent_result.`
      return { content: [{ type: 'text', text }], isError: false, structured: { subagent: child.id, status: 'running' } }
    }
  }
}

interface Input { prompt: string, description: string, agent?: string, run_in_background?: boolean }

function collectionTool ({ collect, compile }: DelegationOptions): Tool {
  const inputSchema: Json = {
    type: 'object',
    properties: { subagent: { type: 'string', description: 'The id that the background call returned' } },
    required: ['subagent'],
    additionalProperties: false
  }
  return {
    definition: { name: 'subagent_result', description: 'Waits for a subagent that runs in the background and returns its final answer.', inputSchema },
    executor: 'service',
    idempotent: true,
    delegates: true,
    validate: compile(inputSchema),
    execute: async (input, call) => outcomeOf(await collect((input as { subagent: string }).subagent, call))
  }
}

/** What the parent's model reads of a child that settled (driver.md §12). */
function outcomeOf (result: RunResult): ToolOutcome {
  const { isError, content, structuredContent } = toolResultOf(result)
  return { content, isError, ...(structuredContent === undefined ? {} : { structured: structuredContent }) }
}
