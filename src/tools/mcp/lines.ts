const NEW_LINE = 10

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
