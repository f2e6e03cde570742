import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { Document, Operation, Parameter } from './document.ts'
import { mutate, mutations, print, Raw, valid } from './values.ts'

/** Requests made from the document: right, nearly right, and hostile. Names in `{{ }}` stand for what is in the service. */

export type Kind = 'valid' | 'nearly' | 'hostile'
export interface Request {
  kind: Kind
  operation: string
  method: string
  target: string
  headers: [name: string, value: string][]
  /** Of more than one piece where chunked. */
  body: Buffer | undefined
  framing: 'length' | 'chunked' | 'broken'
  /** What the framing is broken with, as it goes over the wire after the head. */
  brokenWith?: { headers: [string, string][], bytes: string }
}

/** Whom a request can name, and how a placeholder is written. */
export const REFERENCES = [
  'running', 'waiting', 'queued', 'chat', 'settled', 'failed', 'aborted', 'deleted', 'parent', 'foreign', 'foreignWaiting',
  'session', 'emptySession', 'foreignSession', 'deletedSession', 'unknown'
] as const
export type Reference = (typeof REFERENCES)[number]
const written = (name: Reference): string => `{{${name}}}`
const someone = fc.constantFrom(...REFERENCES).map(written)
const run = fc.constantFrom<Reference>('running', 'waiting', 'settled', 'settled', 'failed', 'aborted', 'parent',
  'queued').map(written)
const session = fc.constantFrom<Reference>('session', 'emptySession', 'settled').map(written)
/** What the path of an operation means to name. */
const named = ({ id, path }: Operation): fc.Arbitrary<string> => {
  if (id === 'answerTools') return fc.constant(written('waiting'))
  if (path.endsWith('/frames')) return fc.constant(written('chat'))
  return path.includes('sessions') ? session : run
}

const script = fc.constantFrom<unknown>(
  [{ say: 'done' }], [{ hang: true }], [{ say: 'a b c', hang: true }], [{ fail: { code: 'MODEL_AUTH' } }], [{ refuse: 'no' }],
    [{ maxTokens: 'so far' }],
  [{ call: { name: 'ask', input: { q: 1 }, id: 'c1' } }, { say: 'done' }], [{ calls: [{ name: 'ask', id: 'c1' }, { name: 'ask',
    id: 'c2' }] }, { hang: true }],
  [{ call: { name: 'nobody' } }, { say: 'x' }], [{ call: { name: 'ask', arguments: '{"q": ' } }, { say: 'x' }],
    [{ reset: { after: 'half' } }],
  [{ slow: { text: 'a b c d', delayMs: 1 } }]
)
const tools = [{ name: 'ask', inputSchema: { type: 'object' } }]
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined, freq: 2 })

/** Bodies that do something, beside the document's examples and what its schemas allow. */
const MEANT: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  startRun: fc.record({
    task: fc.constantFrom('do it', 'x'), provider: optional(fc.constantFrom('spawn', 'fork')),
      parent: fc.option(fc.oneof(run.map((runId) => ({ runId })), session.map((sessionId) => ({ sessionId })),
      someone.map((runId) => ({ runId }))), { nil: undefined, freq: 2 }),
    tools: fc.constant(tools), agentOptions: fc.record({ model: fc.constant('scripted/demo'), script }),
      label: optional(fc.constantFrom('docs', 'l')),
    id: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, fc.uuid(), someone), maxDepth: fc.oneof({ weight: 3,
      arbitrary: fc.constant(undefined) }, fc.nat(3)), onDisconnect: optional(fc.constantFrom('cancel', 'continue')),
      limits: optional(fc.constant({ timeoutMs: 50 })),
    format: optional(fc.constantFrom('anthropic', 'openai-chat', 'mcp')), toolCallId: optional(fc.constant('call_1'))
  }),
  cancelRun: fc.constant({ reason: 'enough' }),
  cancelRuns: fc.oneof(fc.record({ ids: fc.array(someone, { minLength: 1, maxLength: 3 }) }), someone.map((root) => ({ root })),
    fc.constant({ label: 'docs' })),
  answerTools: fc.record({ results: fc.array(fc.record({ toolCallId: fc.constantFrom('c1', 'c1', 'c1', 'c2', 'nothing'),
    content: fc.constantFrom<unknown>('ok', [{ type: 'text', text: 'x' }]) }), { minLength: 1, maxLength: 2 }) }),
  sendMessage: fc.record({ content: fc.constantFrom<unknown>('more', [{ type: 'text', text: 'x' }]),
    mode: fc.constantFrom('steer', 'follow-up') }),
  createSession: fc.record({ id: fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, fc.uuid(), someone),
    metadata: fc.constant({ a: 'b' }) }),
  appendSession: fc.record({ after: fc.constantFrom(2, 2, 2, 2, 0, 4, 6), messages: fc.constant([{ role: 'user', content: 'hi' },
    { role: 'assistant', content: 'ho' }]) })
}

/** Texts of lines, each whole, in part, repeated, or none. */
const texts = (examples: readonly string[]): fc.Arbitrary<string> => fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom('', ...examples) },
  fc.tuple(fc.constantFrom('', ...examples), fc.nat(400)).map(([text, at]) => text.slice(0, at)),
  fc.array(fc.constantFrom(
    '{}\n', '{"type":"assistant"}\n', '{"type":"new"}\r\n', 'no JSON\n', '\n', '\u0000\n', '[]\n', '{"a":1e400}', `"${'x'.repeat(9000)}"\n`
  ), { maxLength: 4 }).map((lines) => lines.join(''))
)

const plain = (operation: Operation, components: Document['components']): fc.Arbitrary<unknown> => {
  if (!operation.body) return fc.constant(undefined)
  const { type, examples, schema } = operation.body
  if (type !== 'application/json') return texts(examples.map(String)).map((text) => new Raw(text))
  return fc.oneof(
    { weight: 3, arbitrary: MEANT[operation.id] ?? fc.constant({}) },
    { weight: 2, arbitrary: examples.length > 0 ? fc.constantFrom(...examples) : fc.constant({}) },
    { weight: 2, arbitrary: valid(schema, components) }
  )
}

const ODD_TEXTS = ['', ' ', '0', '-1', '1e3', '9007199254740993', '-0', 'NaN', 'true', 'x'.repeat(600), '%00', '%ff', '%zz', '%',
  '%2F..%2F', '../..', '__proto__', '[]', 'é', 'a%0d%0ab', '+', '1.5', 'null']
const odd = fc.constantFrom(...ODD_TEXTS)

/** A query parameter as text. The longest wait is one that the service cuts. */
function queryValue ({ name, schema, example }: Parameter, components: Document['components']): fc.Arbitrary<string> {
  if (name === 'wait') return fc.oneof({ weight: 8, arbitrary: fc.constant('0') }, fc.constant('1'))
  const inner = schema.type === 'array' ? schema.items as Document['components'][string] : schema
  const value = valid(inner, components).map((given) => encodeURIComponent(String(given).toWellFormed()))
  if (['root', 'parent'].includes(name)) return someone
  return example === undefined ? value : fc.oneof(value,
    fc.constant(encodeURIComponent(typeof example === 'string' ? example : JSON.stringify(example))))
}

function queries (operation: Operation, components: Document['components']): fc.Arbitrary<string> {
  const list = operation.parameters.filter((parameter) => parameter.in === 'query')
  const pairs = list.map((parameter) => optional(queryValue(parameter, components).map((value) => `${parameter.name}=${value}`)))
  const none = { weight: 2, arbitrary: fc.constant<(string | undefined)[]>([]) }
  return fc.oneof(none, fc.tuple(...pairs)).map((given) => given.filter((pair) => pair !== undefined).join('&'))
}

const prefer = fc.constantFrom('wait=0', 'wait=0', 'wait=0', 'wait=1', 'respond-async, wait=0', 'handling=strict')
const HEADERS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  prefer, 'idempotency-key': fc.oneof({ weight: 3, arbitrary: fc.uuid() }, fc.constantFrom('k1', 'k2', '~')),
    'last-event-id': fc.constantFrom('{{cursor}}', 'x', '')
}
const ACCEPTS = ['application/json', '*/*', 'text/event-stream', 'application/json, text/event-stream;q=0.5',
  'text/html, */*;q=0.1']

const headersOf = (operation: Operation): fc.Arbitrary<[string, string][]> => {
  const named = operation.parameters.filter((parameter) => parameter.in === 'header').map(({ name }) =>
    optional((HEADERS[name] ?? fc.constant('x')).map((value): [string, string] => [name, value])))
  const streams = Object.values(operation.responses).some(({ content }) => content?.['text/event-stream'])
  const accept = optional(fc.constantFrom(...ACCEPTS.filter((range) => streams || !range.startsWith('text/event-stream'))).map((value): [string, string] => ['accept', value]))
  return fc.tuple(accept, ...named).map((list) => list.filter((header) => header !== undefined))
}

const base = (operation: Operation, components: Document['components']) => fc.record({
  id: fc.oneof({ weight: 7, arbitrary: named(operation) }, { weight: 4, arbitrary: someone }, fc.constantFrom('x', '0', '%00',
    '{{settled}}%20', 'é')),
  query: queries(operation, components),
  headers: headersOf(operation),
  body: plain(operation, components)
})

const pathTo = (operation: Operation, id: string, query: string): string => operation.path.replace('{id}',
  id) + (query === '' ? '' : `?${query}`)
const json: [string, string] = ['content-type', 'application/json']
const typeOf = ({ body }: Operation): [string, string] => body ? ['content-type', body.type] : json

function right (operation: Operation, components: Document['components']): fc.Arbitrary<Request> {
  return base(operation, components).map(({ id, query, headers, body }) => ({
    kind: 'valid' as const, operation: operation.id, method: operation.method, target: pathTo(operation, id, query),
    headers: body === undefined ? headers : [...headers, typeOf(operation)], body: body === undefined ? undefined : Buffer.from(print(body)),
      framing: 'length' as const
  }))
}

function nearly (operation: Operation, components: Document['components']): fc.Arbitrary<Request> {
  const names = [...operation.parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name), 'nothing',
    '__proto__', 'metadata.', 'metadata.a', '']
  const spoiltQuery = fc.tuple(fc.constantFrom(...names), odd, fc.boolean()).map(([name, value,
    twice]) => `${name}=${value}${twice ? `&${name}=${value}` : ''}`)
  const isBody = operation.body ? fc.constantFrom('body' as const, 'body' as const, 'body' as const, 'query' as const,
    'id' as const, 'header' as const) : fc.constantFrom('query' as const, 'id' as const, 'header' as const, 'body' as const)
  return fc.record({ of: base(operation, components), what: isBody, mutation: mutations, spoiltQuery, oddId: odd,
    header: fc.constantFrom('prefer', 'idempotency-key', 'last-event-id', 'accept'),
    oddValue: fc.constantFrom(...ODD_TEXTS.filter((text) => !/[^ -~]/.test(text)), 'wait=99999999999', 'wait="0"', 'wait=-1',
    'k'.repeat(256), 'text/event-stream;q=0', 'application/json;q=0') })
    .map(({ of: { id, query, headers, body }, what, mutation, spoiltQuery: spoilt, oddId, header, oddValue }) => {
      const sent = what === 'body' ? body === undefined ? mutation.junk : mutate(body, mutation) : body
      return {
        kind: 'nearly' as const, operation: operation.id, method: operation.method,
        target: pathTo(operation, what === 'id' ? oddId.replace('é', '%C3%A9') : id,
          what === 'query' ? spoilt : query).replace('é', '%C3%A9'),
        headers: [...headers.filter(([name]) => what !== 'header' || name !== header), ...what === 'header' ? [[header,
          oddValue] as [string, string]] : [], ...sent === undefined ? [] : [typeOf(operation)]],
        body: sent === undefined ? undefined : Buffer.from(print(sent)), framing: 'length' as const
      }
    })
}

const METHODS = ['HEAD', 'OPTIONS', 'PUT', 'PATCH', 'DELETE', 'POST', 'GET', 'TRACE', 'QUERY', 'PROPFIND', 'get', 'FOO',
  'M-SEARCH']
const TARGETS = [
  (path: string) => path.replaceAll('/', '%2F'), (path: string) => path.replace('/v1', '/v1/..//v1'),
    (path: string) => `${path}/`, (path: string) => `/${path}`, (path: string) => `${path}/../..`,
  (path: string) => path.replace('runs', '%72uns'), (path: string) => `${path}?${'a=b&'.repeat(500)}`,
    (path: string) => `${path}${'/x'.repeat(3000)}`, (path: string) => path.replace('/v1', '/V1'),
  (path: string) => `http://127.0.0.1${path}`, (path: string) => `http://evil.example${path}`, (path: string) => `ftp://x${path}`,
    () => '*', () => '/', (path: string) => path.slice(1), (path: string) => `${path}%`, (path: string) => `${path}#f`,
  (path: string) => `${path};a=b`, (path: string) => `${path}%00`,
    (path: string) => `/v1/runs/${'z'.repeat(301)}${path.endsWith('cancel') ? '/cancel' : ''}`,
    (path: string) => `/v1/sessions/${'%41'.repeat(200)}${path.endsWith('messages') ? '/messages' : ''}`,
  (path: string) => `${path}\u0080`, (path: string) => path.replace('/v1', '/v1/.'),
    (path: string) => `${path}?__proto__[x]=1&constructor=2`, () => '/docs/..%2f..%2fpackage.json',
    () => '/docs/static/%2e%2e/%2e%2e/package.json'
]
const HOSTILE_HEADERS: readonly (readonly [string, string][])[] = [
  [['authorization', 'Bearer nobody']], [['authorization', 'Basic abc']], [['authorization', '']], [['authorization',
    'Bearer {{foreignKey}}']], [['authorization', 'Bearer a'], ['authorization', 'Bearer b']],
  [['host', 'evil.example']], [['host', 'a'], ['host', 'b']], [['host', '']], [['x-big', 'x'.repeat(20_000)]],
    Array.from({ length: 1500 }, (_, i) => [`x-${i}`, 'y'] as [string, string]),
  [['expect', '100-continue']], [['expect', 'wonders']], [['connection', 'upgrade'], ['upgrade', 'websocket']], [['upgrade',
    'h2c'], ['connection', 'upgrade, http2-settings'], ['http2-settings', 'AAMAAABk']],
  [['x-request-id', 'x'.repeat(200)]], [['x-request-id', 'a b']], [['x-request-id', 'mine']], [['accept', 'text/html']],
    [['accept', ',;q=,']], [['accept', '*/*;q=0']], [['accept', 'x'.repeat(5000)]],
  [['idempotency-key', 'k1'], ['idempotency-key', 'k2']], [['prefer', 'wait=0'], ['prefer', 'wait=1']], [['last-event-id',
    '\u00e9'], ['accept', 'text/event-stream']], [['origin', 'null']], [['cookie', 'a=b; '.repeat(500)]],
  [['range', 'bytes=0-1']], [['if-none-match', '*']], [['te', 'trailers']], [['x-http-method-override', 'DELETE']],
    [['x-forwarded-for', '127.0.0.1']], [['constructor', 'x'], ['__proto__', 'y']]
]
const TYPES = ['', 'text/plain', 'application/xml', 'application/json; charset=latin1', 'application/json; charset="utf-8',
  'application/json;', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded', 'application/problem+json', 'JSON',
  'application/json, text/plain', '*/*']
const bytes = (...list: number[]): Buffer => Buffer.from(list)
const HOSTILE_BODIES: readonly { body: Buffer, headers?: [string, string][] }[] = [
  { body: bytes(0xff, 0xfe, 0x00) }, { body: Buffer.concat([bytes(0xef, 0xbb, 0xbf), Buffer.from('{}')]) },
    { body: Buffer.from('{"task":"x"', 'latin1') }, { body: Buffer.from('{"task":"\u0080\u00ff"}', 'latin1') },
  { body: Buffer.from('{"task":"x"}', 'utf16le') }, { body: Buffer.alloc(200_000, 0x5b) }, { body: Buffer.alloc(1_200_000,
    0x20) }, { body: Buffer.from('{"task":"x"}{"task":"y"}') }, { body: Buffer.from('null') }, { body: Buffer.from('[]') },
  { body: Buffer.from('{}'), headers: [['content-encoding', 'gzip']] }, { body: gzipSync('{"task":"x"}').subarray(0, 15),
    headers: [['content-encoding', 'gzip']] }, { body: gzipSync('{"task":"x"}'), headers: [['content-encoding', 'gzip']] },
  { body: gzipSync(Buffer.alloc(20_000_000)), headers: [['content-encoding', 'gzip']] },
    { body: Buffer.concat([gzipSync('{"task":"x"}'), bytes(1, 2, 3)]), headers: [['content-encoding', 'gzip']] },
  { body: Buffer.from('{}'), headers: [['content-encoding', 'br']] }, { body: Buffer.from('{}'), headers: [['content-encoding',
    'gzip, gzip']] }, { body: gzipSync(gzipSync('{}')), headers: [['content-encoding', 'gzip']] }
]
const BROKEN: readonly { headers: [string, string][], bytes: string }[] = [
  { headers: [['content-length', '10']], bytes: '{}' }, { headers: [['content-length', '-1']], bytes: '{}' },
    { headers: [['content-length', '1'], ['content-length', '2']], bytes: '{}' }, { headers: [['content-length', '1e3']],
    bytes: '{}' },
  { headers: [['content-length', '99999999999999999999']], bytes: '{}' }, { headers: [['content-length', '2'],
    ['transfer-encoding', 'chunked']], bytes: '2\r\n{}\r\n0\r\n\r\n' }, { headers: [['transfer-encoding', 'chunked']],
    bytes: 'zz\r\n{}\r\n0\r\n\r\n' },
  { headers: [['transfer-encoding', 'chunked']], bytes: '2\r\n{}' }, { headers: [['transfer-encoding', 'chunked']],
    bytes: 'ffffffffffffffffff\r\n{}\r\n' }, { headers: [['transfer-encoding', 'chunked']], bytes: '-2\r\n{}\r\n0\r\n\r\n' },
  { headers: [['transfer-encoding', 'gzip, chunked']], bytes: '2\r\n{}\r\n0\r\n\r\n' }, { headers: [['transfer-encoding',
    'chunked, chunked']], bytes: '2\r\n{}\r\n0\r\n\r\n' }, { headers: [['transfer-encoding', 'nothing']], bytes: '{}' },
  { headers: [['transfer-encoding', 'chunked']], bytes: `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n` },
    { headers: [['transfer-encoding', 'chunked']], bytes: `2\r\n{}\r\n0\r\nx-trailer: ${'y'.repeat(20_000)}\r\n\r\n` },
    { headers: [['bad header', 'x']], bytes: '' }, { headers: [['', 'x']], bytes: '' }, { headers: [['x', 'a\u0000b']],
    bytes: '' }, { headers: [['x', 'a\rb']], bytes: '' }
]

type Attack = (request: Request) => Request
const attacks: fc.Arbitrary<Attack> = fc.oneof(
  fc.constantFrom(...METHODS).map((method): Attack => (request) => ({ ...request, method })),
  fc.constantFrom(...TARGETS).map((bend): Attack => (request) => ({ ...request, target: bend(request.target) })),
  fc.constantFrom(...HOSTILE_HEADERS).map((headers): Attack => (request) => ({ ...request, headers: [...request.headers,
    ...headers] })),
  fc.constantFrom(...TYPES).map((type): Attack => (request) => ({ ...request, body: request.body ?? Buffer.from('{}'),
    headers: [...request.headers.filter(([name]) => name !== 'content-type'), ...type === '' ? [] : [['content-type',
    type] as [string, string]]] })),
  fc.constantFrom(...HOSTILE_BODIES).map(({ body, headers = [] }): Attack => (request) => ({ ...request, body,
    headers: [...request.headers.filter(([name]) => name !== 'content-type'), json, ...headers] })),
  fc.uint8Array({ maxLength: 200 }).map((random): Attack => (request) => ({ ...request, body: Buffer.from(random),
    headers: [...request.headers.filter(([name]) => name !== 'content-type'), json] })),
  fc.uint8Array({ maxLength: 200 }).map((random): Attack => (request) => ({ ...request, body: Buffer.from(random),
    headers: [...request.headers.filter(([name]) => name !== 'content-type'), json, ['content-encoding', 'gzip']] })),
  fc.constantFrom(...BROKEN).map((brokenWith): Attack => (request) => ({ ...request, framing: 'broken', body: undefined,
    brokenWith })),
  fc.constant<Attack>((request) => ({ ...request, framing: 'chunked' }))
)

const hostile = (operation: Operation, components: Document['components']): fc.Arbitrary<Request> =>
  fc.tuple(right(operation, components), attacks, fc.option(attacks, { freq: 4 })).map(([request, first,
    second]) => ({ ...(second ?? ((same: Request) => same))(first(request)), kind: 'hostile' as const }))

/** Any request to any operation of the document. */
export const requests = ({ operations,
  components }: Document): fc.Arbitrary<Request> => fc.oneof(...operations.map((operation) => ({
  weight: operation.body ? 3 : operation.path.includes('{id}') ? 2 : 1,
  arbitrary: fc.oneof(right(operation, components), { weight: 2, arbitrary: nearly(operation, components) }, hostile(operation,
    components))
})))
