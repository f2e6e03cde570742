import type { Block } from './events.ts'

/**
 * A text within `maxBytes` of UTF-8: whole where it fits, else its head and its tail around a mark that says how much is
 * missing. Cuts between characters; what is left of a broken one is replaced. A pure function, so that the same log gives the
 * same request (driver.md 2.6). Below the size of the mark itself only the mark is left.
 */
export function cutText (text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text
  const total = utf8Length(text)
  if (total <= maxBytes) return text
  // The mark is longest when everything is missing, so what it says never makes the text too long.
  const room = Math.max(0, maxBytes - markOf(total, total).length)
  const head = headLength(text, Math.ceil(room * HEAD_SHARE))
  const kept = utf8Length(text.slice(0, head))
  const tail = tailLength(text, Math.min(room - kept, total - kept))
  const shown = kept + utf8Length(text.slice(text.length - tail))
  return `${text.slice(0, head)}${markOf(total - shown, total)}${text.slice(text.length - tail)}`.toWellFormed()
}

/**
 * Blocks whose texts together fit `maxBytes`; images are not counted and stay. The longest texts are cut to one common size, so
 * that no text is cut that is shorter than what is left of another. Answers the same array where nothing is cut.
 */
export function cutBlocks (blocks: Block[], maxBytes: number): Block[] {
  const sizes = blocks.flatMap((block) => block.type === 'text' ? [utf8Length(block.text)] : [])
  if (sizes.reduce((sum, size) => sum + size, 0) <= maxBytes) return blocks
  const share = commonShare(sizes, maxBytes)
  if (share < LEAST_SHARE) return cutJoined(blocks, maxBytes)
  return blocks.map((block) => block.type === 'text' ? { ...block, text: cutText(block.text, share) } : block)
}

/** Many short texts: a mark in each would say more than they do, so they are cut as one. */
const LEAST_SHARE = 256

const cutJoined = (blocks: readonly Block[], maxBytes: number): Block[] => [
  { type: 'text', text: cutText(blocks.flatMap((block) => block.type === 'text' ? [block.text] : []).join('\n'), maxBytes) },
  ...blocks.filter((block) => block.type !== 'text')
]

const HEAD_SHARE = 2 / 3

const markOf = (missing: number, total: number): string => `\n[... ${missing} of ${total} bytes are missing here ...]\n`

/** The largest size to which all can be cut so that their sum stays within `max`. */
function commonShare (sizes: readonly number[], max: number): number {
  let left = max
  const ascending = sizes.toSorted((a, b) => a - b)
  for (const [at, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - at))
    if (size > share) return share
    left -= size
  }
  return max
}

/** Bytes of a text in UTF-8; half a surrogate pair counts as the replacement character it becomes. */
export function utf8Length (text: string): number {
  let bytes = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) bytes += 1
    else if (unit < 0x800) bytes += 2
    else if (isPairAt(text, at)) {
      bytes += 4
      at++
    } else bytes += 3
  }
  return bytes
}

const isPairAt = (text: string, at: number): boolean =>
  (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00

/** How many units from the start fit `maxBytes`. */
function headLength (text: string, maxBytes: number): number {
  let at = 0
  for (let left = maxBytes; at < text.length;) {
    const units = isPairAt(text, at) ? 2 : 1
    left -= utf8Length(text.slice(at, at + units))
    if (left < 0) break
    at += units
  }
  return at
}

/** How many units up to the end fit `maxBytes`. */
function tailLength (text: string, maxBytes: number): number {
  let from = text.length
  for (let left = maxBytes; from > 0;) {
    const units = from > 1 && isPairAt(text, from - 2) ? 2 : 1
    left -= utf8Length(text.slice(from - units, from))
    if (left < 0) break
    from -= units
  }
  return text.length - from
}
