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
  const refuse = (why: string): Verdict => ({ allowed: false, text: `tool "${tool}" is not permitted: ${why}` })
  const denied = matching(permissions.deny)
  if (denied !== undefined) return refuse(`the operator's permissions deny "${denied}"`)
  if (listed(filter?.deny)) return refuse('the toolFilter of this run denies it')
  if (filter?.allow && !listed(filter.allow)) return refuse('the toolFilter of this run does not allow it')
  return matching(permissions.allow) === undefined ? refuse("the operator's permissions do not allow it") : { allowed: true }
}

/** Whether a run's filter leaves a tool out. */
export function isLeftOut (filter: ToolFilter | undefined, tool: string): boolean {
  const names = namesOf(tool)
  const listed = (list: readonly string[] | undefined): boolean => list?.some((name) => names.includes(name)) ?? false
  return listed(filter?.deny) || (filter?.allow !== undefined && !listed(filter.allow))
}

const matches = (rule: string, name: string): boolean => rule.endsWith('*') ? name.startsWith(rule.slice(0, -1)) : rule === name
