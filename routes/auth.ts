import type { FastifyInstance, FastifyRequest } from 'fastify'
import { refuse } from '../src/core/errors.ts'
import type { Caller } from '../src/runs/api.ts'
import type { KeyEntry, RoutesDeps } from './context.ts'

/** The tenant of a service without keys. */
export const DEFAULT_TENANT = 'default'

/**
 * Who a request is from (http-api.md 8.1, 8.2), before its body is read. Throws `UNAUTHENTICATED`, `FORBIDDEN`, and for a
 * start past its key's rate `RATE_LIMITED`.
 */
export function authenticate (app: FastifyInstance, deps: RoutesDeps): void {
  const allowStart = createStartRate(deps.now)
  app.addHook('onRequest', async (request) => {
    const { config } = request.routeOptions
    if (!deps.keys && !deps.tokens) {
      checkOrigin(request, deps.access)
      request.caller = { tenant: DEFAULT_TENANT }
      return
    }
    if (config.open || request.is404) return
    const key = await findKey(request, deps)
    const scope = config.scope ?? (request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write')
    if (!key.scopes.includes(scope)) throw refuse('FORBIDDEN', { detail: `the ${nameOf(key)} lacks the scope "${scope}"` })
    request.apiKey = key
    request.caller = callerOf(key)
    if (config.starts) allowStart(key)
  })
}

/** The entry of a key, or else of a token: a key may look like one. */
async function findKey (request: FastifyRequest, { keys, tokens }: RoutesDeps): Promise<KeyEntry> {
  const bearer = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
  if (bearer === undefined) {
    throw refuse('UNAUTHENTICATED', { detail: `${keys ? 'an API key' : 'a token'} is needed: send "Authorization: Bearer ${keys ? 'KEY' : 'TOKEN'}"` })
  }
  const key = keys?.find(bearer)
  if (key) return key
  if (tokens && looksLikeToken(bearer)) return await tokens.verify(bearer)
  throw refuse('UNAUTHENTICATED', { detail: keys ? 'the API key is unknown or has expired' : 'the token is malformed' })
}

/** Three parts, each base64url (RFC 7515 §7.1). */
const looksLikeToken = (bearer: string): boolean => /^[\w-]+\.[\w-]*\.[\w-]*$/.test(bearer)

const nameOf = ({ id }: KeyEntry): string => id.startsWith('token:') ? 'token' : `API key "${id}"`

function callerOf (key: KeyEntry): Caller {
  const { running, startsPerMinute } = key.limits ?? {}
  return {
    tenant: key.tenant,
    ...key.models !== undefined && { models: key.models },
    ...key.minDepth !== undefined && { minDepth: key.minDepth },
    limits: { ...running !== undefined && { running }, ...startsPerMinute !== undefined && { startsPerMinute } }
  }
}

/** Against DNS rebinding and foreign pages, where no key protects the service (8.2). */
function checkOrigin (request: FastifyRequest, access: RoutesDeps['access']): void {
  const host = request.headers.host ?? ''
  if (access === 'loopback' && !isLoopback(host)) {
    throw refuse('FORBIDDEN', { detail: `without API keys only loopback hosts are served, not "${host}"` })
  }
  const { origin } = request.headers
  if (origin !== undefined && !sameService(origin, host)) {
    throw refuse('FORBIDDEN', { detail: `the origin "${origin}" is not this service` })
  }
}

export function isLoopback (host: string): boolean {
  const url = URL.parse(`http://${host}`)
  if (!url || url.pathname !== '/' || url.username !== '' || host.includes('/')) return false
  return url.hostname === 'localhost' || url.hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(url.hostname)
}

function sameService (origin: string, host: string): boolean {
  const url = URL.parse(origin)
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return false
  return url.host === URL.parse(`${url.protocol}//${host}`)?.host
}

const MINUTE = 60_000

/** A bucket a key, of as many starts as its minute allows, refilled evenly. One that is full again is forgotten: tokens come and go. */
export function createStartRate (now: () => number, buckets = new Map<string, { left: number, at: number }>()): (key: KeyEntry) => void {
  let looked = now()
  return ({ id, limits }) => {
    const most = limits?.startsPerMinute
    if (most === undefined) return
    const time = now()
    if (Math.abs(time - looked) >= MINUTE) {
      looked = time
      for (const [key, { at }] of buckets) if (Math.abs(time - at) >= MINUTE) buckets.delete(key)
    }
    // A start is worth a minute of milliseconds, each refills `most` of them: whole numbers, so that Retry-After is exact.
    const bucket = buckets.get(id) ?? { left: most * MINUTE, at: time }
    // A clock that was set back takes nothing away.
    bucket.left = Math.min(most * MINUTE, bucket.left + Math.max(0, time - bucket.at) * most)
    bucket.at = time
    buckets.set(id, bucket)
    if (bucket.left < MINUTE) {
      const retryAfter = Math.ceil((MINUTE - bucket.left) / most / 1000)
      throw refuse('RATE_LIMITED', { detail: `the ${id.startsWith('token:') ? 'tenant' : 'API key'} may start ${most} runs a minute`, retryAfter })
    }
    bucket.left -= MINUTE
  }
}
