import { isObject } from '../../core/json.ts'
import type { Input } from './vocabulary.ts'

/** The longest line that is read (http-api.md: 8 MiB a line). */
export const MAX_LINE_BYTES = 8 * 1024 * 1024
/** So much of a longer one is kept, for the journal. */
const KEPT_BYTES = 1024

export interface LineReader {
  /** The lines that a piece of the CLI's output completes. */
  push (piece: Uint8Array): Input[]
  /** What stands behind the last line break. */
  end (): Input[]
}

/** A line as an input: a frame where it is one JSON object, else unreadable (A1). */
export function readLine (line: string): Input {
  try {
    const frame: unknown = JSON.parse(line)
    return isObject(frame) ? { type: 'frame', frame } : { type: 'unreadable', line }
  } catch {
    return { type: 'unreadable', line }
  }
}

/** Cuts output into lines, however it comes in pieces; each byte is looked at once. */
export function createLineReader (maxBytes = MAX_LINE_BYTES): LineReader {
  let pieces: Uint8Array[] = []
  let size = 0
  const add = (piece: Uint8Array): void => {
    if (piece.length > 0 && size <= maxBytes) pieces.push(size + piece.length <= maxBytes ? piece : piece.subarray(0, KEPT_BYTES))
    size += piece.length
  }
  const take = (): Input => {
    const whole = Buffer.concat(pieces)
    const input: Input = size <= maxBytes ? readLine(whole.toString('utf8')) : { type: 'unreadable', line: whole.subarray(0, KEPT_BYTES).toString('utf8') }
    pieces = []
    size = 0
    return input
  }
  return {
    push (piece) {
      const inputs: Input[] = []
      let from = 0
      for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
        add(piece.subarray(from, at))
        inputs.push(take())
        from = at + 1
      }
      // The piece is its owner's again once this returns.
      add(piece.slice(from))
      return inputs
    },
    end: () => size === 0 ? [] : [take()]
  }
}
