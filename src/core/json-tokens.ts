/** Looks at pieces of a JSON text where they stand; nothing here copies more of it than a number. */

export const isDigit = (char: number): boolean => char >= 0x30 && char <= 0x39

function hexDigit (char: number): number {
  if (isDigit(char)) return char - 0x30
  const letter = char | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** What may follow a backslash, but for `u`. */
function isEscape (char: number): boolean {
  switch (char) {
    case 0x22: case 0x2f: case 0x5c: case 0x62: case 0x66: case 0x6e: case 0x72: case 0x74: return true
    default: return false
  }
}

/** The code unit that the escape at `at` stands for, 1 for one of a single letter; negative when it is none. */
export function escapeAt (text: string, at: number): number {
  const char = text.charCodeAt(at + 1)
  if (char !== 0x75) return isEscape(char) ? 1 : -1
  let unit = 0
  for (let i = at + 2; i < at + 6; i++) {
    const digit = hexDigit(text.charCodeAt(i))
    if (digit < 0) return -1
    unit = unit * 16 + digit
  }
  return unit
}

/** How long the second half of a surrogate pair at `at` is, as it is or escaped; 0 where there is none. */
export function lowAt (text: string, at: number): number {
  const char = text.charCodeAt(at)
  if (char !== 0x5c) return isLow(char) ? 1 : 0
  const unit = escapeAt(text, at)
  return unit > 0 && isLow(unit) ? 6 : 0
}

const isLow = (unit: number): boolean => (unit & 0xfc00) === 0xdc00

/** What a JavaScript number makes of this one, where that is not what it says. */
export function numberFault (text: string, mayBeLong: boolean): string | undefined {
  const value = Number(text)
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
  if (Object.is(value, -0)) return `${shown} is negative zero, which does not survive; send 0`
  if (!Number.isFinite(value)) return `${shown} is too large for a number`
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER && !mayBeLong) return `${shown} is past 2^53-1 and would lose digits; send it as a string`
  return undefined
}

/** Line and column of a place, counted: of a text of line breaks alone, its lines would take 40 times its memory. */
export function placeIn (text: string, end: number): { line: number, column: number } {
  let line = 1
  let start = 0
  for (let at = 0; at < end; at++) {
    const char = text.charCodeAt(at)
    if (char !== 0x0a && char !== 0x0d) continue
    if (char === 0x0d && at + 1 < end && text.charCodeAt(at + 1) === 0x0a) continue
    line++
    start = at + 1
  }
  return { line, column: end - start + 1 }
}
