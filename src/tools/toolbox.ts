import { RESERVED_TOOLS, type CompileSchema, type Tool } from '../core/tool.ts'
import { createRunCode, onlyRunCode, type RunCode, type RunCodeOptions } from './code/run-code.ts'
import { createSandbox } from './code/sandbox.ts'
import type { HttpToolConfig, HttpToolDeps } from './http/tool.ts'
import type { McpDeps } from './mcp/server.ts'
import type { McpServerConfig } from './mcp/server-config.ts'
import type { McpSource } from './mcp/source.ts'

export interface ToolboxSettings {
  readonly outbound: { readonly allow: readonly string[] }
  readonly mcp: readonly McpServerConfig[]
  readonly http: readonly HttpToolConfig[]
}
export interface ToolboxOptions {
  settings: ToolboxSettings
  compile: CompileSchema
  log: McpDeps['log']
  version: string
  traceHeaders?: HttpToolDeps['traceHeaders']
}

/** What a deployment gives its children to work with. */
export interface Toolbox {
  /** Tools that need no connection. */
  readonly tools: readonly Tool[]
  /** MCP servers; absent where none is configured. */
  readonly source?: McpSource
  readonly codeMode: { create (options: Omit<RunCodeOptions, 'sandbox'>): RunCode, explain (name: string): string }
  /** Ends every connection, process and thread. */
  close (): Promise<void>
}

/** Loads what the settings ask for and no more: an idle service without tools holds none of it. Throws an `Error` for bad names. */
export async function createToolbox ({ settings, compile, log, version, traceHeaders }: ToolboxOptions): Promise<Toolbox> {
  const clash = settings.http.find(({ name }, index) => RESERVED_TOOLS.has(name) || settings.http.slice(0, index).some((other) => other.name === name))
  if (clash) throw new Error(`tools.${clash.name}: the name is taken`)
  const sandbox = createSandbox()
  const wanted = settings.mcp.length + settings.http.length > 0
  const outbound = wanted ? (await import('./outbound.ts')).createOutbound({ allow: [...settings.outbound.allow] }) : undefined
  const tools: Tool[] = []
  let source: McpSource | undefined
  if (outbound && settings.http.length > 0) {
    const { createHttpTool } = await import('./http/tool.ts')
    tools.push(...settings.http.map((tool) => createHttpTool(tool, { outbound, compile, ...(traceHeaders ? { traceHeaders } : {}) })))
  }
  if (outbound && settings.mcp.length > 0) {
    const { createMcpSource } = await import('./mcp/source.ts')
    source = createMcpSource(settings.mcp, { version, outbound, compile, log })
  }
  return {
    tools,
    ...(source ? { source } : {}),
    codeMode: { create: (options) => createRunCode({ ...options, sandbox }), explain: onlyRunCode },
    async close () {
      await source?.close()
      await Promise.all([sandbox.close(), outbound?.close()])
    }
  }
}
