import { RE2JS } from 're2js'

/** A regular expression that takes time linear in the text, whatever it is. */
export interface Pattern {
  test (text: string): boolean
  /** Distinct for each pattern: Ajv tells patterns apart by it. */
  toString (): string
  /** Grows with the work per character. */
  readonly size: number
}

const MAX_CHARS = 2000
const MAX_SIZE = 2500

/**
 * A pattern of a JSON schema (ECMAScript, searched for anywhere) on RE2. Look-aheads directly after a leading `^` are taken
 * apart, since they only add conditions; what else RE2 cannot do, and what is too large, throws an `Error` that says so.
 */
export function compilePattern (source: string): Pattern {
  const shown = JSON.stringify(source.length > 80 ? `${source.slice(0, 80)}…` : source)
  if (source.length > MAX_CHARS) throw new Error(`the pattern ${shown} is longer than ${MAX_CHARS} characters`)
  const { must, mustNot } = conditions(source)
  const wanted = must.map((part) => compile(part, shown))
  const unwanted = mustNot.map((part) => compile(part, shown))
  const size = [...wanted, ...unwanted].reduce((sum, part) => sum + part.programSize(), 0)
  if (size > MAX_SIZE) throw new Error(`the pattern ${shown} is too large: use smaller repeat counts`)
  return {
    test: (text) => wanted.every((part) => part.test(text)) && !unwanted.some((part) => part.test(text)),
    toString: () => `re2:${source}`,
    size
  }
}

function compile (source: string, shown: string): RE2JS {
  try {
    // An escaped surrogate pair is one character, as it is under the flag `u`.
    const whole = source.replaceAll(/\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/gi, (_, high: string, low: string) =>
      `\\u{${(0x10000 + ((parseInt(high, 16) & 0x3ff) << 10) + (parseInt(low, 16) & 0x3ff)).toString(16)}}`)
    return RE2JS.compile(RE2JS.translateRegExp(whole), /\(\?<[=!]/.test(whole) ? RE2JS.LOOKBEHINDS : 0)
  } catch (error) {
    throw new Error(`the pattern ${shown} cannot be used: ${reason(source, error as Error)}`, { cause: error })
  }
}

function reason (source: string, error: Error): string {
  if (/\(\?[=!]/.test(source)) return 'a look-ahead is only supported right after a leading ^'
  if (/\\[1-9]|\\k</.test(source)) return 'back-references are not supported'
  const said = error.message.replace(/^error parsing regexp: /, '')
  return said.length > 200 ? `${said.slice(0, 200)}…` : said
}

/** `^(?=A)(?!B)C` matches where `^(?:A)` and `^C` match and `^(?:B)` does not. */
function conditions (source: string): { must: string[], mustNot: string[] } {
  const must: string[] = []
  const mustNot: string[] = []
  let at = source.startsWith('^') ? 1 : 0
  while (at > 0 && /^\(\?[=!]/.test(source.slice(at, at + 3))) {
    const end = closing(source, at)
    if (end === -1 || /[*+?{]/.test(source.charAt(end + 1))) return { must: [source], mustNot: [] }
    const list = source[at + 2] === '=' ? must : mustNot
    list.push(`^(?:${source.slice(at + 3, end)})`)
    at = end + 1
  }
  if (must.length + mustNot.length === 0 || alternates(source.slice(at))) return { must: [source], mustNot: [] }
  must.push(`^${source.slice(at)}`)
  return { must, mustNot }
}

/** Walks over a pattern: calls `visit` for each character that is neither escaped nor in a class, until it answers true. */
function walk (source: string, from: number, visit: (char: string) => boolean): number {
  let inClass = false
  for (let at = from; at < source.length; at++) {
    const char = source.charAt(at)
    if (char === '\\') at++
    else if (inClass) inClass = char !== ']'
    else if (char === '[') inClass = true
    else if (visit(char)) return at
  }
  return -1
}

/** Where the group that opens at `from` closes; -1 when it does not. */
function closing (source: string, from: number): number {
  let open = 0
  return walk(source, from, (char) => {
    if (char === '(') open++
    return char === ')' && --open === 0
  })
}

function alternates (source: string): boolean {
  let open = 0
  return walk(source, 0, (char) => {
    if (char === '(') open++
    if (char === ')') open--
    return char === '|' && open === 0
  }) !== -1
}
