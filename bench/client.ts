import { Pool } from 'undici'

/** Just enough of a host: undici, kept-alive connections, JSON. */
export interface Client {
  /** Throws unless the answer is 2xx. */
  post<T = Run> (path: string, body: unknown, headers?: Record<string, string>): Promise<T>
  get<T = Run> (path: string): Promise<T>
  /** The answer's body as it streams in. */
  stream (path: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>>
  close (): Promise<void>
}

/** The parts of a run, and of its result, that the benchmark reads. */
export interface Run {
  id: string
  status: string
  stopReason: string | null
  seed: { events: number }
  result?: { stopReason: string }
}

export function createClient (url: string, connections: number): Client {
  const pool = new Pool(url, { connections, pipelining: 1, headersTimeout: 120_000, bodyTimeout: 120_000 })
  const call = async <T>(method: 'GET' | 'POST', path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> => {
    const content = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await pool.request({ method, path, headers: { ...body === undefined ? {} : { 'content-type': 'application/json' }, ...headers }, ...content })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text.slice(0, 500)}`)
    return JSON.parse(text) as T
  }
  return {
    post: (path, body, headers) => call('POST', path, body, headers),
    get: (path) => call('GET', path),
    async stream (path, signal) {
      const answer = await pool.request({ method: 'GET', path, headers: { accept: 'text/event-stream' }, ...signal === undefined ? {} : { signal } })
      if (answer.statusCode !== 200) throw new Error(`GET ${path}: ${answer.statusCode} ${await answer.body.text()}`)
      return answer.body
    },
    close: () => pool.destroy()
  }
}

const WAIT = { prefer: 'wait=50' }

/** Starts a run and waits for its result. Throws unless it completed. */
export async function runToEnd (client: Client, body: Record<string, unknown>, headers: Record<string, string> = {}): Promise<Run> {
  const run = await client.post('/v1/runs', body, { ...WAIT, ...headers })
  if (run.stopReason !== 'completed') throw new Error(`run ${run.id} is ${run.status}, ${run.stopReason}`)
  return run
}

/** Waits for the result of a run that was started. */
export const settled = (client: Client, id: string): Promise<{ stopReason: string }> => client.get(`/v1/runs/${id}/result?wait=50`)

/** A scripted model that waits, then answers; one that never answers. */
export const slow = (delayMs: number): Record<string, unknown> => scripted([{ slow: { text: 'x', delayMs } }])
export const hanging = (): Record<string, unknown> => scripted([{ hang: true }])
export const scripted = (script: unknown[]): Record<string, unknown> => ({ task: 'hello', agentOptions: { model: 'scripted/demo', script } })

/** Calls `work` `count` times, `width` at once. */
export async function inParallel (count: number, width: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0
  await Promise.all(Array.from({ length: Math.min(width, count) }, async () => {
    while (next < count) await work(next++)
  }))
}

/** Milliseconds of each of `count` calls, one after another. */
export async function timed (count: number, work: (index: number) => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const begun = performance.now()
    await work(i)
    times.push(performance.now() - begun)
  }
  return times
}

/** The events of a stream. */
export async function * eventsOf (body: AsyncIterable<Uint8Array>): AsyncGenerator<{ event: string, data: string }> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const field = (name: string): string => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? ''
      yield { event: field('event'), data: field('data') }
    }
  }
}
