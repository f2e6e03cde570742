import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ReceivedSpan {
  traceId: string
  spanId: string
  /** `''` for a root. */
  parentSpanId: string
  state: string
  name: string
  kind: 'internal' | 'client' | 'other'
  start: number
  end: number
  attributes: Record<string, unknown>
  status: { code: number, message: string }
  links: { traceId: string, spanId: string }[]
}

export interface OtlpReceiver {
  url: string
  spans: ReceivedSpan[]
  resources: Record<string, unknown>[]
  requests: { path: string, headers: IncomingHttpHeaders }[]
  /** The bytes of everything that was received, as text. */
  raw: () => string
  /** The spans as a tree of names, children in the order of their start. */
  tree (): string[]
  close (): Promise<void>
}

/** A collector of traces on the loopback: OTLP over HTTP, protobuf. `status`: what it answers. */
export async function startOtlpReceiver (atEnd: (close: () => Promise<void>) => void, { status = 200 }: { status?: number } = {}): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const resources: Record<string, unknown>[] = []
  const requests: OtlpReceiver['requests'] = []
  const bodies: Buffer[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      bodies.push(body)
      requests.push({ path: request.url ?? '', headers: request.headers })
      if (status === 200) take(body)
      response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end()
    })
  })
  function take (body: Buffer): void {
    for (const resourceSpans of many(read(body), 1)) {
      const { 1: resource = [], 2: scopes = [] } = read(resourceSpans)
      resources.push(attributesOf(many(read(resource[0] as Buffer), 1)))
      for (const scope of scopes) spans.push(...many(read(scope as Buffer), 2).map(spanOf))
    }
  }
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => closing ??= new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
  atEnd(close)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, resources, requests, close,
    raw: () => Buffer.concat(bodies).toString('latin1'),
    tree: () => treeOf(spans)
  }
}

function treeOf (spans: readonly ReceivedSpan[]): string[] {
  const order = spans.map((span, at) => ({ span, at })).toSorted((a, b) => a.span.start - b.span.start || a.at - b.at).map(({ span }) => span)
  const lines = (parent: string, depth: number): string[] => order.filter(({ parentSpanId }) => parentSpanId === parent)
    .flatMap((span) => [`${'  '.repeat(depth)}${span.name}`, ...lines(span.spanId, depth + 1)])
  const known = new Set(spans.map(({ spanId }) => spanId))
  return [...new Set(order.map(({ parentSpanId }) => parentSpanId).filter((parent) => !known.has(parent)))].flatMap((parent) => lines(parent, 0))
}

type Fields = Record<number, (Buffer | bigint)[]>
const many = (fields: Fields, number: number): Buffer[] => (fields[number] ?? []) as Buffer[]

/** The fields of a protobuf message by number. */
function read (bytes: Buffer): Fields {
  const fields: Fields = {}
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error('a protobuf message ends in a number')
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number): Buffer => bytes.subarray(at, at += length)
  while (at < bytes.length) {
    const key = Number(varint())
    const wire = key & 7
    const value = wire === 0 ? varint() : wire === 1 ? take(8).readBigUInt64LE() : wire === 5 ? BigInt(take(4).readUInt32LE()) : take(Number(varint()))
    ;(fields[key >>> 3] ??= []).push(value)
  }
  return fields
}

const KINDS: Record<number, ReceivedSpan['kind']> = { 1: 'internal', 3: 'client' }
const text = (value: unknown): string => value === undefined ? '' : (value as Buffer).toString('utf8')
/** Whole ms: a double does not hold the ns. */
const msOf = (ns: unknown): number => Number((ns as bigint) / 1_000_000n)
const hex = (value: unknown): string => value === undefined ? '' : (value as Buffer).toString('hex')

function spanOf (bytes: Buffer): ReceivedSpan {
  const fields = read(bytes)
  const first = (number: number): Buffer | bigint | undefined => fields[number]?.[0]
  const status = first(15) === undefined ? {} : read(first(15) as Buffer)
  return {
    traceId: hex(first(1)), spanId: hex(first(2)), state: text(first(3)), parentSpanId: hex(first(4)), name: text(first(5)),
    kind: KINDS[Number(first(6))] ?? 'other', start: msOf(first(7)), end: msOf(first(8)),
    attributes: attributesOf(many(fields, 9)),
    status: { code: Number(status[3]?.[0] ?? 0), message: text(status[2]?.[0]) },
    links: many(fields, 13).map(read).map((link) => ({ traceId: hex(link[1]?.[0]), spanId: hex(link[2]?.[0]) }))
  }
}

const attributesOf = (pairs: Buffer[]): Record<string, unknown> =>
  Object.fromEntries(pairs.map(read).map((pair) => [text(pair[1]?.[0]), valueOf(pair[2]?.[0] as Buffer)]))

function valueOf (bytes: Buffer): unknown {
  const fields = read(bytes)
  if (fields[1]) return text(fields[1][0])
  if (fields[2]) return fields[2][0] === 1n
  if (fields[3]) return Number(fields[3][0])
  if (fields[4]) {
    const double = Buffer.alloc(8)
    double.writeBigUInt64LE(fields[4][0] as bigint)
    return double.readDoubleLE()
  }
  return fields[5] ? many(read(fields[5][0] as Buffer), 1).map(valueOf) : undefined
}
