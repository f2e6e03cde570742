const MAX_LINE = 4096
const NEW_LINE = 10

/** Takes pieces of a text and gives its lines, the long ones in parts; an unfinished last line is not given. */
export function createLineReader (onLine: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder()
  let rest = ''
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/)
    rest = lines.pop() ?? ''
    for (; rest.length > MAX_LINE; rest = rest.slice(MAX_LINE)) lines.push(rest.slice(0, MAX_LINE))
    for (const line of lines) {
      for (let at = 0; at < line.length; at += MAX_LINE) if (line.trim() !== '') onLine(line.slice(at, at + MAX_LINE))
    }
  }
}

/** The whole lines of a stream, each at most so long; the pieces of an unfinished one are put together once. */
export class LineBuffer {
  readonly #maxBytes: number
  #pieces: Buffer[] = []
  #size = 0

  constructor (maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** The lines that this chunk completes, empty ones left out; `undefined` once a line is too long. */
  take (chunk: Buffer): string[] | undefined {
    const lines: string[] = []
    let from = 0
    for (let at = chunk.indexOf(NEW_LINE); at !== -1; at = chunk.indexOf(NEW_LINE, from)) {
      if (!this.#add(chunk.subarray(from, at))) return undefined
      const line = Buffer.concat(this.#pieces).toString('utf8').trimEnd()
      if (line !== '') lines.push(line)
      this.#pieces = []
      this.#size = 0
      from = at + 1
    }
    return this.#add(chunk.subarray(from)) ? lines : undefined
  }

  #add (piece: Buffer): boolean {
    this.#size += piece.length
    if (this.#size <= this.#maxBytes) this.#pieces.push(piece)
    else this.#pieces = []
    return this.#size <= this.#maxBytes
  }
}
