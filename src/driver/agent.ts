import { refuse } from '../core/errors.ts'
import type { SystemSection } from '../core/events.ts'
import type { Json } from '../core/json.ts'
import type { Model, Models } from '../core/model.ts'
import type { RunSpec } from '../core/run.ts'
import type { CompileSchema, Tool } from '../core/tool.ts'
import type { Execution, ToolScope, ToolView } from '../loop/agent.ts'
import { schemaViolations } from './output-schema.ts'
import { createStructuredOutput } from './structured-output.ts'
import { createToolView, withScoped } from './tool-view.ts'

/** What every child of this deployment is built with. */
export interface AgentParts {
  models: Models
  /** The deployment's persona section; empty where it has none. */
  persona?: string
  tools: readonly Tool[]
  compile: CompileSchema
}

/** The set-up of a child, ready to run on a log. Built the same way before publication and after a restart. */
export interface AgentSetup { model: Model, system: SystemSection[], tools: ToolView, scope?: ToolScope }

export interface CaptureHooks {
  captured?: Json
  onCapture: (execution: Execution, value: Json) => void
}

/**
 * Builds a child's agent from its spec: persona → tools → filter → structured output (driver.md §4.4). The order of the
 * system prompt is persona or inherited system, then tool guidance, the structured contract last (9.2). Throws a `Refusal`.
 */
export function buildAgent (parts: AgentParts, spec: RunSpec, hooks: CaptureHooks): AgentSetup {
  const { compile } = parts
  const model = parts.models.resolve(spec.model)
  const system = personaSections(parts.persona, spec)
  const tools = createToolView({
    host: spec.hostTools, deployment: parts.tools, compile, ...(spec.toolFilter ? { filter: spec.toolFilter } : {})
  })
  if (spec.outputSchema === undefined) return { model, system, tools }
  const structured = createStructuredOutput({ schema: spec.outputSchema, compile, ...hooks })
  return { model, system: [...system, structured.section], tools: withScoped(tools, structured.tool), scope: structured.scope }
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
