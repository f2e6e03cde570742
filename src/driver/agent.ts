import { refuse } from '../core/errors.ts'
import type { SystemSection, ToolDefinition } from '../core/events.ts'
import type { Json } from '../core/json.ts'
import type { Model, Models } from '../core/model.ts'
import type { RunSpec } from '../core/run.ts'
import type { CompileSchema, Tool, ToolOutcome } from '../core/tool.ts'
import type { Execution, ToolScope, ToolView } from '../loop/agent.ts'
import type { SubCall } from '../loop/sub-calls.ts'
import { schemaViolations } from './output-schema.ts'
import { createStructuredOutput } from './structured-output.ts'
import { createToolView, withRunCode, withScoped } from './tool-view.ts'

/** What every child of this deployment is built with. */
export interface AgentParts {
  models: Models
  /** The deployment's persona section; empty where it has none. */
  persona?: string
  tools: readonly Tool[]
  /** Tools that are connected and listed when a child is set up. */
  source?: { list (signal: AbortSignal): Promise<{ tools: readonly Tool[], notices: readonly string[] }> }
  /** Makes `run_code` of a child; absent where no sandbox is. */
  codeMode?: CodeMode
  compile: CompileSchema
}

export interface CodeMode {
  create (options: {
    tools: readonly ToolDefinition[], isBarrier: (name: string) => boolean, dispatch: (call: SubCall) => Promise<ToolOutcome>
  }): { tool: Tool, section: SystemSection }
  /** The answer to a direct call where only programs call tools. */
  explain (name: string): string
}

/** The set-up of a child, ready to run on a log. Built the same way before publication and after a restart. */
export interface AgentSetup { model: Model, system: SystemSection[], tools: ToolView, scope?: ToolScope, notices: readonly string[] }

/** What the set-up tells the run it is for, and asks of it; tied once the run is there. */
export interface RunHooks {
  captured?: Json
  onCapture: (execution: Execution, value: Json) => void
  dispatch: (call: SubCall) => Promise<ToolOutcome>
}

/** Hooks that do nothing until the run ties them. */
export const createHooks = (): RunHooks => ({ onCapture: () => {}, dispatch: () => Promise.reject(new Error('the run is not under way')) })

/**
 * Builds a child's agent from its spec: persona → tool sources → filter → structured output (driver.md §4.4). The order of the
 * system prompt is persona or inherited system, then tool guidance, the structured contract last (9.2). Throws a `Refusal`.
 */
export async function buildAgent (parts: AgentParts, spec: RunSpec, hooks: RunHooks, signal: AbortSignal): Promise<AgentSetup> {
  const { compile } = parts
  const model = parts.models.resolve(spec.model)
  const system = personaSections(parts.persona, spec)
  const listed = parts.source ? await parts.source.list(signal) : { tools: [], notices: [] }
  const own = createToolView({
    host: spec.hostTools, ...(spec.toolsFrom ? { from: spec.toolsFrom } : {}), deployment: [...parts.tools, ...listed.tools], compile, ...(spec.toolFilter ? { filter: spec.toolFilter } : {})
  })
  const structured = spec.outputSchema === undefined ? undefined : createStructuredOutput({
    schema: spec.outputSchema, compile, onCapture: (...args) => hooks.onCapture(...args), ...(hooks.captured === undefined ? {} : { captured: hooks.captured })
  })
  const view = structured ? withScoped(own, structured.tool) : own
  const code = spec.codeMode === 'native' ? undefined : runCodeOf(parts, view, hooks)
  return {
    model,
    system: [...system, ...code ? [code.section] : [], ...structured ? [structured.section] : []],
    tools: code ? withRunCode(view, code.tool, spec.codeMode === 'code', code.explain) : view,
    notices: listed.notices,
    ...(structured ? { scope: structured.scope } : {})
  }
}

function runCodeOf ({ codeMode }: AgentParts, view: ToolView, hooks: RunHooks): { tool: Tool, section: SystemSection, explain: CodeMode['explain'] } {
  if (!codeMode) throw refuse('INVALID_REQUEST', { detail: 'code mode is not available here', errors: [{ pointer: '/codeMode', detail: 'must be native' }] })
  const { tool, section } = codeMode.create({
    tools: view.definitions,
    isBarrier: (name) => view.find(name)?.barrier ?? false,
    dispatch: (call) => hooks.dispatch(call)
  })
  return { tool: { ...tool, awaited: true }, section, explain: (name) => codeMode.explain(name) }
}

/** The persona shadows the deployment's for this child alone; an inherited system prompt stands in the same place (driver.md 8.1, 3.6). */
function personaSections (deployment: string | undefined, spec: RunSpec): SystemSection[] {
  if (spec.persona !== undefined) return spec.persona === '' ? [] : [{ text: spec.persona }]
  if (spec.system !== undefined && spec.system.length > 0) return spec.system
  return deployment === undefined || deployment === '' ? [] : [{ text: deployment }]
}

/** Throws `UNSUPPORTED_SCHEMA` with every violation (driver.md 9.1). */
export function checkOutputSchema (schema: unknown): void {
  const violations = schemaViolations(schema)
  if (violations.length > 0) throw refuse('UNSUPPORTED_SCHEMA', { violations })
}
