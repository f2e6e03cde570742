/** Past so many values a line is the journal's alone: to read it would keep everybody waiting. The CLI's longest lines are long strings. */
export const MOST_VALUES = 40_000
/** A shorter line cannot have so many. */
const LIGHT_CHARS = MOST_VALUES

/** Whether a line, where it is JSON, has more values, with names counted, than are read in one go. Looks no further than it must. */
export function isHeavy (line: string): boolean {
  if (line.length < LIGHT_CHARS) return false
  let values = 0
  for (let at = 0; at < line.length; at++) {
    const char = line.charCodeAt(at)
    if (char === 0x22) {
      at = endOfString(line, at)
      if (at === -1) return false
    } else if (char === 0x2c || char === 0x3a || char === 0x5b || char === 0x7b) {
      if (++values > MOST_VALUES) return true
    }
  }
  return false
}

/** Where the string that begins at `start` ends; -1 where it does not. Each backslash is looked at once: those before a quote. */
function endOfString (line: string, start: number): number {
  for (let end = line.indexOf('"', start + 1); end !== -1; end = line.indexOf('"', end + 1)) {
    let slashes = 0
    while (line.charCodeAt(end - 1 - slashes) === 0x5c) slashes++
    if (slashes % 2 === 0) return end
  }
  return -1
}
