import type { Cut } from './messages.ts'

/** As much of a text as fits into the bytes of UTF-8. The text may itself be only the beginning of `length` characters. */
export function cutText (text: string, length: number, bytes: number): Cut {
  if (text.length === length && text.length * 3 <= bytes) return { text, missing: 0 }
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(0, bytes)))
  return { text: text.slice(0, read), missing: length - read }
}
