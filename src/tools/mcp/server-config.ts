/** An MCP server of the deployment (http-api.md §9), every variable resolved. */
export type McpServerConfig = McpStdioConfig | McpHttpConfig

interface McpCommonConfig {
  /** `SERVER_NAME` of names.ts, at most 32 characters: the first part of its tools' names. */
  name: string
  /** A start fails without it. Else its tools are missing, and a notice of the run says so. */
  required?: boolean
  /** For connecting and shaking hands. */
  connectTimeoutMs?: number
  /** For a request without any news of its progress. */
  timeoutMs?: number
  /** Never shown: taken out of errors and of the log. */
  secrets?: readonly string[]
}

export interface McpStdioConfig extends McpCommonConfig {
  kind: 'stdio'
  command: string
  args?: readonly string[]
  /** The whole environment of the process: what the configuration lets through, and no more. */
  env?: Readonly<Record<string, string>>
  cwd?: string
}

export interface McpHttpConfig extends McpCommonConfig {
  kind: 'http'
  /** Reached under the outbound rules (http-api.md 8.4). */
  url: string
  headers?: Readonly<Record<string, string>>
}

export const MCP_CONNECT_TIMEOUT_MS = 30_000
export const MCP_TIMEOUT_MS = 60_000

/** As pino has it. */
export interface McpLog {
  debug (fields: object, message: string): void
  info (fields: object, message: string): void
  warn (fields: object, message: string): void
}
