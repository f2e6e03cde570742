import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, type TestContext } from 'vitest'
import type { Json } from '../../../src/core/json.ts'
import type { Tool, ToolContext, ToolOutcome, ToolProgress } from '../../../src/core/tool.ts'
import type { McpServerConfig } from '../../../src/tools/mcp/server-config.ts'
import type { McpDeps } from '../../../src/tools/mcp/server.ts'
import { createMcpSource, type McpSource } from '../../../src/tools/mcp/source.ts'
import { createOutbound } from '../../../src/tools/outbound.ts'
import { createSchemaCompiler } from '../../../src/tools/schema.ts'

const packages = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol')
export const EVERYTHING = join(packages, 'server-everything/dist/index.js')
export const FILESYSTEM = join(packages, 'server-filesystem/dist/index.js')
export const FAULTY = join(import.meta.dirname, 'faulty-server.ts')

export interface McpRoom {
  source: McpSource
  progress: ToolProgress[]
  /** Lines of the log, each `level message` or, for a reason, `level message: reason`. */
  log: string[]
  /** Resolves with the first line of the log, past or to come, that matches. */
  logged (pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves once so much news of progress has come. */
  progressed (count: number): Promise<void>
  clock: { now: number }
  list (): Promise<Tool[]>
  tool (name: string): Promise<Tool>
  call (name: string, input?: Json, signal?: AbortSignal): Promise<ToolOutcome>
}

/** A source of the given servers, closed with the test, with a clock that stands still. */
export function mcpRoom (onTestFinished: TestContext['onTestFinished'], servers: McpServerConfig[], deps: Partial<McpDeps> = {}): McpRoom {
  const outbound = createOutbound({ allow: ['127.0.0.1'] })
  const progress: ToolProgress[] = []
  const log: string[] = []
  const watchers = new Set<() => void>()
  const tell = (): void => { for (const watcher of watchers) watcher() }
  const until = <T>(look: () => T | undefined): Promise<T> => new Promise((resolve) => {
    const watcher = (): void => {
      const found = look()
      if (found === undefined) return
      watchers.delete(watcher)
      resolve(found)
    }
    watchers.add(watcher)
    watcher()
  })
  const write = (level: string) => (fields: object, message: string): void => {
    const { reason } = fields as { reason?: string }
    log.push(`${level} ${message}${reason === undefined ? '' : `: ${reason}`}`)
    tell()
  }
  const clock = { now: 1_000_000 }
  const source = createMcpSource(servers, {
    version: '1.2.3', outbound, compile: createSchemaCompiler(), now: () => clock.now,
    log: { debug: write('debug'), info: write('info'), warn: write('warn') }, ...deps
  })
  onTestFinished(async () => { await source.close(); await outbound.close() })
  const list = async (): Promise<Tool[]> => (await source.list(new AbortController().signal)).tools
  const tool = async (name: string): Promise<Tool> => {
    const found = (await list()).find(({ definition }) => definition.name === name)
    if (!found) throw new Error(`no tool ${name}`)
    return found
  }
  return {
    source, progress, log, clock, list, tool,
    logged: (pattern) => until(() => log.map((line) => pattern.exec(line)).find((match) => match !== null)),
    progressed: (count) => until(() => progress.length >= count ? true : undefined).then(() => {}),
    call: async (name, input = {}, signal) => await (await tool(name)).execute(input, { ...callContext(signal), progress: (news) => { progress.push(news); tell() } })
  }
}

export const callContext = (signal = new AbortController().signal): ToolContext =>
  ({ toolCallId: 'call_1', execution: {}, runId: 'run_1', tenant: 't1', signal })

export const faulty = (behaviour = 'good', more: Partial<McpServerConfig> = {}): McpServerConfig => ({
  kind: 'stdio', name: 'faulty', command: process.execPath, args: [FAULTY, behaviour], env: { PATH: process.env.PATH ?? '' }, connectTimeoutMs: 10_000, timeoutMs: 5000, ...more
} as McpServerConfig)

export const textOf = ({ content }: ToolOutcome): string => content.map((block) => block.type === 'text' ? block.text : '').join('')
export const expectError = (outcome: ToolOutcome, words: string | RegExp): void => {
  if (typeof words === 'string') expect(textOf(outcome)).toBe(words)
  else expect(textOf(outcome)).toMatch(words)
  expect(outcome.isError).toBe(true)
}

/** Whether a process runs; one that nobody has reaped yet does not. */
export function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  const stat = `/proc/${pid}/stat`
  return !(existsSync(stat) && / Z /.test(readFileSync(stat, 'utf8')))
}
