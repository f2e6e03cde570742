import { isObject } from '../../core/json.ts'
import { isHeavy } from './line-weight.ts'
import type { Input } from './vocabulary.ts'

/** The longest line that is read (http-api.md: 8 MiB a line). */
export const MAX_LINE_BYTES = 8 * 1024 * 1024
/** So much of a longer one is kept, for the journal. */
const KEPT_BYTES = 1024

/** A line, and what it is to the normalizer. `cut`: it was longer than the longest, and only its beginning is there. */
export interface ReadLine { line: string, input: Input, cut: boolean }

export interface LineReader {
  /** The lines that a piece of the CLI's output completes. */
  push (piece: Uint8Array): ReadLine[]
  /** The same, each read when it is asked for; all of them have to be. */
  read (piece: Uint8Array): Iterable<ReadLine>
  /** What stands behind the last line break. */
  end (): ReadLine[]
  /** The line under way is longer than the longest already. */
  readonly isTooLong: boolean
}

/** A line as an input: a frame where it is one JSON object that is not too much to read, else unreadable (A1). */
export function readLine (line: string): Input {
  // An error costs as much as a hundred blank lines.
  if (!/^[ \t\r]*\{/.test(line) || isHeavy(line)) return { type: 'unreadable', line }
  try {
    const frame: unknown = JSON.parse(line)
    return isObject(frame) ? { type: 'frame', frame, line } : { type: 'unreadable', line }
  } catch {
    return { type: 'unreadable', line }
  }
}

/** A line's beginning is kept in a buffer of this size at least, and the buffer between lines where it is no larger. */
const ROOM = 65_536

/** Cuts output into lines, however it comes in pieces; a piece is its owner's again once it was taken. */
export function createLineReader (maxBytes = MAX_LINE_BYTES): LineReader {
  /** The line under way, up to the longest. Grows by doubling: many tiny pieces cost no more than their bytes. */
  let kept = Buffer.alloc(0)
  let size = 0
  const add = (piece: Uint8Array): void => {
    const from = Math.min(size, maxBytes)
    size += piece.length
    const to = Math.min(size, maxBytes)
    if (to > kept.length) {
      const grown = Buffer.allocUnsafe(Math.max(to, Math.min(2 * kept.length, maxBytes), ROOM))
      kept.copy(grown, 0, 0, from)
      kept = grown
    }
    kept.set(piece.subarray(0, to - from), from)
  }
  const take = (): ReadLine => {
    const cut = size > maxBytes
    const line = kept.toString('utf8', 0, cut ? Math.min(KEPT_BYTES, maxBytes) : size)
    size = 0
    if (kept.length > ROOM) kept = Buffer.alloc(0)
    return { line, cut, input: cut ? { type: 'unreadable', line } : readLine(line) }
  }
  function * read (piece: Uint8Array): Iterable<ReadLine> {
    let from = 0
    for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
      add(piece.subarray(from, at))
      yield take()
      from = at + 1
    }
    add(piece.subarray(from))
  }
  return {
    get isTooLong () { return size > maxBytes },
    push: (piece) => [...read(piece)],
    read,
    end: () => size === 0 ? [] : [take()]
  }
}
