import { outcome, messageOf } from '../core/errors.ts'
import type { OutcomeCode } from '../core/events.ts'
import { isObject } from '../core/json.ts'
import type { ModelFailure } from '../core/model.ts'
import { createRedactor } from '../core/secrets.ts'
import { clip } from './json-text.ts'

/** What went wrong at a model server, in words that name no endpoint and may still hold secrets. */
export interface Fault { code: OutcomeCode, reason: string, retryable: boolean, status?: number, retryAfterMs?: number }

/** Carries a fault through a client library; its `message` says nothing, so that no library reads a meaning into it. */
export class UpstreamFault extends Error {
  readonly fault: Fault
  constructor (fault: Fault) {
    super('upstream fault')
    this.fault = fault
  }
}

export const modelFault = (reason: string, retryable: boolean): UpstreamFault =>
  new UpstreamFault({ code: 'MODEL_ERROR', reason, retryable })

const CONTEXT = [
  /context_length_exceeded|maximum context length|(prompt|input) is too long|maximum number of (input )?tokens/i,
  /(exceeds?|exceeding|larger than|beyond) (the )?(\w+ )?context|context (window|size|length) exceed/i
]
const isContextFault = (words: string): boolean => CONTEXT.some((pattern) => pattern.test(words))

/** The fault of an HTTP answer that is no success. `body` is its text. */
export function statusFault (status: number, headers: Headers, body: string, now: number): Fault {
  const { type, code, message } = bodyError(parsed(body))
  const said = clip(message ?? (body.trimStart().startsWith('<') ? '' : body), MAX_READ).trim()
  const retryAfterMs = retryAfter(headers, now)
  const facts = { status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  const fault = (outcomeCode: OutcomeCode, what: string, retryable: boolean, words = said): Fault =>
    ({ code: outcomeCode, reason: `answered ${status}${what}${words === '' ? '' : `: ${words}`}`, retryable, ...facts })
  if (status === 401 || status === 403) return fault('MODEL_AUTH', ' (not authorized)', false)
  if (status === 429) return fault('MODEL_RATE_LIMITED', ' (rate limited)', code !== 'insufficient_quota')
  if (status < 400) return fault('MODEL_ERROR', ' (a redirect, which is not followed)', false, '')
  if (isContextFault(`${code} ${type} ${said}`)) return fault('CONTEXT_TOO_LONG', ' (context too long)', false)
  return fault('MODEL_ERROR', status === 529 ? ' (overloaded)' : '', status >= 500 || status === 408)
}

/** The fault of an error object that came inside a successful answer: an error event, or a body with `error`. */
export function errorObjectFault (body: unknown): Fault {
  const { type, code, message } = bodyError(body)
  const kind = `${type ?? ''} ${code ?? ''}`
  const reason = `sent an error${type === undefined ? '' : ` (${type})`}: ${message ?? 'without a message'}`
  if (/rate_limit/.test(kind)) return { code: 'MODEL_RATE_LIMITED', reason, retryable: true }
  if (/authentication|permission|invalid_api_key/.test(kind)) return { code: 'MODEL_AUTH', reason, retryable: false }
  if (isContextFault(`${kind} ${message}`)) return { code: 'CONTEXT_TOO_LONG', reason, retryable: false }
  return { code: 'MODEL_ERROR', reason, retryable: !/invalid_request|not_found|billing|insufficient_quota/.test(kind) }
}

const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused the connection',
  ENOTFOUND: 'has an address that does not resolve',
  EAI_AGAIN: 'has an address that does not resolve',
  UND_ERR_CONNECT_TIMEOUT: 'did not accept the connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'stalled: nothing came for too long',
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'sent an answer that is too large',
  UND_ERR_SOCKET: 'closed the connection',
  ECONNRESET: 'reset the connection',
  EPIPE: 'closed the connection'
}

/** The fault behind anything that a call threw. */
export function thrownFault (error: unknown): Fault {
  for (const cause of causes(error)) {
    if (cause instanceof UpstreamFault) return cause.fault
    const { code } = cause as { code?: unknown }
    if (typeof code === 'string' && Object.hasOwn(NETWORK, code)) {
      return { code: 'MODEL_ERROR', reason: `${NETWORK[code]} (${code})`, retryable: code !== 'UND_ERR_RES_EXCEEDED_MAX_SIZE' }
    }
  }
  if (error instanceof SyntaxError) return { code: 'MODEL_ERROR', reason: 'sent an event that is not JSON', retryable: true }
  const { error: sent } = error as { error?: unknown }
  if (sent !== undefined && sent !== null) return errorObjectFault(sent)
  return { code: 'MODEL_ERROR', reason: `failed: ${causes(error).map(messageOf).join(': ')}`, retryable: true }
}

function causes (error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let cause = error; cause instanceof Error && chain.length < 8; cause = cause.cause) chain.push(cause)
  return chain.length === 0 ? [error] : chain
}

function bodyError (body: unknown): { type?: string, code?: string, message?: string } {
  const error = isObject(body) ? body.error ?? body : body
  if (typeof error === 'string') return { message: error }
  if (!isObject(error)) return {}
  const { type, code } = error
  const message = error.message ?? error.detail
  return {
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof message === 'string' ? { message } : message === undefined ? {} : { message: JSON.stringify(message) })
  }
}

function parsed (text: string): unknown {
  try { return JSON.parse(text) } catch { return undefined }
}

/** `retry-after-ms`, else `Retry-After` in seconds or as an HTTP date (RFC 9110 §10.2.3); else `undefined`. */
export function retryAfter (headers: Headers, now: number): number | undefined {
  const ms = amount(headers.get('retry-after-ms'))
  if (ms !== undefined) return Math.round(ms)
  const value = headers.get('retry-after')
  const seconds = amount(value)
  if (seconds !== undefined) return Math.round(seconds * 1000)
  // An HTTP date begins with its day; of other words JavaScript may make a date, too.
  const at = value === null || !/^\s*(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(value) ? NaN : Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

const amount = (value: string | null): number | undefined =>
  value !== null && /^\s*\d{1,12}(\.\d+)?\s*$/.test(value) ? Number(value) : undefined

const MAX_MESSAGE = 500
/** No more of what an upstream says is looked at. */
const MAX_READ = 4000
const REDACTED = '[redacted]'
/** Words that look like a key, whoever's it is. */
const KEY_LIKE = /\b(sk|pk|rk|key|Bearer|Basic)[-_ ](?=\S*[\d*])\S{6,}/g

/** The fault as data that is safe to keep and show: the endpoint named, secrets gone, shortened. */
export function failureOf (fault: Fault, endpoint: string, secrets: readonly string[]): ModelFailure {
  const { retryAfterMs, status } = fault
  const message = shorten(redact(clip(`model endpoint "${endpoint}" ${fault.reason}`, MAX_READ), secrets))
  return {
    outcome: outcome(fault.code, message, fault.retryable),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(status === undefined ? {} : { status })
  }
}

function redact (text: string, secrets: readonly string[]): string {
  let safe = createRedactor(secrets)(text)
  for (const secret of secrets.filter((value) => value.length >= 16)) {
    // A long one that is shown in part: from its beginning to the next space.
    const [before = '', ...shown] = safe.split(secret.slice(0, 8))
    safe = [before, ...shown.map((rest) => rest.replace(/^\S*/, REDACTED))].join('')
  }
  return safe.replaceAll(KEY_LIKE, REDACTED)
}

function shorten (text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replaceAll(/[\s\u0000-\u001f\u007f]+/g, ' ').trim().toWellFormed()
  return line.length <= MAX_MESSAGE ? line : `${clip(line, MAX_MESSAGE - 1)}…`
}
