import { refuse } from '../../core/errors.ts'
import type { Block } from '../../core/events.ts'
import type { ToolFilter } from '../../core/run.ts'
import { namesOf } from './policy.ts'
import type { RequestId } from './vocabulary.ts'

export interface CommandOptions {
  model?: string
  /** The CLI's own session to go on with. */
  sessionId?: string
  persona?: string
  maxTurns?: number
  toolFilter?: ToolFilter
  /** The operator's own arguments, last. */
  extra?: readonly string[]
}

const PROTOCOL = [
  '-p', '--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose', '--include-partial-messages',
  '--replay-user-messages', '--permission-prompt-tool', 'stdio'
]

/** The arguments of the CLI. Throws `TOOL_FILTER_INVALID` for a filter that it cannot keep. */
export const argumentsOf = ({ model, sessionId, persona, maxTurns, toolFilter, extra = [] }: CommandOptions): string[] => [
  ...PROTOCOL,
  ...option('--model', model),
  ...option('--resume', sessionId),
  ...option('--append-system-prompt', persona),
  ...option('--max-turns', maxTurns?.toString()),
  ...filterArguments(toolFilter),
  ...extra
]

/** A value that looks like an option must not become one. */
const option = (name: string, value: string | undefined): string[] =>
  value === undefined ? [] : value.startsWith('-') ? [`${name}=${value}`] : [name, value]

/** What the CLI takes for a list, a pattern or an option is no name. */
const TOOL_NAME = /^[A-Za-z_][\w-]*$/

function filterArguments (filter: ToolFilter | undefined): string[] {
  if (filter === undefined) return []
  const { allow, deny } = filter
  const invalid = (detail: string): Error => refuse('TOOL_FILTER_INVALID', { detail })
  if (allow === undefined && deny === undefined) throw invalid('toolFilter names neither allow nor deny')
  for (const name of [...allow ?? [], ...deny ?? []]) {
    if (TOOL_NAME.test(name)) continue
    throw invalid(`toolFilter names "${name}", which is no tool name of Claude Code: letters, digits, "_" and "-"`)
  }
  for (const name of allow ?? []) {
    const at = `toolFilter.allow names "${name}"`
    if (name.startsWith('mcp__')) throw invalid(`${at}: with allow the tools of MCP servers are left out; use deny`)
    if (/^default$/i.test(name)) throw invalid(`${at}, which Claude Code takes for all of its tools`)
  }
  return [
    ...(allow ? ['--tools', allow.join(','), '--strict-mcp-config'] : []),
    ...(deny && deny.length > 0 ? ['--disallowedTools', [...new Set(deny.flatMap(namesOf))].join(',')] : [])
  ]
}

/** By this entry the next start of the service knows a process that its last one left (leftovers.ts). */
export const markerOf = (runId: string): string => `${MARKER}=${runId}`
export const isMarker = (entry: string): boolean => entry.startsWith(`${MARKER}=`)
const MARKER = 'SUBAGENTD_RUN'

/** The whole environment of the process (D8): `inherited` is the allowed part of the service's own, `env` the operator's. */
export const environmentOf = ({ inherited, env, runId }: {
  inherited: Readonly<Record<string, string>>, env: Readonly<Record<string, string>>, runId: string
}): Record<string, string> => ({ ...inherited, ...env, CLAUDE_CODE_FORWARD_SUBAGENT_TEXT: '1', [MARKER]: runId })

export interface UserLine { uuid: string, content: readonly Block[], priority?: 'next' | 'now' }

/** A message to the CLI (D1, D2). */
export const userLine = ({ uuid, content, priority }: UserLine): object => ({
  type: 'user', uuid, message: { role: 'user', content: contentOf(content) }, parent_tool_use_id: null,
  ...(priority ? { priority } : {})
})

/** One text goes as it was typed, for it may be a command. */
function contentOf (blocks: readonly Block[]): unknown {
  const [first] = blocks
  if (blocks.length === 1 && first?.type === 'text') return first.text
  return blocks.map((block) => block.type === 'text'
    ? { type: 'text', text: block.text }
    : { type: 'image', source: { type: 'base64', media_type: block.mimeType, data: block.data } })
}

export const interruptRequest = (id: string): object => controlRequest(id, { subtype: 'interrupt' })
/** Ends one task: a child (D6). */
export const stopTaskRequest = (id: string, taskId: string): object =>
  controlRequest(id, { subtype: 'stop_task', task_id: taskId })
const controlRequest = (id: string, request: object): object => ({ type: 'control_request', request_id: id, request })

/** The answers to a `can_use_tool` request (A7). The input, a JSON text, goes back as it came: the line is a text too. */
export const approve = (requestId: RequestId, input: string): string =>
  `{"type":"control_response","response":{"subtype":"success","request_id":${JSON.stringify(requestId)},` +
  `"response":{"behavior":"allow","updatedInput":${input}}}}`
export const deny = (requestId: RequestId, text: string): object =>
  controlResponse({ subtype: 'success', request_id: requestId, response: { behavior: 'deny', message: text } })
/** The answer to every other request. */
export const decline = (requestId: RequestId, subtype: string): object =>
  controlResponse({ subtype: 'error', request_id: requestId, error: `this host does not answer "${subtype}" requests` })
const controlResponse = (response: object): object => ({ type: 'control_response', response })
