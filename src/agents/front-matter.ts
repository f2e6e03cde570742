import { parseYaml } from '../yaml.ts'
import { messageOf } from '../core/errors.ts'
import { isObject } from '../core/json.ts'

/** The head of a Markdown file as values, and its body. Lines are those of the file, from 1. */
export interface FrontMatter {
  values: Record<string, unknown>
  body: string
  lineOf (key: string): number
}
export interface FrontMatterFault { line: number, detail: string }

/** Reads what stands between two lines of `---` at the very start of a text; YAML, a map. */
export function readFrontMatter (text: string): FrontMatter | { faults: FrontMatterFault[] } {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  if (lines[0]?.trimEnd() !== '---') return fault(1, 'must begin with front matter: a line "---", name and description, and another line "---"')
  const end = lines.findIndex((line, at) => at > 0 && line.trimEnd() === '---')
  if (end === -1) return fault(1, 'has no second line "---" to end its front matter')
  const head = lines.slice(1, end).join('\n')
  const strict = parseYaml(head)
  const source = strict.errors.length === 0 ? head : withQuotedTexts(head)
  const document = source === head ? strict : parseYaml(source)
  if (document.errors.length > 0) {
    const faults = strict.errors.map(({ message, linePos }) => ({ line: (linePos?.[0].line ?? 0) + 1, detail: firstLine(message) }))
    // The first fault of a line makes the others.
    return { faults: faults.filter(({ line }, at) => faults.findIndex((one) => one.line === line) === at) }
  }
  let values: unknown
  try {
    values = document.toJS() ?? {}
  } catch (error) {
    return fault(2, messageOf(error))
  }
  if (!isObject(values)) return fault(2, 'its front matter must be a map')
  return {
    values,
    body: lines.slice(end + 1).join('\n').trim(),
    lineOf (key) {
      const node = document.get(key, true) as { range?: [number, number, number] | null } | undefined
      const offset = node?.range?.[0]
      return offset === undefined ? 1 : source.slice(0, offset).split('\n').length + 1
    }
  }
}

/**
 * Files of the convention have descriptions with colons in them, which are no YAML and which its readers take as they stand: such
 * a line's text is quoted.
 */
const withQuotedTexts = (head: string): string => head.replaceAll(/^([A-Za-z][\w-]*:[ \t]+)([^\s"'[{|>&*!%@`#].*:(?:[ \t].*)?)$/gm,
  (_, key: string, value: string) => `${key}${JSON.stringify(value.trimEnd())}`)

const fault = (line: number, detail: string): { faults: FrontMatterFault[] } => ({ faults: [{ line, detail }] })
/** The parser's messages show the place below; the line says it. */
const firstLine = (message: string): string => message.split('\n', 1)[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? message
