import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import type { Agent, buildConnector, fetch as UndiciFetch } from 'undici'
import { addressKind, parseAllowed, type AllowRule } from './addresses.ts'

export interface Address { address: string, family: number }
/** The addresses of a name; rejects as `dns.lookup` does. */
export type Resolve = (hostname: string) => Promise<Address[]>

export interface OutboundOptions {
  /**
   * What may be reached besides public addresses: an address or a range (`10.0.0.0/8`, `[fd00::/8]:8080`), or the name of a host,
   * whatever it resolves to; each with a port or for every port.
   */
  allow?: readonly string[]
  resolve?: Resolve
  connectMs?: number
}

/** Where tools may go (http-api.md 8.4). */
export interface Outbound {
  /**
   * Follows no redirect. A name is resolved once and only an address that was checked is connected to, so that no name can lead
   * elsewhere between the check and the connection. Rejects with `OutboundRefused` as its own error or as a `cause`.
   */
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  /** Why a URL can never be requested, as far as it says so itself; `undefined` leaves the rest to the connection. */
  readonly refusal: (url: URL) => string | undefined
  /** Ends every connection at once. */
  readonly close: () => Promise<void>
}

export class OutboundRefused extends Error {
  override readonly name = 'OutboundRefused'
}

const CONNECT_MS = 10_000
/** Longer silence before or within an answer is a fault; who waits less says so with a signal. */
const IDLE_MS = 300_000

/** Throws an `Error` that names every entry of `allow` that cannot be understood. Nothing is loaded before the first request. */
export function createOutbound ({ allow = [], resolve = systemResolve, connectMs = CONNECT_MS }: OutboundOptions = {}): Outbound {
  const rules = parseAllowed(allow)
  let opened: Promise<{ fetch: typeof UndiciFetch, dispatcher: Agent }> | undefined
  let closed = false
  return {
    refusal: (url) => urlRefusal(rules, url),
    async fetch (target, init = {}) {
      const url = new URL(target)
      const refusal = urlRefusal(rules, url)
      if (refusal !== undefined) throw new OutboundRefused(refusal)
      if (closed) throw new Error('the service is closing')
      opened ??= openDispatcher(rules, resolve, connectMs)
      const { fetch, dispatcher } = await opened
      return await fetch(url, { ...init, dispatcher, redirect: 'manual' } as Parameters<typeof fetch>[1]) as unknown as Response
    },
    async close () {
      closed = true
      if (opened) await (await opened).dispatcher.destroy()
    }
  }
}

async function openDispatcher (rules: readonly AllowRule[], resolve: Resolve, connectMs: number) {
  const { Agent, buildConnector, fetch } = await import('undici')
  const connectors = new Map<number, buildConnector.connector>()
  const connectorOf = (port: number): buildConnector.connector => {
    const known = connectors.get(port)
    if (known) return known
    const made = buildConnector({ timeout: connectMs, allowH2: false, lookup: checkedLookup(rules, resolve, port) })
    connectors.set(port, made)
    return made
  }
  const connect: buildConnector.connector = (target, done) => {
    const port = Number(target.port) || (target.protocol === 'https:' ? 443 : 80)
    const host = bareHost(target.hostname)
    const kind = isIP(host) === 0 ? undefined : addressKind(rules, host, host, port)
    // An address is connected to as it is: no lookup sees it.
    if (kind !== undefined) queueMicrotask(() => done(new OutboundRefused(refusalText(host, `it is ${kind}`)), null))
    else connectorOf(port)(target, done)
  }
  const dispatcher = new Agent({ connect, headersTimeout: IDLE_MS, bodyTimeout: IDLE_MS, allowH2: false })
  return { fetch, dispatcher }
}

/** A lookup for `net.connect` that answers only addresses which may be connected to. */
export function checkedLookup (rules: readonly AllowRule[], resolve: Resolve, port: number): LookupFunction {
  return (hostname, { all, family }, callback) => {
    const answer = (addresses: Address[]): void => {
      const [first] = addresses
      if (!first) return callback(Object.assign(new Error(`"${hostname}" has no address`), { code: 'ENOTFOUND' }), [])
      if (all === true) return callback(null, addresses)
      callback(null, first.address, first.family)
    }
    resolve(hostname).then((found) => {
      const wanted = found.filter((one) => family !== 4 && family !== 6 ? true : one.family === family)
      const kinds = wanted.map(({ address }) => addressKind(rules, hostname, address, port))
      const refused = kinds.find((kind) => kind !== undefined)
      const allowed = wanted.filter((_, at) => kinds[at] === undefined)
      if (allowed.length > 0 || refused === undefined) answer(allowed)
      else callback(new OutboundRefused(refusalText(hostname, `its name leads to ${refused}`)), [])
    }, (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), []))
  }
}

function urlRefusal (rules: readonly AllowRule[], url: URL): string | undefined {
  const { protocol, hostname, username, password, port } = url
  if (protocol !== 'http:' && protocol !== 'https:') return `only http and https URLs may be requested, not "${protocol}"`
  if (username !== '' || password !== '') return 'a URL with a user name or a password may not be requested'
  const host = bareHost(hostname)
  const kind = isIP(host) === 0 ? undefined : addressKind(rules, host, host, Number(port) || (protocol === 'https:' ? 443 : 80))
  return kind === undefined ? undefined : refusalText(host, `it is ${kind}`)
}

/** Says nothing of the address behind a name: who asks for it need not know the network here. */
const refusalText = (host: string, why: string): string =>
  `requests to "${host}" are not allowed: ${why} (outbound.allow in the configuration can allow it)`

const bareHost = (hostname: string): string => hostname.replace(/^\[(.*)\]$/, '$1')

const systemResolve: Resolve = (hostname) => systemLookup(hostname, { all: true, verbatim: true })

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ENOTFOUND: 'its address does not resolve',
  EAI_AGAIN: 'its address does not resolve',
  ETIMEDOUT: 'the connection could not be made in time',
  UND_ERR_CONNECT_TIMEOUT: 'the connection could not be made in time',
  UND_ERR_HEADERS_TIMEOUT: 'it did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'it stalled: nothing came for too long',
  UND_ERR_SOCKET: 'the connection was closed',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed'
}

/** Why a request failed, from the chain of causes that a client library makes; of unknown errors the innermost message. */
export function failureReason (error: unknown): string {
  let reason = String(error)
  for (let cause = error, left = 8; cause instanceof Error && left > 0; cause = cause.cause, left--) {
    const { code } = cause as { code?: unknown }
    if (cause instanceof OutboundRefused) return cause.message
    if (typeof code === 'string' && Object.hasOwn(REASONS, code)) return `${REASONS[code]} (${code})`
    reason = cause.message
  }
  return reason
}

const NOT_SENT: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT'])

/** Whether a request that failed may have reached its server. */
export function wasSent (error: unknown): boolean {
  for (let cause = error, left = 8; cause instanceof Error && left > 0; cause = cause.cause, left--) {
    if (cause instanceof OutboundRefused || NOT_SENT.has((cause as { code?: unknown }).code)) return false
  }
  return true
}
