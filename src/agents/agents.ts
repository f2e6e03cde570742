import { messageOf } from '../core/errors.ts'
import type { ToolFilter } from '../core/run.ts'
import { ConfigError, NAME, NAME_RULE, type SettingFault } from '../settings.ts'
import { readFrontMatter, type FrontMatter } from './front-matter.ts'

/** An agent that the deployment names: what a start takes of it where it says nothing itself (http-api.md §2). */
export interface NamedAgent {
  readonly name: string
  readonly description: string
  readonly persona?: string
  readonly toolFilter?: ToolFilter
  readonly model?: string
  readonly maxDepth?: number
  /** What else its file says; of no meaning here. */
  readonly extra: Readonly<Record<string, unknown>>
}

export interface AgentFiles {
  /** The names in a folder. */
  readDir: (path: string) => readonly string[]
  readFile: (path: string) => string
}

const TOOL_NAME = /^[\w-]{1,64}$/

/**
 * The agents of a folder (http-api.md §9, `AGENTS_DIR`), by name: each a Markdown file whose front matter has `name` and
 * `description`, and may have `tools`, `disallowedTools`, `model` and `maxDepth`; the body is the persona. Throws a `ConfigError`
 * with every fault of every file, each with its line. Hidden files and other kinds of files are passed over.
 */
export function loadAgents (dir: string, { readDir, readFile }: AgentFiles): NamedAgent[] {
  const faults: SettingFault[] = []
  const attempt = <T>(key: string, read: () => T): T | undefined => {
    try {
      return read()
    } catch (error) {
      faults.push({ key, detail: `cannot be read: ${messageOf(error)}` })
      return undefined
    }
  }
  const names = attempt(`AGENTS_DIR (${dir})`, () => readDir(dir)) ?? []
  const agents = new Map<string, { agent: NamedAgent, file: string }>()
  for (const file of names.filter((name) => /^[^.].*\.md$/i.test(name)).toSorted()) {
    const text = attempt(file, () => readFile(`${dir}/${file}`))
    const read = text === undefined ? undefined : readAgent(text, (line, detail) => { faults.push({ key: `${file}:${line}`, detail }) })
    if (!read) continue
    const other = agents.get(read.agent.name)
    if (other) faults.push({ key: `${file}:${read.line}`, detail: `the name "${read.agent.name}" is taken by ${other.file}` })
    else agents.set(read.agent.name, { agent: read.agent, file })
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return [...agents.values()].map(({ agent }) => agent).toSorted((a, b) => a.name < b.name ? -1 : 1)
}

type Fault = (line: number, detail: string) => void

function readAgent (text: string, fault: Fault): { agent: NamedAgent, line: number } | undefined {
  const matter = readFrontMatter(text)
  if ('faults' in matter) {
    for (const { line, detail } of matter.faults) fault(line, detail)
    return undefined
  }
  const { name, description, tools, disallowedTools, model, maxDepth, ...extra } = matter.values
  const bad = (key: string, detail: string): undefined => fault(matter.lineOf(key), `${key} ${detail}`) as undefined
  const text1 = (key: string, value: unknown): string | undefined =>
    typeof value === 'string' && value.trim() !== '' ? value.trim() : bad(key, value === undefined ? 'is missing' : 'must be a text that is not empty')
  const named = text1('name', name)
  const isName = named === undefined || NAME.test(named) || bad('name', `must be ${NAME_RULE}`)
  const described = text1('description', description)
  const allow = readTools(matter, 'tools', tools, bad)
  const deny = readTools(matter, 'disallowedTools', disallowedTools, bad)
  const chosen = model === undefined ? undefined : text1('model', model)
  const depth = readDepth(maxDepth, bad)
  if (named === undefined || !isName || described === undefined) return undefined
  const agent: NamedAgent = {
    name: named,
    description: described,
    extra,
    ...(matter.body === '' ? {} : { persona: matter.body }),
    ...(allow || deny ? { toolFilter: { ...(allow ? { allow } : {}), ...(deny ? { deny } : {}) } } : {}),
    // The convention's word for what is the rule here.
    ...(chosen === undefined || chosen === 'inherit' ? {} : { model: chosen }),
    ...(depth === undefined ? {} : { maxDepth: depth })
  }
  return { agent, line: matter.lineOf('name') }
}

type Bad = (key: string, detail: string) => undefined

/** A list, or one text with commas. Nothing at all could mean all tools or none, so it is refused. */
function readTools (matter: FrontMatter, key: string, value: unknown, bad: Bad): string[] | undefined {
  if (!Object.hasOwn(matter.values, key)) return undefined
  const list = typeof value === 'string' ? value.split(',').map((name) => name.trim()).filter((name) => name !== '') : value
  if (value === null || (typeof value === 'string' && (list as string[]).length === 0)) {
    return bad(key, 'says nothing: leave it out to change nothing, or write [] for no tool')
  }
  if (!Array.isArray(list) || !list.every((name) => typeof name === 'string')) return bad(key, 'must be a list of names, or names with commas between them')
  const odd = list.filter((name) => !TOOL_NAME.test(name))
  if (odd.length > 0) return bad(key, `has what is no name of a tool: ${odd.map((name) => `"${name}"`).join(', ')}`)
  return [...new Set(list)]
}

function readDepth (value: unknown, bad: Bad): number | undefined {
  if (value === undefined) return undefined
  const isDepth = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)
  return isDepth ? value : bad('maxDepth', 'must be a whole number of at least 0')
}
