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
    if (!deps.keys) {
      checkOrigin(request, deps.access)
      request.caller = { tenant: DEFAULT_TENANT }
      return
    }
    if (config.open || request.is404) return
    const key = findKey(request, deps.keys)
    const scope = config.scope ?? (request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write')
    if (!key.scopes.includes(scope)) throw refuse('FORBIDDEN', { detail: `the API key "${key.id}" lacks the scope "${scope}"` })
    request.apiKey = key
    request.caller = callerOf(key)
    if (config.starts) allowStart(key)
  })
}

function findKey (request: FastifyRequest, keys: NonNullable<RoutesDeps['keys']>): KeyEntry {
  const bearer = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
  if (bearer === undefined) throw refuse('UNAUTHENTICATED', { detail: 'an API key is needed: send "Authorization: Bearer KEY"' })
  const key = keys.find(bearer)
  if (!key) throw refuse('UNAUTHENTICATED', { detail: 'the API key is unknown or has expired' })
  return key
}

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

/** A bucket a key, of as many starts as its minute allows, refilled evenly. */
export function createStartRate (now: () => number): (key: KeyEntry) => void {
  const buckets = new Map<string, { left: number, at: number }>()
  return ({ id, limits }) => {
    const most = limits?.startsPerMinute
    if (most === undefined) return
    const time = now()
    const bucket = buckets.get(id) ?? { left: most, at: time }
    bucket.left = Math.min(most, bucket.left + (time - bucket.at) * most / 60_000)
    bucket.at = time
    buckets.set(id, bucket)
    if (bucket.left < 1) {
      const retryAfter = most > 0 ? Math.max(1, Math.ceil((1 - bucket.left) * 60 / most)) : 60
      throw refuse('RATE_LIMITED', { detail: `the API key may start ${most} runs a minute`, retryAfter })
    }
    bucket.left--
  }
}
