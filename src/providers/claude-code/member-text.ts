import { isObject } from '../../core/json.ts'
import type { Frame } from './vocabulary.ts'

/**
 * The text of a member of a JSON object, as it stands in the object's own: parsed and printed again, numbers and what nests deep
 * would not be what they were. Of members of one name the last, as `JSON.parse` has it; `undefined`: there is none. `json` is valid.
 */
export function memberText (json: string, name: string): string | undefined {
  let depth = 0
  let isName = true
  let key: string | undefined
  let from = 0
  let found: string | undefined
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at)
    if (char === QUOTE) {
      const start = at
      at = closingQuote(json, at)
      if (depth === 1 && isName) key = JSON.parse(json.slice(start, at + 1)) as string
    } else if (char === OPEN_OBJECT || char === OPEN_ARRAY) depth++
    else if (depth === 1 && char === COLON) {
      from = at + 1
      isName = false
    } else if (depth === 1 && (char === COMMA || char === CLOSE_OBJECT)) {
      if (!isName && key === name) found = json.slice(from, at).trim()
      isName = true
    }
    if (char === CLOSE_OBJECT || char === CLOSE_ARRAY) depth--
  }
  return found
}

const [QUOTE, BACKSLASH, COLON, COMMA, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] =
  [0x22, 0x5c, 0x3a, 0x2c, 0x7b, 0x7d, 0x5b, 0x5d]

function closingQuote (json: string, opening: number): number {
  let at = opening + 1
  while (json.charCodeAt(at) !== QUOTE) at += json.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

/** What a `can_use_tool` request asks to call the tool with, as the CLI wrote it (A7). `line`: the whole request, where it came as a text. */
export function askedInput ({ request }: Frame, line: string | undefined): string {
  const own = line === undefined ? JSON.stringify(isObject(request) ? request['input'] : undefined) as string | undefined
    : memberText(memberText(line, 'request') ?? '', 'input')
  return own ?? '{}'
}
