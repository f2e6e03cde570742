import type * as Jose from 'jose'
import { isRefusal, refuse } from './core/errors.ts'
import { isObject } from './core/json.ts'
import { NAME, NAME_RULE, below, given, type Settings } from './settings.ts'

/** JSON Web Tokens of an issuer that the configuration names, beside API keys or in their place (http-api.md 8.1). */

export interface TokenSettings {
  readonly jwksUrl: string
  readonly issuer: string
  readonly audience: string
  readonly tenantClaim: string
  readonly scopeClaim: string
  /** Claims that nothing is read from unless they are named; a token without one that is named is refused. */
  readonly modelsClaim?: string
  readonly minDepthClaim?: string
  readonly limitsClaim?: string
}

/** What a token says of its bearer, in the terms of a key's entry. */
export interface TokenEntry {
  readonly id: string
  readonly tenant: string
  readonly scopes: readonly string[]
  readonly models?: string[]
  readonly minDepth?: number
  readonly limits?: TokenLimits
}
interface TokenLimits { running?: number, startsPerMinute?: number, bodyBytes?: number }

export interface Tokens {
  /** Throws `UNAUTHENTICATED`, `FORBIDDEN` where the token does not say enough, `AUTH_UNAVAILABLE` where its issuer's keys cannot be had. */
  verify (token: string): Promise<TokenEntry>
}

export interface TokenOptions {
  settings: TokenSettings
  now: () => number
  /** Why the issuer's keys cannot be had; not told again while it goes on. */
  onFault: (error: unknown) => void
  /** How long the key server may take, and how long no second request is made after one that failed, or for one more unknown key. */
  timeoutMs?: number
  pauseMs?: number
  cooldownMs?: number
}

/** Signatures that only the issuer can make: never `none`, nor HMAC, whose secret would be the public key. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
const MAX_TOKEN_CHARS = 8192
const CLOCK_TOLERANCE_S = 30
const TIMEOUT_MS = 5000
const PAUSE_MS = 2000
const COOLDOWN_MS = 10_000
const KEYS_MAX_AGE_MS = 600_000
const MAX_JWKS_BYTES = 1_048_576

/** The keys are asked for with the first token, kept for ten minutes, and asked for again when a token names one that is not there. */
export function createTokens (options: TokenOptions): Tokens {
  const { settings, now } = options
  const { issuer, audience } = settings
  let loaded: Promise<{ jose: typeof Jose, keys: Jose.JWTVerifyGetKey }> | undefined
  return {
    async verify (token) {
      if (token.length > MAX_TOKEN_CHARS) throw refuse('UNAUTHENTICATED', { detail: 'the token is too long' })
      loaded ??= loadKeys(options)
      const { jose, keys } = await loaded
      try {
        const { payload } = await jose.jwtVerify(token, keys, {
          issuer, audience, algorithms: ALGORITHMS, requiredClaims: ['exp'], clockTolerance: CLOCK_TOLERANCE_S, currentDate: new Date(now())
        })
        return entryOf(payload, settings)
      } catch (error) {
        throw isRefusal(error) ? error : refuse('UNAUTHENTICATED', { detail: `the token is not valid: ${reasonOf(error)}` })
      }
    }
  }
}

async function loadKeys (options: TokenOptions): Promise<{ jose: typeof Jose, keys: Jose.JWTVerifyGetKey }> {
  const { settings, now, onFault, timeoutMs = TIMEOUT_MS, pauseMs = PAUSE_MS, cooldownMs = COOLDOWN_MS } = options
  const jose = await import('jose')
  let downUntil = 0
  let quietUntil = 0
  const remote = jose.createRemoteJWKSet(new URL(settings.jwksUrl), {
    timeoutDuration: timeoutMs, cooldownDuration: cooldownMs, cacheMaxAge: KEYS_MAX_AGE_MS,
    async [jose.customFetch] (url, init) {
      if (now() < downUntil) throw new Error('the key server failed a moment ago')
      try {
        return await fetchKeys(url, init)
      } catch (error) {
        downUntil = now() + pauseMs
        throw error
      }
    }
  })
  const keys: Jose.JWTVerifyGetKey = async (header, token) => {
    try {
      return await remote(header, token)
    } catch (error) {
      const { code } = error as { code?: unknown }
      if (code === 'ERR_JWKS_NO_MATCHING_KEY' || code === 'ERR_JWKS_MULTIPLE_MATCHING_KEYS') throw error
      if (now() >= quietUntil) onFault(error)
      quietUntil = now() + pauseMs
      throw refuse('AUTH_UNAVAILABLE', { retryAfter: Math.max(1, Math.ceil(pauseMs / 1000)) }, error)
    }
  }
  return { jose, keys }
}

/** The key set, read whole here, so that everything that can go wrong with it goes wrong here. Rejects with an `Error` that says what. */
async function fetchKeys (url: string, init: object): Promise<Response> {
  const response = await fetch(url, init)
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`the key server answered ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_JWKS_BYTES) throw new Error('the key server sent too much')
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  const set: unknown = JSON.parse(text)
  if (!isObject(set) || !Array.isArray(set.keys)) throw new Error('the key server sent no set of keys')
  return new Response(text)
}

const REASONS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'it has expired',
  ERR_JWKS_NO_MATCHING_KEY: 'none of its issuer\'s keys signed it',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'it does not say which key signed it',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'its signature does not hold',
  ERR_JOSE_ALG_NOT_ALLOWED: 'its algorithm is not taken'
}

/** Nothing of the token itself. */
function reasonOf (error: unknown): string {
  const { code, claim } = error as { code?: string, claim?: string }
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED') return `its claim "${claim}" is missing or is not the one wanted here`
  return Object.hasOwn(REASONS, code ?? '') ? REASONS[code as string] as string : 'it is malformed'
}

function entryOf (payload: Jose.JWTPayload, settings: TokenSettings): TokenEntry {
  const { tenantClaim, scopeClaim, modelsClaim, minDepthClaim, limitsClaim } = settings
  const tenant = claimOf(payload, tenantClaim, isName, NAME_RULE)
  return {
    // Whoever a tenant's tokens are given to: its limits are the tenant's.
    id: `token:${tenant}`,
    tenant,
    scopes: scopesOf(payload, scopeClaim),
    ...given({
      models: modelsClaim === undefined ? undefined : claimOf(payload, modelsClaim, isTexts, 'a list of texts'),
      minDepth: minDepthClaim === undefined ? undefined : claimOf(payload, minDepthClaim, isWhole, 'an integer of at least 0'),
      limits: limitsClaim === undefined ? undefined : claimOf(payload, limitsClaim, isLimits, `a map of ${LIMITS.join(', ')}`)
    })
  }
}

function claimOf<T> (payload: Jose.JWTPayload, name: string, is: (value: unknown) => value is T, rule: string): T {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (value === undefined) throw refuse('FORBIDDEN', { detail: `the token has no claim "${name}"` })
  if (!is(value)) throw refuse('FORBIDDEN', { detail: `the token's claim "${name}" must be ${rule}` })
  return value
}

/** Scopes divided by spaces (RFC 8693 §4.2), or a list of them; a token without any may do nothing. */
function scopesOf (payload: Jose.JWTPayload, name: string): string[] {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (typeof value === 'string') return value.split(' ').filter((scope) => scope !== '')
  return isTexts(value) ? value : []
}

const LIMITS = ['running', 'startsPerMinute', 'bodyBytes'] as const
const isName = (value: unknown): value is string => typeof value === 'string' && NAME.test(value)
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every((item) => typeof item === 'string')
const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isLimits = (value: unknown): value is TokenLimits => isObject(value) &&
  Object.entries(value).every(([name, limit]) => (LIMITS as readonly string[]).includes(name) && isWhole(limit) && limit > 0)

interface Source extends Settings { get (name: string): string | undefined }
const FIELDS = ['jwksUrl', 'issuer', 'audience', 'tenantClaim', 'scopeClaim', 'modelsClaim', 'minDepthClaim', 'limitsClaim'] as const
const NEEDED = [['jwksUrl', 'JWT_JWKS_URL'], ['issuer', 'JWT_ISSUER'], ['audience', 'JWT_AUDIENCE']] as const

/** `auth.jwt` of the configuration file, under the variables; `undefined` where neither names an issuer. */
export function readTokenSettings (source: Source, auth: unknown): TokenSettings | undefined {
  const { jwt } = source.members('auth', auth, ['jwt'])
  const file = source.members('auth.jwt', jwt, FIELDS)
  const text = (name: (typeof FIELDS)[number]): string | undefined => source.text(below('auth.jwt', name), file[name])
  const [jwksUrl, issuer, audience] = NEEDED.map(([name, variable]) => source.get(variable) ?? text(name))
  if (jwt === undefined && jwksUrl === undefined && issuer === undefined && audience === undefined) return undefined
  for (const [at, value] of [jwksUrl, issuer, audience].entries()) {
    const [name, variable] = NEEDED[at] as (typeof NEEDED)[number]
    if (value === undefined) source.fault(variable, `is missing (or auth.jwt.${name} in the file): ${NEEDED.map(([, one]) => one).join(', ')} go together`)
  }
  if (jwksUrl !== undefined && !isSafeUrl(jwksUrl)) source.fault('JWT_JWKS_URL', 'must be an https URL, or an http one of this machine')
  if (jwksUrl === undefined || issuer === undefined || audience === undefined) return undefined
  return {
    jwksUrl, issuer, audience, tenantClaim: text('tenantClaim') ?? 'tenant', scopeClaim: text('scopeClaim') ?? 'scope',
    ...given({ modelsClaim: text('modelsClaim'), minDepthClaim: text('minDepthClaim'), limitsClaim: text('limitsClaim') })
  }
}

/** Keys that come in the clear from elsewhere could be anyone's. */
function isSafeUrl (value: string): boolean {
  const url = URL.parse(value)
  if (!url || url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && /^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url.hostname))
}

