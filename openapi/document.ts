import { EXAMPLE_FRAMES, EXAMPLES } from './examples.ts'

/** What the document says beyond the routes' schemas. */

export const INFO = {
  title: 'subagentd',
  version: '1.0.0',
  license: { name: 'MIT', identifier: 'MIT' },
  description: 'Run subagents over HTTP: spawn, fork, watch, cancel, and relay what comes back word for word.\n\n' +
    'JSON is camelCase, times are ISO 8601 UTC, ids are opaque. Unknown fields and parameters, duplicate keys and ' +
    '`__proto__` are refused by name, ' +
    'and nothing is coerced. Every answer that is not 2xx is `application/problem+json` with a `toolResult` that a host can ' +
    'hand to its model unchanged. ' +
    'Request bodies may be gzip. Within `/v1` there are only additions.'
}
export const TAGS = [
  { name: 'runs', description: 'One task, one result.' },
  { name: 'events', description: 'What happened, live and later.' },
  { name: 'sessions', description: 'A host\'s own conversations, kept for forks.' },
  { name: 'catalogue', description: 'What this deployment offers.' },
  { name: 'health', description: 'Alive, ready, figures.' }
]
export const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'A key of `API_KEYS_FILE`. A service without keys asks for none.' }
} as const
/** A key, or none. */
export const SECURITY = [{ bearer: [] }, {}]

interface Media { schema?: unknown, examples?: unknown, example?: unknown }
interface Parameter { name: string, in: string, example?: unknown, examples?: unknown, required?: boolean, description?: string }
interface Response { description: string, content?: Record<string, Media>, headers?: Record<string, unknown> }
interface Operation {
  operationId: string
  parameters?: Parameter[]
  requestBody?: { required?: boolean, content: Record<string, Media> }
  responses: Record<string, Response>
}
export interface Document { paths: Record<string, Record<string, Operation>>, [member: string]: unknown }

const header = (description: string, type: 'string' | 'integer' = 'string') => ({ description, schema: { type } })
export const HEADERS = {
  RequestId: header('The id of this request in the service\'s log; the sender\'s own where it sent one.'),
  RetryAfter: header('Seconds until it makes sense to ask again.', 'integer')
}
const REQUEST_ID = { $ref: '#/components/headers/RequestId' }
const RETRY_AFTER = { $ref: '#/components/headers/RetryAfter' }
/** A body that no schema judges: it is read as it comes. */
const FRAMES_BODY = {
  required: false,
  content: { 'application/x-ndjson': { schema: { type: 'string', description: 'One JSON object a line.' }, example: EXAMPLE_FRAMES } }
}
/** Operations whose body may be left out. */
const BODY_OPTIONAL = new Set(['cancelRun', 'createSession'])

/** Adds examples, headers and media types that a JSON schema has no place for; sorts what has no order of its own. */
export function finishDocument (document: Document): Document {
  for (const operations of Object.values(document.paths)) {
    for (const operation of Object.values(operations)) finishOperation(operation)
  }
  const paths = Object.fromEntries(Object.entries(document.paths).toSorted(([a], [b]) => a < b ? -1 : 1))
  return { ...document, paths }
}

function finishOperation (operation: Operation): void {
  if (operation.operationId === 'ingestFrames') operation.requestBody = FRAMES_BODY
  addExamples(operation)
  for (const [status, response] of Object.entries(operation.responses)) addHeaders(operation.operationId, status, response)
  addMediaTypes(operation)
}

function addExamples ({ operationId, parameters = [], requestBody }: Operation): void {
  const { body, id, query = {}, headers = {} } = EXAMPLES[operationId] ?? {}
  for (const parameter of parameters) {
    const example = parameter.in === 'path' ? id : parameter.in === 'query' ? query[parameter.name] : headers[parameter.name]
    delete parameter.examples
    if (example === undefined) delete parameter.example
    else parameter.example = example
    if (parameter.in !== 'path') parameter.required ??= false
  }
  const media = requestBody?.content['application/json']
  if (!requestBody || !media) return
  requestBody.required = !BODY_OPTIONAL.has(operationId)
  delete media.example
  if (body) media.examples = body
}

function addHeaders (operationId: string, status: string, response: Response): void {
  response.headers = { ...response.headers, 'X-Request-Id': REQUEST_ID }
  if (
    ['202', '429', '503'].includes(status) && operationId !== 'cancelRuns' && operationId !== 'cancelRun'
  ) response.headers['Retry-After'] = RETRY_AFTER
  if (status === '401') response.headers['WWW-Authenticate'] = header('`Bearer`.')
  if (operationId === 'startRun' || operationId === 'createSession') {
    if (status === '201' || status === '200') response.headers['Location'] = header('The path of what was made.')
    if (status === '200') response.headers['Idempotency-Replayed'] = header(
      '`true`: the answer of an earlier request with this key.'
    )
  }
  if (
    (operationId === 'startRun' && (status === '201' || status === '200')) || (operationId === 'answerTools' && status === '200')
  ) {
    response.headers['Preference-Applied'] = header('`wait=<seconds>` that was used.')
  }
}

function addMediaTypes ({ operationId, responses }: Operation): void {
  const stream = {
    schema: {
      type: 'string', description: 'Server-sent events: `id` (a cursor), `event`, `data` (JSON `{runId, seq, time, type, data}`).'
    }
  }
  for (const [status, response] of Object.entries(responses)) {
    const streams = (operationId === 'startRun' && (status === '201' || status === '200')) || (
      operationId === 'readEvents' && status === '200'
    )
    if (streams && response.content) response.content['text/event-stream'] = stream
  }
}
