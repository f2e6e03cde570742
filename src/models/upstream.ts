import type { ModelFailure, ModelStreamEvent } from '../core/model.ts'
import { failureOf, modelFault, thrownFault, UpstreamFault } from './faults.ts'
import type { ReplyDecoder } from './reply-parts.ts'

/** One call of a model server. */
export interface UpstreamCall {
  /** The full name of the model. */
  model: string
  endpoint: string
  secrets: readonly string[]
  decoder: ReplyDecoder
  /** How long the stream may stay open after the end of the message. */
  lingerMs: number
  /** Sends the request. The events are those of a server-sent stream; they are read only if the answer is one. */
  send (signal: AbortSignal): Promise<{ response: Response, events: AsyncIterable<unknown> }>
}

/**
 * Plays one call as the events of the `Model` port: deltas, then exactly one reply or failure. Throws nothing. When `signal`
 * aborts, or the reader leaves, the connection is closed at once; no listener stays on `signal` (driver.md 5.4).
 */
export async function * streamUpstream (call: UpstreamCall, signal: AbortSignal): AsyncGenerator<ModelStreamEvent, void, void> {
  const upstream = new AbortController()
  const stop = (): void => upstream.abort()
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  let complete = false
  try {
    const { response, events } = await call.send(upstream.signal)
    if (isEventStream(response)) {
      for await (const event of untilOver(events, call, stop)) {
        call.decoder.take(event)
        for (const delta of call.decoder.parts.drain()) yield delta
      }
    } else {
      call.decoder.takeWhole(wholeBody(await response.text()))
    }
    // The client libraries end an aborted stream quietly.
    if (signal.aborted) return yield { type: 'failure', failure: aborted(call) }
    complete = true
    yield * finish(call)
  } catch (error) {
    if (signal.aborted) return yield { type: 'failure', failure: aborted(call) }
    yield * broken(call, error)
  } finally {
    signal.removeEventListener('abort', stop)
    if (!complete) upstream.abort()
  }
}

/** The events to the end of the stream, which is closed where it stays open after that of the message. */
async function * untilOver (events: AsyncIterable<unknown>, { decoder, lingerMs }: UpstreamCall,
  close: () => void): AsyncGenerator<unknown, void, void> {
  const over = Promise.withResolvers<{ done: true, value: undefined }>()
  const iterator = events[Symbol.asyncIterator]()
  let timer: NodeJS.Timeout | undefined
  const end = (): void => {
    over.resolve({ done: true, value: undefined })
    close()
  }
  try {
    for (;;) {
      if (decoder.ended) timer ??= setTimeout(end, lingerMs)
      const { done, value } = await (timer ? Promise.race([over.promise, iterator.next()]) : iterator.next())
      if (done) return
      yield value
    }
  } finally {
    clearTimeout(timer)
    void iterator.return?.().catch(() => {})
  }
}

/** Whether the answer streams; a whole JSON answer will do. Throws an `UpstreamFault` for anything else. */
function isEventStream (response: Response): boolean {
  if (!response.body) throw modelFault('sent an empty answer', true)
  const type = response.headers.get('content-type')?.toLowerCase() ?? 'text/event-stream'
  if (type.startsWith('text/event-stream')) return true
  if (/^application\/([\w.-]+\+)?json\b/.test(type)) return false
  throw modelFault(`sent an answer of the wrong content type (${type})`, false)
}

function wholeBody (text: string): unknown {
  if (text.trim() === '') throw modelFault('sent an empty answer', true)
  try { return JSON.parse(text) } catch { throw modelFault('sent an answer that is not JSON', true) }
}

function * finish ({ decoder, model }: UpstreamCall): Generator<ModelStreamEvent, void, void> {
  const reply = decoder.reply()
  yield * decoder.parts.drain()
  yield { type: 'reply', reply: { ...reply, model } }
}

/** A connection that breaks after the end of the message has cost nothing of it. */
function * broken (call: UpstreamCall, error: unknown): Generator<ModelStreamEvent, void, void> {
  let reason = error
  if (call.decoder.ended && !(error instanceof UpstreamFault)) {
    try { return yield * finish(call) } catch (fault) { reason = fault }
  }
  yield * call.decoder.parts.drain()
  yield { type: 'failure', failure: failureOf(thrownFault(reason), call.endpoint, call.secrets) }
}

const aborted = ({ endpoint }: UpstreamCall): ModelFailure =>
  failureOf({ code: 'MODEL_ERROR', reason: 'was left: the call was aborted', retryable: false }, endpoint, [])
