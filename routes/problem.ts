import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { isRefusal, refuse } from '../src/core/errors.ts'
import type { DepthRangeError, Refusal, RefusalCode } from '../src/core/errors.ts'
import { isObject } from '../src/core/json.ts'
import { relayFault, relayOf } from '../src/core/relay.ts'
import type { RelayOptions } from '../src/core/run.ts'
import { refusalToolResult } from '../src/core/tool-result.ts'
import { PROBLEMS, problemType } from '../openapi/problems.ts'
import { RELAY_FORMATS } from '../openapi/parts.ts'

/** Refusals and faults as problem JSON (RFC 9457, http-api.md §5), with the text that a host relays. */

type AnyRefusal = Refusal | DepthRangeError

/** The same request may be taken later. */
const RETRYABLE: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'RATE_LIMITED', 'QUOTA_EXCEEDED', 'OVERLOADED', 'SHUTTING_DOWN', 'STORE_UNAVAILABLE', 'AUTH_UNAVAILABLE', 'INTERNAL'
])
/** Facts of a refusal that a host acts on; the rest of its context stays here. */
const FACTS: Partial<Record<RefusalCode, readonly string[]>> = {
  TOOL_CALL_NOT_PENDING: ['toolCallId', 'reason'],
  SESSION_CONFLICT: ['length'],
  FRAME_GAP: ['expected'],
  DEPTH_EXCEEDED: ['depth', 'maxDepth'],
  UNSUPPORTED_SCHEMA: ['violations'],
  PROVIDER_UNAVAILABLE: ['reason']
}

export interface ProblemAnswer { status: number, headers: Record<string, string>, body: Record<string, unknown> }

/** The answer that a refusal gets. */
export function problemOf (refusal: AnyRefusal, requestId: string, relay: RelayOptions = {}, status?: number): ProblemAnswer {
  const code = refusal.code
  const [usual, title] = PROBLEMS[code]
  const toolResult = refusalToolResult(hidesText(usual) ? undefined : refusal.message)
  return {
    status: status ?? usual,
    headers: headersOf(code, refusal.context),
    body: {
      type: problemType(code),
      title,
      status: status ?? usual,
      detail: refusal.message,
      code,
      requestId,
      retryable: RETRYABLE.has(code),
      ...errorsOf(code, refusal.context),
      ...factsOf(code, refusal.context),
      toolResult,
      ...relayFault(relay) === undefined && relayOf(toolResult, relay)
    }
  }
}

/** Whose text is not for a model: it cannot mend an account or a server (5.1). */
const hidesText = (status: number): boolean => status === 401 || status === 403 || status >= 500

function headersOf (code: RefusalCode, context: Record<string, unknown>): Record<string, string> {
  const headers: Record<string, string> = {}
  const { retryAfter, allow } = context
  if (typeof retryAfter === 'number') headers['retry-after'] = String(Math.max(1, Math.ceil(retryAfter)))
  if (code === 'UNAUTHENTICATED') headers['www-authenticate'] = 'Bearer'
  if (code === 'METHOD_NOT_ALLOWED') headers['allow'] = String(allow)
  if (code === 'UNSUPPORTED_MEDIA_TYPE') headers['accept-encoding'] = 'gzip, identity'
  return headers
}

function errorsOf (code: RefusalCode, context: Record<string, unknown>): { errors?: unknown } {
  if (code === 'INVALID_REQUEST') return { errors: context['errors'] ?? [] }
  const { pointer, detail } = context
  return typeof pointer === 'string' ? { errors: [{ pointer, detail }] } : {}
}

const factsOf = (code: RefusalCode, context: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries((FACTS[code] ?? []).filter((name) => context[name] !== undefined).map((name) => [name, context[name]]))

/** Any error on a route's way, as its answer. A fault is logged with its cause, and answers bare (5.5 `INTERNAL`). */
export function sendProblem (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = isRefusal(error) ? error : fromFastify(error as FastifyError)
  if (refusal.code === 'INTERNAL') request.log.error({ err: isRefusal(error) ? error.cause ?? error : error }, 'a request failed')
  const { status, headers, body } = problemOf(refusal, request.id, relayHints(request), statusIn(refusal))
  // Who streams a body reads the answer only after what it is just sending: the connection stays until that has flown away.
  const isLarge = body['code'] === 'PAYLOAD_TOO_LARGE' && !request.routeOptions.config.streams
  if (status === 408 || isLarge) void reply.header('connection', 'close')
  else if (hasUnreadBody(request)) closeAfterBody(request, reply)
  // Bytes: to a text Fastify would add a charset, which the media type does not have.
  const bytes = Buffer.from(JSON.stringify(body))
  return reply.code(status).headers({ ...headers, 'content-type': 'application/problem+json' }).send(bytes)
}

/** Closed under what still comes, an answer is lost to a reset: a client that asked for the close gets it once all has come (http.ts: or too long has not). */
function closeAfterBody ({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (reply.raw.shouldKeepAlive) return
  reply.raw.shouldKeepAlive = true
  let open = 2
  const onDone = (): void => { if (--open === 0) raw.socket.destroySoon() }
  raw.once('close', onDone)
  reply.raw.once('finish', onDone)
}

const hasUnreadBody = ({ raw: { complete, headers } }: FastifyRequest): boolean =>
  !complete && (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0)

/** Of a request that is malformed in a way of its own. */
const statusIn = ({ code, context: { status } }: AnyRefusal): number | undefined =>
  code === 'INVALID_REQUEST' && typeof status === 'number' ? status : undefined

/** What Fastify itself refuses. */
function fromFastify (error: FastifyError): AnyRefusal {
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return refuse('UNSUPPORTED_MEDIA_TYPE', { detail: 'the body must be application/json' })
    case 'FST_ERR_MAX_PARAM_LENGTH':
    case 'FST_ERR_NOT_FOUND': return refuse('NOT_FOUND', { detail: 'there is nothing at this path' })
    case 'FST_ERR_BAD_URL': return malformed('the path is not well-formed')
    default: return isClientError(error) ? malformed('the request is malformed') : refuse('INTERNAL', {}, error)
  }
}
const isClientError = (error: FastifyError | undefined): boolean =>
  error?.code?.startsWith('FST_') === true && error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500
const malformed = (detail: string) => refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '', detail }] })

/** How the host wants a refusal relayed, as far as the request says it in a form that can be read (5.2). */
function relayHints (request: FastifyRequest): RelayOptions {
  if (Object.keys(request.relay ?? {}).length > 0) return request.relay
  const source = [request.query, request.body].find((part) => isObject(part) && part['format'] !== undefined)
  if (!isObject(source)) return {}
  const { format, toolCallId, toolName } = source
  const known = RELAY_FORMATS.find((name) => name === format)
  return {
    ...known !== undefined && { format: known },
    ...typeof toolCallId === 'string' && { toolCallId },
    ...typeof toolName === 'string' && { toolName }
  }
}
