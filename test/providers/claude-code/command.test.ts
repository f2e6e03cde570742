import { expect, test } from 'vitest'
import { refuse, type Refusal } from '../../../src/core/errors.ts'
import type { ToolFilter } from '../../../src/core/run.ts'
import {
  approve, argumentsOf, decline, deny, environmentOf, interruptRequest, markerOf, stopTaskRequest, userLine
} from '../../../src/providers/claude-code/command.ts'

const protocol = argumentsOf({})
const more = (options: Parameters<typeof argumentsOf>[0]): string[] => argumentsOf(options).slice(protocol.length)

test('the CLI is told to speak frames both ways, whole and in pieces, and to ask its host', () => {
  expect(protocol.join(' ')).toBe('-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages ' +
    '--replay-user-messages --permission-prompt-tool stdio')
})

test('a run adds its model, session, persona and limit, and the operator the last arguments', () => {
  expect(more({ model: 'opus', sessionId: 's-1', persona: 'Be brief.\nVery.', maxTurns: 7, extra: ['--mcp-config', 'mcp.json'] })).toEqual([
    '--model', 'opus', '--resume', 's-1', '--append-system-prompt', 'Be brief.\nVery.', '--max-turns', '7', '--mcp-config', 'mcp.json'
  ])
})

test('a value of a run never becomes an option', () => {
  expect(more({ model: '--dangerously-skip-permissions', persona: '-p' })).toEqual(['--model=--dangerously-skip-permissions', '--append-system-prompt=-p'])
})

test('denied tools are taken away, under each name that the CLI has for them', () => {
  expect(more({ toolFilter: { deny: ['Bash', 'Task', 'mcp__docs__search'] } })).toEqual(['--disallowedTools', 'Bash,Agent,Task,mcp__docs__search'])
  expect(more({ toolFilter: { deny: [] } })).toEqual([])
})

test('allowed tools are the only ones: no other built-in one, and no MCP server', () => {
  expect(more({ toolFilter: { allow: ['Read', 'Grep'], deny: ['Grep'] } })).toEqual(['--tools', 'Read,Grep', '--strict-mcp-config', '--disallowedTools', 'Grep'])
  expect(more({ toolFilter: { allow: [] } })).toEqual(['--tools', '', '--strict-mcp-config'])
})

test.each<[string, ToolFilter, string]>([
  ['neither list', {}, 'toolFilter names neither allow nor deny'],
  ['a tool of a server', { allow: ['mcp__docs__search'] }, 'toolFilter.allow names "mcp__docs__search": with allow the tools of MCP servers are left out; use deny'],
  ['the word for all', { allow: ['default'] }, 'toolFilter.allow names "default", which Claude Code takes for all of its tools'],
  ...['Read,Bash', 'Bash(git:*)', 'Read Bash', '--dangerously-skip-permissions', '', '*', 'Re\nad'].flatMap((name): [string, ToolFilter, string][] => [
    [`allow ${name}`, { allow: ['Read', name] }, `toolFilter names "${name}", which is no tool name of Claude Code: letters, digits, "_" and "-"`],
    [`deny ${name}`, { deny: [name] }, `toolFilter names "${name}", which is no tool name of Claude Code: letters, digits, "_" and "-"`]
  ])
])('a filter that cannot be kept is refused: %s', (_, toolFilter, text) => {
  let thrown: Refusal | undefined
  try { argumentsOf({ toolFilter }) } catch (error) { thrown = error as Refusal }
  expect(thrown).toEqual(refuse('TOOL_FILTER_INVALID', { detail: text }))
})

test('the environment is what is inherited, what is configured, and what the provider needs, which nothing overrides (D8)', () => {
  expect(environmentOf({ inherited: { PATH: '/bin', HOME: '/home/a' }, env: { HOME: '/home/b', X: '1', SUBAGENTD_RUN: 'other' }, runId: 'run-1' }))
    .toEqual({ PATH: '/bin', HOME: '/home/b', X: '1', CLAUDE_CODE_FORWARD_SUBAGENT_TEXT: '1', SUBAGENTD_RUN: 'run-1' })
  expect(markerOf('run-1')).toBe('SUBAGENTD_RUN=run-1')
})

test('a text goes as it was typed, so that a command stays one; more blocks go as blocks (D1, D2)', () => {
  expect(userLine({ uuid: 'u', content: [{ type: 'text', text: '/probe two' }] }))
    .toEqual({ type: 'user', uuid: 'u', message: { role: 'user', content: '/probe two' }, parent_tool_use_id: null })
  expect(userLine({ uuid: 'u', content: [{ type: 'text', text: 'Look:' }, { type: 'image', data: 'AAAA', mimeType: 'image/png' }], priority: 'next' })).toEqual({
    type: 'user', uuid: 'u', parent_tool_use_id: null, priority: 'next',
    message: { role: 'user', content: [{ type: 'text', text: 'Look:' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] }
  })
  expect(userLine({ uuid: 'u', content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }], priority: 'now' })).toMatchObject({ priority: 'now', message: { content: [{ type: 'image' }] } })
})

test('requests and answers have the shapes that the CLI reads (A7, D5, D6)', () => {
  expect(interruptRequest('r')).toEqual({ type: 'control_request', request_id: 'r', request: { subtype: 'interrupt' } })
  expect(stopTaskRequest('r', 't')).toEqual({ type: 'control_request', request_id: 'r', request: { subtype: 'stop_task', task_id: 't' } })
  expect(approve('"r"', '{"n":-0}')).toBe('{"type":"control_response","response":{"subtype":"success","request_id":"\\"r\\"","response":{"behavior":"allow","updatedInput":{"n":-0}}}}')
  expect(deny('r', 'no')).toEqual({ type: 'control_response', response: { subtype: 'success', request_id: 'r', response: { behavior: 'deny', message: 'no' } } })
  expect(decline('r', 'hook_callback')).toEqual({ type: 'control_response', response: { subtype: 'error', request_id: 'r', error: 'this host does not answer "hook_callback" requests' } })
})
