import type { Service } from './service.ts'

/** One event as a reader of the WHATWG text gets it. `id` is the frame's own; `lastEventId` what a browser would send back. */
// eslint-disable-next-line typescript/no-explicit-any
export interface SseEvent { event: string, data: any, id?: string, lastEventId: string }

/** A parser of the WHATWG event stream format, fed in pieces of any size. */
export function createSseParser () {
  const comments: string[] = []
  let rest = ''
  let lastEventId = ''
  let retry: number | undefined
  let frame: { event: string, data: string[], id?: string } = { event: '', data: [] }

  function takeLine (line: string): SseEvent[] {
    if (line === '') return dispatch()
    if (line.startsWith(':')) {
      comments.push(line.slice(1).trim())
      return []
    }
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (field === 'event') frame.event = value
    else if (field === 'data') frame.data.push(value)
    else if (field === 'id' && !value.includes('\0')) frame.id = lastEventId = value
    else if (field === 'retry' && /^\d+$/.test(value)) retry = Number(value)
    return []
  }

  function dispatch (): SseEvent[] {
    const { event, data, id } = frame
    frame = { event: '', data: [] }
    if (data.length === 0) return []
    return [{
      event: event === '' ? 'message' : event, data: JSON.parse(data.join('\n')), lastEventId, ...(id === undefined ? {} : { id })
    }]
  }

  return {
    comments,
    get retry () { return retry },
    push (text: string): SseEvent[] {
      const lines = (rest + text).split(/\r\n|\n|\r(?!$)/)
      rest = lines.pop() ?? ''
      return lines.flatMap(takeLine)
    }
  }
}

export interface EventReader {
  status: number
  headers: Headers
  parser: ReturnType<typeof createSseParser>
  /** The next event; `undefined` at the end of the stream. */
  next (): Promise<SseEvent | undefined>
  /** Reads up to and with the first event that matches, or to the end. */
  until (matches: (event: SseEvent) => boolean): Promise<SseEvent[]>
  all (): Promise<SseEvent[]>
  /** The bytes as they come; for readers that read no events. */
  chunk (): Promise<string | undefined>
  leave (): void
}

export interface ReadOptions { after?: string, lastEventId?: string, tree?: boolean, method?: 'GET' | 'POST', body?: unknown }

/** Opens an event stream over a real socket. `path` is a run's id, or a path. */
export async function readEvents (service: Pick<Service, 'url'>, path: string, options: ReadOptions = {}): Promise<EventReader> {
  const { after, lastEventId, tree = false, method = 'GET', body } = options
  const url = new URL(path.startsWith('/') ? path : `/v1/runs/${path}/events`, service.url)
  if (after !== undefined) url.searchParams.set('after', after)
  if (tree) url.searchParams.set('tree', 'true')
  const controller = new AbortController()
  const response = await fetch(url, {
    method,
    signal: controller.signal,
    headers: {
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' })
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return { status: response.status, headers: response.headers, leave: () => controller.abort(), ...reading(response) }
}

function reading (response: Response): Pick<EventReader, 'parser' | 'next' | 'until' | 'all' | 'chunk'> {
  const parser = createSseParser()
  const decoder = new TextDecoder()
  const bytes = response.body?.getReader()
  const events: SseEvent[] = []
  const chunk = async (): Promise<string | undefined> => {
    const { done, value } = await bytes?.read() ?? { done: true, value: undefined }
    return done ? undefined : decoder.decode(value, { stream: true })
  }
  const next = async (): Promise<SseEvent | undefined> => {
    while (events.length === 0) {
      const text = await chunk()
      if (text === undefined) return undefined
      events.push(...parser.push(text))
    }
    return events.shift()
  }
  const until: EventReader['until'] = async (matches) => {
    const read: SseEvent[] = []
    for (let event = await next(); event !== undefined; event = await next()) {
      read.push(event)
      if (matches(event)) break
    }
    return read
  }
  return { parser, next, until, chunk, all: () => until(() => false) }
}

/** The events that stand in the log: those with an id. */
export const logged = (events: readonly SseEvent[]): SseEvent[] => events.filter(({ id }) => id !== undefined)
export const named = (events: readonly SseEvent[], name: string): SseEvent[] => events.filter(({ event }) => event === name)
/** What a log event is known by, whichever way it was read. */
export const placeOf = ({ data }: SseEvent): string => `${data.runId} ${data.seq} ${data.type}`
