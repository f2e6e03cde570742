import { setTimeout as delay } from 'node:timers/promises'
import { readEvents, type SseEvent } from '../support/sse.ts'
import type { Town } from './town.ts'

// eslint-disable-next-line typescript/no-explicit-any
export interface Answer { status: number, body: any, text: string }
/** A log event as a reader got it. */
export interface Seen { runId: string, seq: number, type: string, data: unknown }
/** A reader that comes again after each crash with the last id it got. */
export interface Reader { readonly id: string, readonly tree: boolean, readonly events: Seen[], readonly done: Promise<string>, tries: number }

/** What the service told its host before a crash; all of it must hold after. */
export interface Acknowledged {
  runs: Set<string>
  results: { id: string, body: Record<string, unknown> }[]
  cancels: Set<string>
  answers: { id: string, toolCallId: string, content: string }[]
  messages: { id: string, messageId: string }[]
  deleted: Set<string>
}

/** A host program that calls the service, keeps what it was told, and calls again after a crash. */
export interface Host {
  readonly told: Acknowledged
  readonly readers: Reader[]
  readonly town: Town
  /** Calls until it is answered; whatever was asked may then have been asked more than once. */
  call (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** Calls once; `undefined` where the connection was lost. */
  tryCall (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer | undefined>
  /** Starts a run under a key, as often as it takes; the run, which from here on must be found. */
  start (key: string, body: object, headers?: Record<string, string>): Promise<string>
  /** Reads the run's events from now to its end; `start`: the body of a streaming start with this id, made as often as it takes. */
  follow (id: string, options?: { tree?: boolean, start?: object }): Reader
  /** The result, once there is one; what waits for the host is answered on the way. */
  result (id: string, answerTo?: (name: string, toolCallId: string) => string): Promise<Record<string, unknown>>
}

/** No request of a run this small takes longer, unless something stalls. */
const STALL_MS = 25_000

export function createHost (town: Town): Host {
  const told: Acknowledged = { runs: new Set(), results: [], cancels: new Set(), answers: [], messages: [], deleted: new Set() }
  const readers: Reader[] = []

  async function once (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer | undefined> {
    const { life, url } = await town.now()
    try {
      const response = await fetch(url + path, {
        method, signal: AbortSignal.timeout(STALL_MS),
        headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await response.text()
      const isJson = /json/.test(response.headers.get('content-type') ?? '')
      if (response.status !== 503) return { status: response.status, text, body: isJson ? JSON.parse(text) : undefined }
    } catch (error) {
      if ((error as Error).name === 'TimeoutError') throw new Error(`${method} ${path} was not answered in ${STALL_MS} ms`, { cause: error })
    }
    await Promise.race([life.ended, delay(STALL_MS, undefined, { ref: false }).then(() => {
      throw new Error(`${method} ${path} found no service, though it lives`)
    })])
    return undefined
  }

  const host: Host = {
    told,
    readers,
    town,
    tryCall: once,
    async call (...args) {
      for (;;) {
        const answer = await once(...args)
        if (answer) return answer
      }
    },
    async start (key, body, headers = {}) {
      const answer = await host.call('POST', '/v1/runs', body, { 'idempotency-key': key, ...headers })
      if (answer.status !== 201 && answer.status !== 200) throw new Error(`the start of ${key} was answered ${answer.status}: ${answer.text}`)
      const { id } = answer.body as { id: string }
      told.runs.add(id)
      return id
    },
    follow (id, { tree = false, start } = {}) {
      const reader: Reader = { id, tree, events: [], tries: 0, done: Promise.resolve('') }
      Object.assign(reader, { done: read(town, reader, told, start) })
      readers.push(reader)
      return reader
    },
    async result (id, answerTo) {
      for (;;) {
        const { status, body, text } = await host.call('GET', `/v1/runs/${id}/result?wait=10`)
        if (status === 200) {
          told.results.push({ id, body: body as Record<string, unknown> })
          return body as Record<string, unknown>
        }
        if (status !== 202) throw new Error(`the result of ${id} was answered ${status}: ${text}`)
        const [pending] = (body as { pendingToolCalls: { toolCallId: string, name: string }[] }).pendingToolCalls
        if (pending && answerTo) await answerCall(host, id, pending.toolCallId, answerTo(pending.name, pending.toolCallId))
      }
    }
  }
  return host
}

async function answerCall (host: Host, id: string, toolCallId: string, content: string): Promise<void> {
  const { status, text } = await host.call('POST', `/v1/runs/${id}/tool-results`, { results: [{ toolCallId, content }] })
  if (status !== 200) throw new Error(`the answer to ${toolCallId} was answered ${status}: ${text}`)
  host.told.answers.push({ id, toolCallId, content })
}

/** Reads to the end of the stream, over as many connections and lives as it takes. Resolves with how it ended. */
async function read (town: Town, reader: Reader, told: Acknowledged, start?: object): Promise<string> {
  let cursor: string | undefined
  for (;;) {
    const { life, url } = await town.now()
    reader.tries++
    try {
      const isStart = start !== undefined && !told.runs.has(reader.id)
      const sent = isStart
        ? await readEvents({ url }, '/v1/runs', { method: 'POST', body: start })
        : await readEvents({ url }, reader.id, { tree: reader.tree, ...(cursor === undefined ? {} : { lastEventId: cursor }) })
      if (isStart && sent.status === 409) {
        told.runs.add(reader.id)
        continue
      }
      if (sent.status === 204) return 'ended'
      if (sent.status === 404) return 'gone'
      if (sent.status === 200 || sent.status === 201) {
        for (let event = await sent.next(); event !== undefined; event = await sent.next()) {
          if (event.event === 'run') told.runs.add((event.data.data as { id: string }).id)
          if (event.id === undefined) continue
          cursor = event.id
          reader.events.push(seenOf(event))
          if (event.event !== 'settled') continue
          sent.leave()
          return 'settled'
        }
      }
    } catch {
      // The connection was lost: the next life has the rest.
    }
    await Promise.race([life.ended, delay(200)])
  }
}

const seenOf = ({ event, data }: SseEvent): Seen => {
  const { runId, seq, data: inner } = data as Seen
  return { runId, seq, type: event === 'settled' ? 'run/settled' : event, data: inner }
}
