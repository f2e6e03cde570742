import { setImmediate as turn } from 'node:timers/promises'
import { outcome, refuse } from '../../core/errors.ts'
import type { FrameIntake, FrameSink } from '../../core/live.ts'
import type { Chat } from './chat.ts'
import type { ChatWriter } from './chat-writer.ts'
import { createLineReader, MAX_LINE_BYTES, type LineReader, type ReadLine } from './lines.ts'

/** A batch makes one write, and has a turn of the event loop: so many lines at most, so many frames among them, and so long a reading. */
const MOST_LINES = 1024
const MOST_FRAMES = 128
const MOST_MS = 8

export interface IntakeOptions {
  chat: Chat
  writer: ChatWriter
  /** Why no more is taken; `undefined` while the chat is open. */
  closed: () => ReturnType<typeof refuse> | undefined
}

/**
 * The way in for the output of a CLI that its host runs. Lines count from 0 over the whole output; those that are known are
 * skipped, so that several requests, one of them half dead, do no harm.
 */
export const createIntake = (options: IntakeOptions): FrameIntake => ({
  async open (from) {
    const reason = options.closed()
    const isKnown = from <= options.writer.lines
    // What is known may be said again, of a host that did not hear that it is.
    if (reason && !(isKnown && reason.code === 'RUN_SETTLED')) throw reason
    if (!isKnown) throw refuse('FRAME_GAP', { expected: options.writer.lines })
    return new IntakeSink(options, from)
  }
})

class IntakeSink implements FrameSink {
  readonly #options: IntakeOptions
  readonly #reader: LineReader = createLineReader()
  /** Number of the next line of this body. */
  #next: number
  /** The write before the last: one may be under way while the next is prepared. */
  #before: Promise<unknown> = Promise.resolve()

  constructor (options: IntakeOptions, from: number) {
    this.#options = options
    this.#next = from
  }

  async push (piece: Uint8Array): Promise<void> {
    await this.#take(this.#reader.read(piece))
    // One that never ends would be read for ever.
    if (this.#reader.isTooLong) await this.#refuseLong(this.#next)
  }

  async end (last: boolean): Promise<number> {
    const { chat, writer, closed } = this.#options
    await this.#take(this.#reader.end())
    if (last && !closed()) {
      // The end may come again, of a host that did not hear the answer.
      if (this.#next === writer.lines) chat.take([{ input: { type: 'end' } }])
      else throw refuse('FRAME_GAP', { expected: writer.lines })
    }
    const { lines } = writer
    await writer.written()
    return lines
  }

  async #take (lines: Iterable<ReadLine>): Promise<void> {
    let batch: ReadLine[] = []
    let frames = 0
    let began = performance.now()
    for (const line of lines) {
      batch.push(line)
      if (line.input.type === 'frame') frames++
      if (batch.length < MOST_LINES && frames < MOST_FRAMES && performance.now() - began < MOST_MS) continue
      await this.#hand(batch)
      await turn()
      batch = []
      frames = 0
      began = performance.now()
    }
    await this.#hand(batch)
  }

  /** To the chat, while the batch before the last one may still be written. */
  async #hand (lines: readonly ReadLine[]): Promise<void> {
    const taken = this.#fresh(lines)
    if (taken.length === 0) return
    const { chat, writer, closed } = this.#options
    const reason = closed()
    if (reason) throw reason
    const long = taken.findIndex(({ cut }) => cut)
    if (long !== 0) feed(chat, long === -1 ? taken : taken.slice(0, long))
    const written = writer.written()
    await this.#before
    this.#before = written
    if (long !== -1) await this.#refuseLong(writer.lines)
  }

  async #refuseLong (line: number): Promise<never> {
    await this.#options.writer.written()
    throw refuse('PAYLOAD_TOO_LARGE', { limit: MAX_LINE_BYTES, line })
  }

  /** Those that nobody brought before. */
  #fresh (lines: readonly ReadLine[]): readonly ReadLine[] {
    const first = this.#next
    this.#next += lines.length
    return lines.slice(Math.min(lines.length, Math.max(0, this.#options.writer.lines - first)))
  }
}

/** A fault of ours ends the chat with the line that met it: to take that line again would only meet it again. */
function feed (chat: Chat, lines: readonly ReadLine[]): void {
  try {
    chat.take(lines)
  } catch (error) {
    const failed = outcome('INTERNAL', 'internal error')
    chat.failed ??= failed
    chat.take([{ input: { type: 'end', error: failed } }])
    throw error
  }
}
