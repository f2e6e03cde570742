import type { Tool } from '../../core/tool.ts'
import { refuse } from '../../core/errors.ts'
import { SERVER_NAME, SERVER_NAME_RULE } from './names.ts'
import type { McpServerConfig } from './server-config.ts'
import { McpServer, type McpDeps } from './server.ts'

/** The tools that MCP servers offer to every child (driver.md §4.4). */
export interface McpSource {
  /**
   * Connects what is not connected, and answers the tools in the order of the configuration. `notices` name the servers whose
   * tools are missing. Rejects with the signal's reason, `TOOL_NAME_TAKEN`, or an `Error` for a required server that is not there.
   */
  list (signal: AbortSignal): Promise<{ tools: Tool[], notices: string[] }>
  /** Ends every connection and every process of a server. Nothing is left when this resolves. */
  close (): Promise<void>
}

/** Throws an `Error` for names that no server can have, or that two have. Connects nothing, and loads no client, before the first `list`. */
export function createMcpSource (configs: readonly McpServerConfig[], deps: McpDeps): McpSource {
  checkNames(configs.map(({ name }) => name))
  const servers = configs.map((config) => new McpServer(config, deps))
  return {
    async list (signal) {
      const lists = await Promise.all(servers.map((server) => server.tools(signal)))
      const tools = lists.flatMap((list) => list.tools)
      checkTools(tools)
      return { tools, notices: lists.flatMap(({ notice }) => notice ?? []) }
    },
    async close () {
      await Promise.all(servers.map((server) => server.close()))
    }
  }
}

function checkNames (names: readonly string[]): void {
  const bad = names.filter((name) => !SERVER_NAME.test(name) || name.length > 32)
  if (bad.length > 0) throw new Error(`no name for an MCP server: ${bad.map((name) => `"${name}"`).join(', ')}; it must be ${SERVER_NAME_RULE}`)
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  if (twice.length > 0) throw new Error(`two MCP servers are named "${twice[0]}"`)
}

/** Shortened names of two servers may meet. */
function checkTools (tools: readonly Tool[]): void {
  const taken = new Set<string>()
  for (const { definition: { name } } of tools) {
    if (taken.has(name)) throw refuse('TOOL_NAME_TAKEN', { name })
    taken.add(name)
  }
}
