import type { FastifyReply } from 'fastify'

/** A request's life: one AbortController a request (http-api.md §3). */
export interface Life {
  /** Aborts when the client went away before its answer was complete. */
  readonly gone: AbortSignal
  /** Aborts then, and when the service closes: what waits or streams ends. */
  readonly over: AbortSignal
  /** How it ended: the answer went out, the client went away, or we closed the connection. */
  readonly done: Promise<'answered' | 'gone' | 'closed'>
  /** From here on the end of the connection is our doing. */
  closeOurselves (): void
}

/** Makes lives that end with `closing`; one listener serves all of them. */
export function createLives (closing: AbortSignal): (reply: FastifyReply) => Life {
  const open = new Set<AbortController>()
  closing.addEventListener('abort', () => {
    for (const over of open) over.abort(closing.reason)
  }, { once: true })

  return (reply) => {
    const gone = new AbortController()
    const over = new AbortController()
    const { promise: done, resolve } = Promise.withResolvers<'answered' | 'gone' | 'closed'>()
    let ours = false
    const answered = () => { if (open.delete(over)) resolve('answered') }
    const closed = () => {
      if (!open.delete(over)) return
      if (ours || closing.aborted) {
        over.abort(closing.reason)
        return resolve('closed')
      }
      const reason = new Error('the client went away')
      gone.abort(reason)
      over.abort(reason)
      resolve('gone')
    }
    open.add(over)
    reply.raw.once('finish', answered)
    reply.raw.once('close', closed)
    if (reply.raw.destroyed) closed()
    if (closing.aborted) over.abort(closing.reason)
    return { gone: gone.signal, over: over.signal, done, closeOurselves: () => { ours = true } }
  }
}
