import { messageOf, refuse } from '../core/errors.ts'
import type { ToolDefinition } from '../core/events.ts'
import type { ToolFilter } from '../core/run.ts'
import { RESERVED_TOOLS, type CompileSchema, type Tool } from '../core/tool.ts'
import type { ToolView } from '../loop/agent.ts'

export interface ViewParts {
  /** The host's tools; each call waits for the host. */
  host: readonly ToolDefinition[]
  from?: 'transcript'
  deployment: readonly Tool[]
  filter?: ToolFilter
  compile: CompileSchema
}

/** The child's one view of tools (driver.md §8). Throws `TOOL_NAME_TAKEN`, `TOOL_FILTER_INVALID`, and `INVALID_REQUEST` or `TRANSCRIPT_INVALID` for a schema that does not compile. */
export function createToolView ({ host, from, deployment, filter, compile }: ViewParts): ToolView {
  const taken = new Set([...RESERVED_TOOLS, ...deployment.map((tool) => tool.definition.name)])
  for (const { name } of host) {
    if (taken.has(name)) throw refuse('TOOL_NAME_TAKEN', { name })
    taken.add(name)
  }
  const known = [...host.map((definition) => definition.name), ...deployment.map((tool) => tool.definition.name)]
  const keeps = filterOf(filter, known)
  const definitions: ToolDefinition[] = []
  const tools = new Map<string, Tool>()
  host.forEach((definition, index) => {
    if (!keeps(definition.name)) return
    definitions.push(definition)
    if (!definition.serverTool) tools.set(definition.name, hostTool(definition, index, compile, from))
  })
  for (const tool of deployment.filter(({ definition }) => keeps(definition.name))) {
    definitions.push(tool.definition)
    tools.set(tool.definition.name, tool)
  }
  const find = (name: string): Tool | undefined => tools.get(name)
  return { definitions, find, findInCode: find }
}

/** The view with a tool of the child's own behind the others, outside the filter (driver.md 8.3). */
export function withScoped (view: ToolView, tool: Tool): ToolView {
  const find = (name: string): Tool | undefined => name === tool.definition.name ? tool : view.find(name)
  return { definitions: [...view.definitions, tool.definition], find, findInCode: find }
}

/**
 * The view of a child that writes programs (driver.md §10): in mode `code` the wire carries `run_code` alone, and any other name
 * is explained; in mode `both` it stands behind the others. Programs call what the view holds.
 */
export function withRunCode (view: ToolView, runCode: Tool, only: boolean, explain: (name: string) => string): ToolView {
  const isRunCode = (name: string): boolean => name === runCode.definition.name
  return {
    definitions: only ? [runCode.definition] : [...view.definitions, runCode.definition],
    find: (name) => isRunCode(name) ? runCode : only ? undefined : view.find(name),
    findInCode: (name) => view.find(name),
    explain: (name) => only && view.find(name) ? explain(name) : undefined
  }
}

/** Whether a tool stays. Omitted keeps all; an empty `allow` keeps none (driver.md 8.2). */
function filterOf (filter: ToolFilter | undefined, known: readonly string[]): (name: string) => boolean {
  if (filter === undefined) return () => true
  const { allow, deny } = filter
  if (allow === undefined && deny === undefined) throw refuse('TOOL_FILTER_INVALID', { detail: 'toolFilter names neither allow nor deny' })
  const unknown = [...new Set([...allow ?? [], ...deny ?? []])].filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    const names = unknown.map((name) => `"${name}"`).join(', ')
    const all = known.length === 0 ? '(none)' : known.toSorted().join(', ')
    throw refuse('TOOL_FILTER_INVALID', { detail: `toolFilter names unknown tool${unknown.length > 1 ? 's' : ''} ${names}; known tools: ${all}` })
  }
  return (name) => (allow === undefined || allow.includes(name)) && !deny?.includes(name)
}

function hostTool (definition: ToolDefinition, index: number, compile: CompileSchema, from: ViewParts['from']): Tool {
  try {
    const validate = compile(definition.inputSchema)
    return { definition, executor: 'host', idempotent: false, validate, execute: neverHere }
  } catch (error) {
    const detail = `tool "${definition.name}": ${messageOf(error)}`
    if (from === 'transcript') throw refuse('TRANSCRIPT_INVALID', { detail: `transcript.tools[${index}]: ${detail}`, pointer: `/parent/transcript/tools/${index}` })
    throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: `/tools/${index}/inputSchema`, detail }] })
  }
}

const neverHere = (): Promise<never> => Promise.reject(new Error('a host tool is executed by the host'))
