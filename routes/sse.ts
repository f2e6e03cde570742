import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Life } from './lives.ts'

/** How often a silent stream shows that it lives (http-api.md 6.4). */
export const HEARTBEAT_MS = 15_000
/** A reader that takes nothing for so long, not even a comment, is cut off. */
const STALL_MS = 60_000

export interface Frame { id?: string, event: string, data: string }

/** One event of the WHATWG text; `data` is JSON on one line. */
export const frame = ({ id, event, data }: Frame): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`

/**
 * The stream's text: the first byte at once, each batch of frames as one chunk, a comment when nothing came for a while.
 * The next batch is taken only when the reader took the last: a slow one costs no memory.
 */
export async function * eventText<T> (
  batches: AsyncIterable<T[]>, toText: (item: T) => string, heartbeatMs = HEARTBEAT_MS
): AsyncGenerator<string> {
  const iterator = batches[Symbol.asyncIterator]()
  let wake = () => {}
  let beat = false
  const timer = setInterval(() => { beat = true; wake() }, heartbeatMs)
  let settled: { result: IteratorResult<T[]> } | { error: unknown } | undefined
  const ask = () => {
    settled = undefined
    iterator.next().then((result) => { settled = { result }; wake() }, (error: unknown) => { settled = { error }; wake() })
  }
  const answer = (): typeof settled => settled
  try {
    yield 'retry: 1000\n\n'
    ask()
    for (;;) {
      if (answer() === undefined && !beat) await new Promise<void>((resolve) => { wake = resolve })
      const now = answer()
      if (now === undefined) {
        beat = false
        yield ': still here\n\n'
        continue
      }
      if ('error' in now) throw now.error
      if (now.result.done) return
      ask()
      beat = false
      yield now.result.value.map(toText).join('')
    }
  } finally {
    clearInterval(timer)
    void iterator.return?.().catch(() => {})
  }
}

/**
 * Answers with an event stream. A fault on the way ends the connection, as does a reader that stalls, by us: the reader comes
 * again with its cursor.
 */
export function sendEvents<T> (
  reply: FastifyReply, life: Life, batches: AsyncIterable<T[]>, toText: (item: T) => string,
  { heartbeatMs = HEARTBEAT_MS, stallMs = STALL_MS } = {}
): FastifyReply {
  async function * guarded (): AsyncGenerator<string> {
    try {
      yield * eventText(batches, toText, heartbeatMs)
    } catch (error) {
      life.closeOurselves()
      reply.log.error({ err: error }, 'an event stream failed')
      throw error
    }
  }
  reply.raw.setTimeout(stallMs, () => {
    life.closeOurselves()
    reply.raw.destroy()
  })
  return reply
    .type('text/event-stream')
    .header('cache-control', 'no-store')
    .header('x-accel-buffering', 'no')
    .send(Readable.from(guarded(), { objectMode: false, highWaterMark: 65_536 }))
}
