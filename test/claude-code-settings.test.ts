import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { ConfigError, loadConfig, type Config } from '../src/config.ts'
import { argumentsOf, environmentOf } from '../src/providers/claude-code/command.ts'
import { decide } from '../src/providers/claude-code/policy.ts'

const load = (claudeCode: unknown, env: Record<string, string> = {}): Config['providers']['claudeCode'] =>
  loadConfig({ CONFIG: 'c.yaml', ...env }, () => stringify({ providers: { claudeCode } })).providers.claudeCode

function faults (claudeCode: unknown): Record<string, string> {
  try {
    load(claudeCode)
  } catch (error) {
    if (error instanceof ConfigError) return Object.fromEntries(error.faults.map(({ key, detail }) => [key, detail]))
    throw error
  }
  return {}
}

test('without an entry there is no such provider; roots alone are enough for one', () => {
  expect(loadConfig({}, () => '').providers).not.toHaveProperty('claudeCode')
  expect(load({ roots: ['/srv'] })).toEqual({ command: 'claude', args: [], roots: ['/srv'], env: {}, permissions: {}, graceMs: 5000, inherited: {} })
})

test('every setting is taken, variables in env too', () => {
  const entry = {
    command: '/opt/claude', args: ['--mcp-config', '/etc/mcp.json'], roots: ['/srv', '/home/x'], env: { ANTHROPIC_API_KEY: '${CLAUDE_KEY}', LEVEL: 'is 1' },
    permissions: { allow: ['Read', 'mcp__docs__*', '*'], deny: ['Bash'] }, graceMs: 0
  }
  expect(load(entry, { CLAUDE_KEY: 'sk-1' })).toEqual({ ...entry, env: { ANTHROPIC_API_KEY: 'sk-1', LEVEL: 'is 1' }, inherited: {} })
})

test('of the service\'s environment only the harmless part is handed on (D8)', () => {
  const harmless = { PATH: '/bin', HOME: '/h', USER: 'u', LOGNAME: 'l', SHELL: '/sh', LANG: 'C', LC_ALL: 'C', LC_CTYPE: 'C', TZ: 'UTC', TMPDIR: '/t', TERM: 'dumb', XDG_CONFIG_HOME: '/x' }
  const other = { OPENAI_API_KEY: 'sk-2', DATABASE_URL: 'sqlite::memory:', NODE_OPTIONS: '--no-warnings', MY_PATH: '/m', PATHS: 'p', XDG: 'x', path: '/p' }
  expect(load({ roots: ['/srv'] }, { ...harmless, ...other })?.inherited).toEqual(harmless)
})

test('every bad value is named with its path', () => {
  expect(faults({})).toEqual({ 'providers.claudeCode.roots': 'is missing: the directories under which runs may work' })
  expect(faults({ roots: [] })).toEqual({ 'providers.claudeCode.roots': 'lists no directory' })
  expect(faults(null)).toEqual({ 'providers.claudeCode': 'must be a map', 'providers.claudeCode.roots': expect.any(String) })
  expect(faults({
    command: 'bin/claude', args: 'x', roots: ['/ok', 'not/ok', '~'], env: { 'A-B': 'x', N: 1, M: '${NOT_SET}', SUBAGENTD_RUN: 'r', CLAUDE_CODE_FORWARD_SUBAGENT_TEXT: '0' },
    permissions: { allow: ['Bash(git:*)', 'Re*ad', 'Read'], deny: 'Bash', ask: [] }, graceMs: -1, timeout: 5
  })).toEqual({
    'providers.claudeCode.command': 'must be an absolute path, or a name to look for in PATH',
    'providers.claudeCode.args': 'must be a list of texts',
    'providers.claudeCode.roots[1]': 'must be an absolute path',
    'providers.claudeCode.roots[2]': 'must be an absolute path',
    'providers.claudeCode.env.A-B': 'is no name of a variable',
    'providers.claudeCode.env.N': 'must be a text',
    'providers.claudeCode.env.M': 'the variable NOT_SET is not set',
    'providers.claudeCode.env.SUBAGENTD_RUN': 'is set by the service itself',
    'providers.claudeCode.env.CLAUDE_CODE_FORWARD_SUBAGENT_TEXT': 'is set by the service itself',
    'providers.claudeCode.permissions.allow[0]': 'must be a tool name, or the beginning of one with "*" after it',
    'providers.claudeCode.permissions.allow[1]': 'must be a tool name, or the beginning of one with "*" after it',
    'providers.claudeCode.permissions.deny': 'must be a list of texts',
    'providers.claudeCode.permissions.ask': 'is not known; known here: allow, deny',
    'providers.claudeCode.graceMs': 'must be an integer from 0 to 2147483647',
    'providers.claudeCode.timeout': 'is not known; known here: command, args, roots, env, permissions, graceMs'
  })
})

test('what is read fits what the provider takes', () => {
  const settings = load({ roots: ['/srv'], args: ['--x'], permissions: { allow: ['Read'] }, env: { A: '1' } }, { PATH: '/bin' })
  if (!settings) throw new Error('no settings')
  expect(argumentsOf({ extra: settings.args }).at(-1)).toBe('--x')
  expect(environmentOf({ ...settings, runId: 'r' })).toMatchObject({ PATH: '/bin', A: '1', SUBAGENTD_RUN: 'r' })
  expect(decide(settings.permissions, undefined, 'Read')).toEqual({ allowed: true })
})
