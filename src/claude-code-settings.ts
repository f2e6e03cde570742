import { isAbsolute } from 'node:path'
import { readVariables, type ToolSource } from './tool-settings.ts'
import { below, given, MAX_TIMER_MS } from './settings.ts'

/** How the operator's own Claude Code CLI is driven, and where (http-api.md §9). */
export interface ClaudeCodeSettings {
  /** A name to look for in PATH, or an absolute path. */
  readonly command: string
  readonly args: readonly string[]
  /** Runs work at or under these directories. */
  readonly roots: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Which tools it may use when it asks: names, or beginnings that end in `*`. */
  readonly permissions: { readonly allow?: readonly string[], readonly deny?: readonly string[] }
  /** How long it may take to end once it is told to. */
  readonly graceMs: number
  /** What of the service's own environment it gets: nothing that could be a secret. */
  readonly inherited: Readonly<Record<string, string>>
}

const INHERITED = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|TERM|XDG_\w+)$/
/** What the provider itself sets. */
const TAKEN = ['SUBAGENTD_RUN', 'CLAUDE_CODE_FORWARD_SUBAGENT_TEXT']
const AT = 'providers.claudeCode'
const KEYS = ['command', 'args', 'roots', 'env', 'permissions', 'graceMs'] as const

type Environment = Readonly<Record<string, string | undefined>>

/** `providers.claudeCode` of the configuration file; `undefined` where it is absent. `environment` is the service's own. */
export function readClaudeCodeSettings (source: ToolSource, value: unknown, environment: Environment):
ClaudeCodeSettings | undefined {
  if (value === undefined) return undefined
  const entry = source.members(AT, value, KEYS)
  const permissions = source.members(below(AT, 'permissions'), entry.permissions, ['allow', 'deny'])
  return {
    command: readCommand(source, entry.command),
    args: source.texts(below(AT, 'args'), entry.args) ?? [],
    roots: readRoots(source, entry.roots),
    env: readEnv(source, entry.env),
    permissions: given({
      allow: readRules(source, 'allow', permissions.allow), deny: readRules(source, 'deny', permissions.deny)
    }),
    graceMs: source.integer(below(AT, 'graceMs'), entry.graceMs, { max: MAX_TIMER_MS }) ?? 5000,
    inherited: Object.fromEntries(Object.entries(environment).flatMap(([name, content]) =>
      content !== undefined && INHERITED.test(name) ? [[name, content] as const] : []))
  }
}

function readCommand (source: ToolSource, value: unknown): string {
  const key = below(AT, 'command')
  const command = source.text(key, value) ?? 'claude'
  if (command.includes('/') && !isAbsolute(command)) source.fault(key, 'must be an absolute path, or a name to look for in PATH')
  return command
}

function readRoots (source: ToolSource, value: unknown): string[] {
  const key = below(AT, 'roots')
  if (value === undefined) source.fault(key, 'is missing: the directories under which runs may work')
  const roots = source.texts(key, value) ?? []
  if (Array.isArray(value) && value.length === 0) source.fault(key, 'lists no directory')
  for (const [at, root] of roots.entries()) if (!isAbsolute(root)) source.fault(`${key}[${at}]`, 'must be an absolute path')
  return roots
}

function readEnv (source: ToolSource, value: unknown): Record<string, string> {
  const key = below(AT, 'env')
  const env = readVariables(source, key, value, [])
  for (const name of Object.keys(env)) {
    if (!/^[A-Za-z_]\w*$/.test(name)) source.fault(below(key, name), 'is no name of a variable')
    else if (TAKEN.includes(name)) source.fault(below(key, name), 'is set by the service itself')
  }
  return env
}

function readRules (source: ToolSource, name: 'allow' | 'deny', value: unknown): string[] | undefined {
  const key = below(below(AT, 'permissions'), name)
  const rules = source.texts(key, value)
  for (const [at, rule] of rules?.entries() ?? []) {
    if (/^([\w.:-]+\*?|\*)$/.test(rule)) continue
    source.fault(`${key}[${at}]`, 'must be a tool name, or the beginning of one with "*" after it')
  }
  return rules
}
