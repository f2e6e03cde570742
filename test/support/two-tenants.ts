import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { App } from '../../src/app.ts'
import { createKeyRing, sha256, type KeyRing } from '../../src/keys.ts'

/**
 * TEST_TENANTS=2 runs a test as two tenants at once (http-api.md 8.1). Each request of the test is tenant A's; tenant B makes the same
 * one at the same time against its own copies: the ids that the host chose, the idempotency keys, labels and metadata are the same,
 * the ids that the service gave are B's own. Besides, B tries whatever A got an id of. A's test must not notice, and B must not see.
 */

const KEYS = { a: 'key-of-tenant-a', b: 'key-of-tenant-b' } as const
/** A is the tenant that tests ask the store for. */
const TENANTS = { a: 'default', b: 'other' } as const
const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi
const JSON_TYPE = { 'content-type': 'application/json' }

export interface TwoTenants {
  readonly keys: KeyRing
  /** From here on every request of the app is followed. */
  follow (app: App, url: () => string): void
  /** The app as a test of one tenant sees it: B's runs are not among those that live. */
  view (app: App): App
  /** Ends what B still has. Throws what B saw. */
  end (): Promise<void>
}

interface Asked { method: string, path: string, body: string, headers: Record<string, string> }
interface Answered { status: number, text: string }

/** `copies`: whether B starts runs of its own; else it only tries what is A's. */
export function createTwoTenants (copies: boolean): TwoTenants {
  const faults: string[] = []
  const keys = createKeyRing({
    path: 'keys.yaml', now: Date.now, watch: () => () => {}, onFault: (error) => { throw error },
    readFile: () => JSON.stringify((['a', 'b'] as const).map((who) =>
      ({ id: who, sha256: sha256(KEYS[who]).toString('hex'), tenant: TENANTS[who], scopes: ['read', 'write', 'metrics'] })))
  })
  const state: State = { copies, faults, url: () => '', own: new Map(), known: new Set(), started: new Set(), work: new Set(), ending: false, line: Promise.resolve() }
  return {
    keys,
    follow (app, url) {
      state.url = url
      app.http.server.prependListener('request', (asked: IncomingMessage, answer: ServerResponse) => { tap(state, asked, answer) })
    },
    view: (app) => ({
      ...app,
      registry: new Proxy(app.registry, {
        get: (registry, name) => {
          const value: unknown = Reflect.get(registry, name)
          return name === 'liveRuns' ? () => registry.liveRuns().filter(({ tenant }) => tenant === TENANTS.a) : value
        }
      })
    }),
    async end () {
      state.ending = true
      for (let left = [...state.work]; left.length > 0; left = [...state.work]) await Promise.all(left)
      await Promise.all([...state.known].map((id) => probe(state, id)))
      await Promise.all([...state.started].map((id) => send(state, { method: 'POST', path: `/v1/runs/${id}/cancel?wait=10`, body: '{}', headers: JSON_TYPE })))
      if (faults.length > 0) throw new Error(`tenant B saw what is not its own:\n${[...new Set(faults)].join('\n')}`)
    }
  }
}

interface State {
  copies: boolean
  faults: string[]
  url: () => string
  /** B's id for each that the service gave to A. */
  own: Map<string, string>
  /** Every id that is A's alone. */
  known: Set<string>
  /** B's runs. */
  started: Set<string>
  work: Set<Promise<unknown>>
  ending: boolean
  /** B's requests, one after the other as A's came. */
  line: Promise<unknown>
}

/** Makes a request without a key A's, and has B follow it. */
function tap (state: State, asked: IncomingMessage, answer: ServerResponse): void {
  if (asked.headers.authorization !== undefined || state.ending) return
  asked.headers.authorization = `Bearer ${KEYS.a}`
  const sent = collect(asked, 'push')
  const got = collect(answer, 'write', 'end')
  const done = Promise.withResolvers<Answered | undefined>()
  answer.once('close', () => {
    const isJson = /json/.test(String(answer.getHeader('content-type')))
    done.resolve(answer.writableFinished && isJson ? { status: answer.statusCode, text: got() } : undefined)
  })
  // A stream may go on for ever; its head says which run it is of.
  answer.once('pipe', () => {
    const [id] = String(answer.getHeader('location')).match(ID) ?? []
    done.resolve(id === undefined ? undefined : { status: answer.statusCode, text: JSON.stringify({ id }) })
  })
  const { method = 'GET', url: path = '/', headers } = asked
  const arrived = Promise.withResolvers<undefined>()
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) arrived.resolve(undefined)
  asked.once('end', () => arrived.resolve(undefined))
  answer.once('close', () => arrived.resolve(undefined))
  const kept = ['content-type', 'content-encoding', 'idempotency-key'].flatMap((name) => typeof headers[name] === 'string' ? [[name, headers[name]] as const] : [])
  const work = arrived.promise.then(() => followed(state, { method, path, body: sent(), headers: Object.fromEntries(kept) }, done.promise))
  state.work.add(work)
  void work.catch((error: unknown) => state.faults.push(`B's request failed: ${String(error)}`)).finally(() => state.work.delete(work))
}

/** Keeps the text that goes through some methods of a stream. */
function collect (stream: object, ...methods: string[]): () => string {
  const chunks: Buffer[] = []
  const owner = stream as Record<string, (...args: unknown[]) => unknown>
  for (const name of methods) {
    const real = owner[name]?.bind(stream)
    owner[name] = (...args) => {
      const [chunk] = args
      if (typeof chunk === 'string' || chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk as string))
      return real?.(...args)
    }
  }
  return () => Buffer.concat(chunks).toString('latin1')
}

const idOf = ({ text }: Answered): string | undefined => {
  try {
    const { id } = JSON.parse(text) as { id?: unknown }
    return typeof id === 'string' ? id : undefined
  } catch {
    return undefined
  }
}
const isStart = ({ method, path }: Asked): boolean => method === 'POST' && /^\/v1\/(runs|sessions)(\?|$)/.test(path)
const chosenIn = ({ body }: Asked): Set<string> => new Set((body.match(ID) ?? []).map((id) => id.toLowerCase()))

/** B's own request at the time of A's, and then B at what A got. */
async function followed (state: State, asked: Asked, done: Promise<Answered | undefined>): Promise<void> {
  const before = state.line
  const copied = (async () => {
    await before
    return state.copies ? await copy(state, asked) : undefined
  })()
  // What B does comes in A's order, as it would in a test of its own.
  state.line = copied.catch(() => {})
  const mine = await copied
  if (!isStart(asked)) return
  const theirs = await done
  const id = theirs && theirs.status < 300 ? idOf(theirs)?.toLowerCase() : undefined
  if (theirs && mine && Math.floor(theirs.status / 100) !== Math.floor(mine.status / 100) && theirs.status < 500) {
    state.faults.push(`${asked.method} ${asked.path} was ${theirs.status} for A and ${mine.status} for B: ${mine.text.slice(0, 300)}`)
  }
  const own = mine && mine.status < 300 ? idOf(mine) : undefined
  if (own !== undefined && asked.path.startsWith('/v1/runs')) state.started.add(own)
  if (id === undefined || chosenIn(asked).has(id)) return
  if (own !== undefined) state.own.set(id, own)
  state.known.add(id)
  await probe(state, id)
}

/** The request as B's own: at its own ids, waiting for nothing, answered in JSON. */
async function copy (state: State, asked: Asked): Promise<Answered> {
  const own = (text: string): string => text.replaceAll(ID, (id) => state.own.get(id.toLowerCase()) ?? id)
  const path = own(asked.path).replaceAll(/([?&])wait=\d+&?/g, '$1')
  const answer = await send(state, { ...asked, path, body: own(asked.body) })
  check(state, { ...asked, path }, answer)
  return answer
}

/** Nothing that is A's may stand in an answer to B, unless B said it. */
function check (state: State, asked: Asked, answer: Answered): void {
  if (answer.status >= 500 && answer.status !== 503) state.faults.push(`${asked.method} ${asked.path} was ${answer.status}: ${answer.text}`)
  const said = new Set(`${asked.path} ${asked.body}`.toLowerCase().match(ID))
  for (const id of new Set(answer.text.toLowerCase().match(ID))) {
    if (state.known.has(id) && !said.has(id)) state.faults.push(`${asked.method} ${asked.path} told B of ${id}: ${answer.text.slice(0, 300)}`)
  }
}

const TRIES: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['GET', ''], ['GET', '/result'], ['GET', '/result?format=anthropic&toolCallId=x'], ['GET', '/events'], ['GET', '/events?tree=true'], ['GET', '/tree'],
  ['POST', '/cancel', { reason: 'B' }], ['POST', '/tool-results', { results: [{ toolCallId: 'call_1', content: 'from B' }] }],
  ['POST', '/messages', { content: 'from B' }]
]

/** Whatever B does to a thing of A's: there is no such thing. */
async function probe (state: State, id: string): Promise<void> {
  const go = async (method: string, path: string, body?: object): Promise<Answered> => {
    const asked = { method, path, body: body ? JSON.stringify(body) : '', headers: body ? JSON_TYPE : {} }
    const answer = await send(state, asked)
    check(state, asked, answer)
    return answer
  }
  const expectNone = async (method: string, path: string, body?: object): Promise<void> => {
    const { status, text } = await go(method, path, body)
    if (status !== 404) state.faults.push(`${method} ${path} of A's was ${status} for B: ${text.slice(0, 300)}`)
  }
  await Promise.all([
    ...TRIES.map(([method, path, body]) => expectNone(method, `/v1/runs/${id}${path}`, body)),
    expectNone('GET', `/v1/sessions/${id}`),
    expectNone('POST', `/v1/sessions/${id}/messages`, { after: 0, messages: [{ role: 'user', content: 'from B' }] }),
    // A start takes a place, and of a service that has few of them A wants all.
    ...!state.copies ? [] : [{ runId: id }, { sessionId: id }].map((parent) => expectNone('POST', '/v1/runs', { task: 'a', provider: 'fork', parent })),
    go('DELETE', `/v1/runs/${id}`), go('DELETE', `/v1/sessions/${id}`),
    ...['limit=200', `root=${id}`, `parent=${id}`].map((query) => go('GET', `/v1/runs?${query}`))
  ])
  const { text } = await go('POST', '/v1/runs/cancel', { ids: [id] })
  if (text !== '{"matched":0}') state.faults.push(`POST /v1/runs/cancel of A's ${id} told B: ${text}`)
}

function send (state: State, { method, path, body, headers }: Asked): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const sent = request(state.url() + path, { method, agent: false, headers: { ...headers, authorization: `Bearer ${KEYS.b}` } }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => { chunks.push(chunk) })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
      answer.on('error', reject)
    })
    sent.on('error', (error: Error & { code?: string }) => {
      // The test stopped the service meanwhile.
      if (state.ending || error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET') resolve({ status: 503, text: '' })
      else reject(error)
    })
    sent.end(body === '' ? undefined : Buffer.from(body, 'latin1'))
  })
}
