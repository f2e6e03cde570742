import { connect, type Socket } from 'node:net'

/** One request as bytes, one answer as it came: what no HTTP client would send or show. */

export interface WireAnswer { status: number, headers: Map<string, string>, body: string,
  /** Ms until it was read. */ took: number }
/** `closed`: the connection ended before an answer; `silent`: nothing came in time. */
export type WireEnd = WireAnswer | { closed: true } | { silent: true }

export interface WireOptions {
  /** No answer by then is a stall. */
  boundMs: number
  /** The answer's body is not awaited (HEAD). */
  noBody?: boolean
  /** The bytes are no complete request: the sending side ends after them. */
  ends?: boolean
}

/** Sends the bytes over a connection of their own, in as many pieces as given. Never rejects. */
export function exchange (port: number, pieces: readonly Buffer[], { boundMs, noBody = false,
  ends = false }: WireOptions): Promise<WireEnd> {
  const started = performance.now()
  const { promise, resolve } = Promise.withResolvers<WireEnd>()
  const socket = connect({ port, host: '127.0.0.1' })
  let received = Buffer.alloc(0)
  const finish = (end: WireEnd): void => {
    clearTimeout(timer)
    resolve(end)
    socket.destroy()
  }
  const look = (over: boolean): void => {
    const answer = parse(received, noBody, over)
    if (answer) finish({ ...answer, took: performance.now() - started })
    else if (over) finish({ closed: true })
  }
  const timer = setTimeout(() => finish({ silent: true }), boundMs)
  socket.on('data', (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    look(false)
  })
  socket.on('end', () => look(true))
  socket.on('close', () => look(true))
  // A reset after the answer is told by `close`, too.
  socket.on('error', () => {})
  send(socket, pieces, ends)
  return promise
}

function send (socket: Socket, pieces: readonly Buffer[], ends: boolean): void {
  const [first, ...rest] = pieces
  const next = (): void => {
    const piece = rest.shift()
    if (piece) socket.write(piece, () => setImmediate(next))
    else if (ends) socket.end()
  }
  socket.setNoDelay(true)
  socket.write(first ?? Buffer.alloc(0), () => setImmediate(next))
}

/** The first final answer in the bytes, once it is complete; an event stream's once it has told of its run. */
function parse (bytes: Buffer, noBody: boolean, over: boolean): Omit<WireAnswer, 'took'> | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [line = '', ...fields] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1])
  const rest = bytes.subarray(end + 4)
  if (status < 200) return parse(rest, noBody, over)
  const headers = new Map(fields.map((field) => {
    const colon = field.indexOf(':')
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
  }))
  const answer = (body: string) => ({ status, headers, body })
  if (noBody || status === 204 || status === 304) return answer('')
  const length = headers.get('content-length')
  if (length !== undefined) return rest.length >= Number(length) ? answer(rest.subarray(0, Number(length)).toString()) : undefined
  if (headers.get('transfer-encoding') !== 'chunked') return over ? answer(rest.toString()) : undefined
  const { text, complete } = unchunk(rest)
  if (complete) return answer(text)
  return headers.get('content-type')?.startsWith('text/event-stream') && /^event: run$/m.test(text)
    ? answer(text.slice(0, text.lastIndexOf('\n\n') + 2))
    : undefined
}

function unchunk (bytes: Buffer): { text: string, complete: boolean } {
  const pieces: Buffer[] = []
  for (let at = 0; ;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const size = lineEnd < 0 ? Number.NaN : Number.parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16)
    if (Number.isNaN(size) || bytes.length < lineEnd + size + 4) return { text: Buffer.concat(pieces).toString(),
      complete: false }
    if (size === 0) return { text: Buffer.concat(pieces).toString(), complete: true }
    pieces.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + size + 4
  }
}
