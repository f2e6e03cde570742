import { refuse } from '../../core/errors.ts'
import type { Block } from '../../core/events.ts'
import type { ToolFilter } from '../../core/run.ts'

/** Which tools the CLI may use when it asks: names, or beginnings of names that end in `*`. */
export interface Permissions { readonly allow?: readonly string[], readonly deny?: readonly string[] }

export type Verdict = { allowed: true } | { allowed: false, text: string }

/** The CLI calls one tool by two names. */
const ALIASES = ['Agent', 'Task']
export const namesOf = (tool: string): readonly string[] => ALIASES.includes(tool) ? ALIASES : [tool]

/**
 * The answer to a `can_use_tool` request (A7): what is denied is denied, then the run's own filter narrows, then a rule must
 * allow it. The text of a denial names tool and rule; the CLI's model reads it.
 */
export function decide (permissions: Permissions, filter: ToolFilter | undefined, tool: string): Verdict {
  const names = namesOf(tool)
  const matching = (rules: readonly string[] | undefined): string | undefined =>
    rules?.find((rule) => names.some((name) => matches(rule, name)))
  const listed = (list: readonly string[] | undefined): boolean => list?.some((name) => names.includes(name)) ?? false
  const refused = (why: string): Verdict => ({ allowed: false, text: `tool "${tool}" is not permitted: ${why}` })
  const denied = matching(permissions.deny)
  if (denied !== undefined) return refused(`the operator's permissions deny "${denied}"`)
  if (listed(filter?.deny)) return refused('the toolFilter of this run denies it')
  if (filter?.allow && !listed(filter.allow)) return refused('the toolFilter of this run does not allow it')
  return matching(permissions.allow) === undefined ? refused("the operator's permissions do not allow it") : { allowed: true }
}

/** Whether a run's filter leaves a tool out. */
export function isLeftOut (filter: ToolFilter | undefined, tool: string): boolean {
  const names = namesOf(tool)
  const listed = (list: readonly string[] | undefined): boolean => list?.some((name) => names.includes(name)) ?? false
  return listed(filter?.deny) || (filter?.allow !== undefined && !listed(filter.allow))
}

const COMMAND = 'a text that begins with "/" is a command to Claude Code, and what tools such a one may use is not told before it has run: ' +
  'no toolFilter can be held; put it in other words, or start without a filter'

/** Throws `INVALID_REQUEST` where a run with a filter would be given what the CLI may take for a typed command. */
export function checkNoCommand (filter: ToolFilter | undefined, content: readonly Block[], pointer: '/task' | '/content'): void {
  if (filter === undefined || !content.some((block) => block.type === 'text' && block.text.trimStart().startsWith('/'))) return
  throw refuse('INVALID_REQUEST', { detail: COMMAND, errors: [{ pointer, detail: COMMAND }] })
}

const matches = (rule: string, name: string): boolean => rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : rule === name
