import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import { messageOf } from '../../core/errors.ts'
import { createRedactor } from '../../core/secrets.ts'
import { text } from '../../core/events.ts'
import type { TraceHeaders } from '../../core/run.ts'
import { toolError, type CompileSchema, type Tool, type ToolContext, type ToolOutcome } from '../../core/tool.ts'
import { failureReason, wasSent, type Outbound } from '../outbound.ts'
import { followRequest, type HttpMethod, type HttpRequest } from './request.ts'
import { excerpt, readBody } from './response.ts'
import { parseBodyTemplate, parseUrlTemplate, type BodyTemplate, type UrlTemplate } from './template.ts'

/** A tool that is one HTTP request, as the configuration describes it. */
export interface HttpToolConfig {
  name: string
  description: string
  /** An object schema; every property has its place in the URL or the body. */
  inputSchema: Json
  method: HttpMethod
  /** `{name}` in the path or the query stands for the property. */
  url: string
  /** Sent as they are; values that are secret stand in `secrets` too. */
  headers?: Readonly<Record<string, string>>
  /** Never shown: taken out of whatever comes back. */
  secrets?: readonly string[]
  /** A JSON value with `{name}` in its texts. Default, where the method has a body: the whole input. */
  body?: Json
  /** May run again after a crash. Default: GET and HEAD. */
  idempotent?: boolean
  /** For the whole call, redirects and body included. */
  timeoutMs?: number
  /** Of the response's text; the rest is cut. */
  maxBytes?: number
}

export interface HttpToolDeps {
  outbound: Outbound
  compile: CompileSchema
  /** Where the call stands in a trace; sent unless the tool has a traceparent of its own. */
  traceHeaders?: (call: ToolContext) => TraceHeaders | undefined
}

export const HTTP_TOOL_TIMEOUT_MS = 30_000
export const HTTP_TOOL_MAX_BYTES = 1_048_576
const ERROR_BYTES = 2000
const OWN_HEADERS = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'expect', 'te', 'trailer', 'keep-alive'])

/**
 * The tool of a configured HTTP request. Throws an `Error` that names the tool and everything that is wrong with its description.
 * A response that is no success, a refused redirect and a failed request are error results (http-api.md 8.4).
 */
export function createHttpTool (config: HttpToolConfig, { outbound, compile, traceHeaders }: HttpToolDeps): Tool {
  const { name, description, inputSchema, method } = config
  const { url, body, validate, headers } = readDescription(config, outbound, compile)
  const redact = createRedactor(config.secrets ?? [])
  const call: Call = {
    outbound, redact, method, timeoutMs: config.timeoutMs ?? HTTP_TOOL_TIMEOUT_MS, maxBytes: config.maxBytes ?? HTTP_TOOL_MAX_BYTES,
    idempotent: config.idempotent ?? isSafe(method)
  }
  return {
    definition: { name, description, inputSchema },
    executor: 'service',
    idempotent: call.idempotent,
    validate,
    async execute (input, context) {
      if (!isObject(input)) return toolError('invalid arguments: must be an object')
      const request = requestOf(input as JsonObject, { method, url, body, headers })
      if (typeof request === 'string') return toolError(`invalid arguments: ${request}`)
      const trace = headers.has('traceparent') ? undefined : traceHeaders?.(context)
      for (const [name, value] of Object.entries(trace ?? {})) request.headers.set(name, value)
      return await perform(request, call, context.signal)
    }
  }
}

const isSafe = (method: HttpMethod): boolean => method === 'GET' || method === 'HEAD'

interface Parts { url: UrlTemplate, body: BodyTemplate | undefined, headers: Headers }

function readDescription (config: HttpToolConfig, outbound: Outbound, compile: CompileSchema): Parts & { validate: Tool['validate'] } {
  const faults: string[] = []
  const attempt = <T>(what: string, read: () => T): T | undefined => {
    try {
      return read()
    } catch (error) {
      faults.push(`${what} ${messageOf(error)}`)
      return undefined
    }
  }
  if (!/^[\w-]{1,64}$/.test(config.name)) faults.push('the name must be 1 to 64 letters, digits, "_" or "-"')
  const validate = attempt('the inputSchema cannot be used:', () => compile(config.inputSchema))
  const url = attempt('the url', () => parseUrlTemplate(config.url))
  const refusal = url && outbound.refusal(url.base)
  if (refusal !== undefined) faults.push(refusal)
  const body = config.body === undefined ? undefined : parseBodyTemplate(config.body)
  if (body && isSafe(config.method)) faults.push(`a ${config.method} request has no body`)
  const headers = attempt('a header', () => readHeaders(config.headers ?? {}))
  if (url) faults.push(...placeFaults(config, url, body))
  if (faults.length > 0 || !validate || !url || !headers) throw new Error(`HTTP tool "${config.name}": ${faults.join('; ')}`)
  return { url, body, headers, validate }
}

/** Names that stand for nothing, properties that go nowhere, and a path that could have a hole. */
function placeFaults (config: HttpToolConfig, url: UrlTemplate, body: BodyTemplate | undefined): string[] {
  const schema = isObject(config.inputSchema) ? config.inputSchema : {}
  const properties = isObject(schema.properties) ? Object.keys(schema.properties) : []
  const required = Array.isArray(schema.required) ? schema.required : []
  const placed = new Set([...url.path, ...url.query, ...body?.names ?? []])
  const unknown = [...placed].filter((name) => !properties.includes(name)).map((name) => `"{${name}}" is no property of the inputSchema`)
  const open = url.path.filter((name) => properties.includes(name) && !required.includes(name)).map((name) => `"{${name}}" is in the path, so the inputSchema must require it`)
  const wholeInput = !isSafe(config.method) && !body
  const lost = wholeInput ? [] : properties.filter((name) => !placed.has(name)).map((name) => `the property "${name}" is never sent`)
  return [...unknown, ...open, ...lost]
}

function readHeaders (values: Readonly<Record<string, string>>): Headers {
  const headers = new Headers({ 'user-agent': 'subagentd', accept: 'application/json, text/*;q=0.9, */*;q=0.5' })
  for (const [name, value] of Object.entries(values)) {
    if (OWN_HEADERS.has(name.toLowerCase())) throw new Error(`"${name}" is set by the connection itself`)
    try {
      headers.set(name, value)
    } catch {
      throw new Error(`"${name}" has a name or a value that HTTP does not allow`)
    }
  }
  return headers
}

/** The request for an input, or what is wrong with the input. */
function requestOf (input: JsonObject, { method, url, body, headers }: Parts & { method: HttpMethod }): HttpRequest | string {
  try {
    const filled = isSafe(method) ? undefined : body ? body.fill(input) : input
    const request: HttpRequest = { method, url: url.fill(input), headers: new Headers(headers) }
    if (filled === undefined) return request
    if (!request.headers.has('content-type')) request.headers.set('content-type', 'application/json')
    return { ...request, body: JSON.stringify(filled) }
  } catch (error) {
    return messageOf(error)
  }
}

interface Call {
  outbound: Outbound
  redact: (text: string) => string
  method: HttpMethod
  timeoutMs: number
  maxBytes: number
  idempotent: boolean
}

/** One call from the first request to the last byte. Throws the signal's reason only. */
async function perform (request: HttpRequest, call: Call, signal: AbortSignal): Promise<ToolOutcome> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const stop = (): void => controller.abort(signal.reason)
  const timer = setTimeout(() => controller.abort(TIMED_OUT), call.timeoutMs)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const response = await followRequest(call.outbound, request, controller.signal)
    return await outcomeOf(response, call)
  } catch (error) {
    signal.throwIfAborted()
    const late = controller.signal.aborted
    const reason = late ? `took longer than ${call.timeoutMs} ms` : `failed: ${failureReason(error)}`
    const unknown = !call.idempotent && (late || wasSent(error)) ? '; it may have been carried out all the same: check before retrying' : ''
    return toolError(call.redact(`the request ${reason}${unknown}`))
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    // A body that was left unread would hold its connection.
    controller.abort()
  }
}

const TIMED_OUT = new DOMException('the time is over', 'TimeoutError')

async function outcomeOf (response: Response, { redact, maxBytes }: Call): Promise<ToolOutcome> {
  const status = `HTTP ${response.status}${response.statusText === '' ? '' : ` ${redact(response.statusText)}`}`
  const body = await readBody(response, { maxBytes: response.ok ? maxBytes : Math.min(maxBytes, 16 * ERROR_BYTES), redact })
  if (response.ok) return { content: [text(body === '' ? `(no content: ${status})` : body)], isError: false }
  const said = excerpt(body, ERROR_BYTES)
  return toolError(said === '' ? status : `${status}: ${said}`)
}
