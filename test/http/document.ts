import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { createSseParser } from '../support/sse.ts'
import type { WireAnswer } from './wire.ts'

/** The committed OpenAPI document, as something to make requests from and to hold answers against. */

export interface Schema { [keyword: string]: unknown }
export interface Parameter { name: string, in: 'path' | 'query' | 'header', schema: Schema, example?: unknown }
interface Media { schema?: Schema, example?: unknown, examples?: Record<string, { value: unknown }> }
interface Described { content?: Record<string, Media>, headers?: Record<string, unknown> }
interface DescribedOperation { operationId: string, parameters?: Parameter[], requestBody?: { content: Record<string, Media> },
  responses: Record<string, Described> }

export interface Operation {
  id: string
  method: string
  /** With `{id}` for an id. */
  path: string
  parameters: Parameter[]
  /** Of a type other than JSON its examples are texts. */
  body: { type: string, schema: Schema, examples: unknown[] } | undefined
  responses: Record<string, Described>
}

export interface Document {
  operations: readonly Operation[]
  components: Record<string, Schema>
  /** The operation that a request target and method name, if any. */
  match (method: string, target: string): Operation | undefined
  /** What is wrong with an answer, if anything. `operation`: the one that the request named. */
  faultOf (operation: Operation | undefined, method: string, answer: WireAnswer): string | undefined
}

/** Answers of the HTTP layer itself, to what no route ever sees. */
const BEFORE_ROUTES: ReadonlySet<number> = new Set([400, 403, 408, 413, 415, 417, 431])
/** Of a request that names no operation. */
const NOWHERE: ReadonlySet<number> = new Set([400, 401, 403, 404, 405])

export function readDocument (): Document {
  const json = JSON.parse(readFileSync(new URL('../../openapi/openapi.json', import.meta.url), 'utf8')) as {
    paths: Record<string, Record<string, DescribedOperation>>, components: { schemas: Record<string, Schema> }
  }
  const operations = Object.entries(json.paths).flatMap(([path, item]) => Object.entries(item).map(([method,
    operation]): Operation => {
    const [[type, media] = ['', undefined]] = Object.entries(operation.requestBody?.content ?? {})
    return {
      id: operation.operationId, method: method.toUpperCase(), path, parameters: operation.parameters ?? [],
        responses: operation.responses,
      body: media?.schema && {
        type, schema: media.schema,
        examples: [...media.example === undefined ? [] : [media.example], ...Object.values(media.examples ?? {}).map(({ value }) => value)]
      }
    }
  }))
  const check = createChecks(json.components)
  const patterns = operations.map((operation) => ({ operation, pattern: patternOf(operation.path) }))
  return {
    operations,
    components: json.components.schemas,
    match (method, target) {
      const path = pathOf(target)
      const asked = method === 'HEAD' ? 'GET' : method
      return patterns.find(({ operation, pattern }) => operation.method === asked && pattern.test(path))?.operation
    },
    faultOf: (operation, method, answer) => faultOf(check, operation, method, answer)
  }
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.split('/').map((part) => part === '{id}' ? '[^/]*' : RegExp.escape(part)).join('/')}$`)

/** Of an absolute target its path; percent signs decoded as a router does, slashes not. Spaces end a request line's target. */
function pathOf (target: string): string {
  const path = target.replace(/^https?:\/\/[^/]*/i, '').replace(/[?#].*$/s, '').trimEnd()
  try { return decodeURI(path) } catch { return path }
}

type Check = (schema: Schema, value: unknown) => string | undefined

function createChecks (components: object): Check {
  const ajv = new Ajv2020({ strict: false, discriminator: true, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'doc', components })
  const known = new Map<string, ValidateFunction>()
  return (schema, value) => {
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"doc#/components/')
    const validate = known.get(text) ?? ajv.compile(JSON.parse(text) as Schema)
    known.set(text, validate)
    return validate(value) ? undefined : ajv.errorsText(validate.errors)
  }
}

function faultOf (check: Check, operation: Operation | undefined, method: string, answer: WireAnswer): string | undefined {
  const { status, headers, body } = answer
  const type = headers.get('content-type')?.split(';')[0]
  if (!headers.has('x-request-id')) return 'has no X-Request-Id'
  if (status >= 500 && status !== 503) return `is a ${status}`
  const described = operation?.responses[status]
  if (operation && !described && !BEFORE_ROUTES.has(status)) return `${status} is not documented for ${operation.id}`
  if (!operation && !NOWHERE.has(status) && !BEFORE_ROUTES.has(status)) return `${status} for what is no operation`
  if (method === 'HEAD') return body.length === 0 ? undefined : 'an answer to HEAD has a body'
  if (status === 204) return body.length === 0 && type === undefined ? undefined : 'a 204 has a body'
  if (status >= 400) return problemFault(check, answer, type)
  const media = described?.content?.[type ?? '']
  if (!media) return `content type ${type} is not documented`
  if (type === 'text/event-stream') return streamFault(body)
  if (type !== 'application/json') return undefined
  const value = parsed(body)
  return value === undefined ? 'is not JSON' : media.schema && check(media.schema, value)
}

function problemFault (check: Check, { status, headers, body }: WireAnswer, type: string | undefined): string | undefined {
  if (type !== 'application/problem+json') return `a refusal of type ${type}`
  const problem = parsed(body) as { status: number, requestId: string, code: string, detail: string,
    toolResult: { isError: boolean, content: { text: string }[] } } | undefined
  if (problem === undefined) return 'a problem that is not JSON'
  const fault = check({ $ref: '#/components/schemas/Problem' }, problem)
  if (fault) return fault
  if (problem.status !== status) return `a problem of status ${problem.status}`
  if (problem.requestId !== headers.get('x-request-id')) return 'the ids of the request differ'
  const { isError, content: [block] } = problem.toolResult
  const hidden = status === 401 || status === 403 || status >= 500
  const expected = `Error: ${hidden ? 'subagent service unavailable' : problem.detail}`
  if (!isError || block?.text !== expected) return `toolResult says ${JSON.stringify(problem.toolResult)}`
  if ((status === 429 || status === 503) && !headers.has('retry-after')) return 'no Retry-After'
  if (status === 401 && headers.get('www-authenticate') !== 'Bearer') return 'no WWW-Authenticate'
  if (status === 405 && !headers.has('allow')) return 'no Allow'
  return undefined
}

/** What was read of an event stream before its reader left. */
function streamFault (text: string): string | undefined {
  if (!text.startsWith('retry: 1000\n\n')) return `a stream that begins with ${JSON.stringify(text.slice(0, 40))}`
  let last: string | undefined
  for (const { event, data, id } of createSseParser().push(text)) {
    if (last === 'settled') return `${event} after settled`
    if (typeof data.runId !== 'string' && event !== 'gap') return `${event} without runId`
    if (data.type !== event) return `${event} holds ${data.type}`
    const isPlace = !['run', 'delta', 'snapshot'].includes(event)
    if (isPlace !== (id !== undefined)) return `${event} ${id === undefined ? 'without' : 'with'} id`
    last = event
  }
  return undefined
}

function parsed (text: string): unknown {
  try { return JSON.parse(text) } catch { return undefined }
}
