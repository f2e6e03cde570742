import { createHmac } from 'node:crypto'
import { exportSPKI, SignJWT, UnsecuredJWT } from 'jose'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { createKeyRing, sha256 } from '../../src/keys.ts'
import { createTokens, type TokenEntry, type TokenSettings, type Tokens } from '../../src/tokens.ts'
import { startService, type Answer, type Service } from '../support/service.ts'
import { AUDIENCE, createSigningKey, ISSUER, startTokenIssuer, tokenEnv, type TokenIssuer } from '../support/token-issuer.ts'

const inS = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds

interface Room { issuer: TokenIssuer, tokens: Tokens, faults: unknown[], clock: { now: number } }

async function room ({ alg, settings = {}, timeoutMs = 5000, ...more }: {
  alg?: string, settings?: Partial<TokenSettings>, timeoutMs?: number, /** `undefined`: the default. */ cooldownMs?: number | undefined
} = {}): Promise<Room> {
  const { cooldownMs } = { cooldownMs: 0, ...more }
  const issuer = await startTokenIssuer(onTestFinished, alg)
  const faults: unknown[] = []
  const clock = { now: Date.now() }
  const tokens = createTokens({
    settings: { jwksUrl: issuer.url, issuer: ISSUER, audience: AUDIENCE, tenantClaim: 'tenant', scopeClaim: 'scope', ...settings },
    now: () => clock.now, onFault: (error) => { faults.push(error) }, timeoutMs, pauseMs: 2000, ...cooldownMs === undefined ? {} : { cooldownMs }
  })
  return { issuer, tokens, faults, clock }
}

const refusal = async (entry: Promise<TokenEntry>): Promise<{ code: string, text: string }> => {
  const error = await entry.then((value) => { throw new Error(`taken: ${JSON.stringify(value)}`) }, (reason: unknown) => reason)
  return { code: (error as { code: string }).code, text: (error as Error).message }
}
const invalid = (why: string): object => ({ code: 'UNAUTHENTICATED', text: `the token is not valid: ${why}` })

test.each(['RS256', 'PS256', 'ES256', 'ES384', 'Ed25519'])('8.1 a token signed with %s says who calls, for which tenant, with what scopes', async (alg) => {
  const { issuer, tokens } = await room({ alg })
  expect(await tokens.verify(await issuer.token())).toEqual({ id: 'token:acme', tenant: 'acme', scopes: ['read', 'write'] })
  expect(await tokens.verify(await issuer.token({ scope: ['metrics', 'other'], aud: ['x', AUDIENCE] }))).toMatchObject({ scopes: ['metrics', 'other'] })
  expect(issuer.asked).toBe(1)
})

test.for<[name: string, claims: Record<string, unknown>, why: string]>([
  ['that has expired', { exp: inS(-3600) }, 'it has expired'],
  ['without an end', { exp: undefined }, 'its claim "exp" is missing or is not the one wanted here'],
  ['whose end is no number', { exp: 'tomorrow' }, 'its claim "exp" is missing or is not the one wanted here'],
  ['that is not valid yet', { nbf: inS(3600) }, 'its claim "nbf" is missing or is not the one wanted here'],
  ['for another audience', { aud: 'other' }, 'its claim "aud" is missing or is not the one wanted here'],
  ['for no audience', { aud: undefined }, 'its claim "aud" is missing or is not the one wanted here'],
  ['of another issuer', { iss: 'https://evil.test/' }, 'its claim "iss" is missing or is not the one wanted here'],
  ['of an issuer like ours', { iss: 'https://login.test' }, 'its claim "iss" is missing or is not the one wanted here']
])('a token %s is no token', async ([, claims, why]) => {
  const { issuer, tokens } = await room()
  expect(await refusal(tokens.verify(await issuer.token(claims)))).toEqual(invalid(why))
})

test('clocks may differ by half a minute, and no more', async () => {
  const { issuer, tokens } = await room()
  expect(await tokens.verify(await issuer.token({ exp: inS(-10), nbf: inS(10) }))).toMatchObject({ tenant: 'acme' })
  expect(await refusal(tokens.verify(await issuer.token({ exp: inS(-60) })))).toEqual(invalid('it has expired'))
})

test('no unsigned token, none that is signed with the public key as a secret, and none whose signature is of another key', async () => {
  const { issuer, tokens } = await room({ alg: 'RS256' })
  const [key] = issuer.published
  if (!key) throw new Error('no key')
  const claims = { iss: ISSUER, aud: AUDIENCE, tenant: 'acme', scope: 'read write', exp: inS(300) }
  const none = new UnsecuredJWT(claims).encode()
  expect(await refusal(tokens.verify(none))).toEqual(invalid('its algorithm is not taken'))
  for (const alg of ['none', 'None', 'NONE']) {
    const odd = `${Buffer.from(JSON.stringify({ alg, kid: key.kid })).toString('base64url')}.${none.split('.')[1]}.`
    expect(await refusal(tokens.verify(odd))).toMatchObject({ code: 'UNAUTHENTICATED' })
  }
  for (const secret of [await exportSPKI(key.publicKey), JSON.stringify(key.jwk), String(key.jwk.n)]) {
    const hmac = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: key.kid }).sign(Buffer.from(secret))
    expect(await refusal(tokens.verify(hmac))).toEqual(invalid('its algorithm is not taken'))
    const [head, body] = hmac.split('.')
    const posing = `${Buffer.from(JSON.stringify({ alg: 'RS256', kid: key.kid })).toString('base64url')}.${body}`
    const forged = `${posing}.${createHmac('sha256', secret).update(posing).digest('base64url')}`
    expect([head, await refusal(tokens.verify(forged))]).toEqual([head, invalid('its signature does not hold')])
  }
  const other = { ...await createSigningKey('first'), kid: 'first' }
  expect(await refusal(tokens.verify(await issuer.token({}, { key: other })))).toEqual(invalid('its signature does not hold'))
  const good = await issuer.token()
  const [head, , signature] = good.split('.')
  const raised = Buffer.from(JSON.stringify({ ...claims, tenant: 'root' })).toString('base64url')
  expect(await refusal(tokens.verify(`${head}.${raised}.${signature}`))).toEqual(invalid('its signature does not hold'))
})

test('a key that comes with the token counts for nothing: jwk, jku, x5u', async () => {
  const { issuer, tokens } = await room()
  const own = await createSigningKey('mine', 'ES256')
  const elsewhere = await startTokenIssuer(onTestFinished)
  elsewhere.published = [own]
  for (const header of [{ jwk: own.jwk }, { jku: elsewhere.url }, { x5u: elsewhere.url }]) {
    expect(await refusal(tokens.verify(await issuer.token({}, { key: own, header })))).toEqual(invalid('none of its issuer\'s keys signed it'))
  }
  expect(elsewhere.asked).toBe(0)
})

test('a new key of the issuer is taken with its first token, one it took back no more once the keys are read again', async () => {
  const { issuer, tokens } = await room()
  const before = await issuer.token()
  await tokens.verify(before)
  issuer.published = [await createSigningKey('second', 'ES256')]
  expect(await tokens.verify(await issuer.token())).toMatchObject({ tenant: 'acme' })
  expect(await refusal(tokens.verify(before))).toEqual(invalid('none of its issuer\'s keys signed it'))
})

test('unknown keys do not make the service ask the issuer again and again', async () => {
  const { issuer, tokens } = await room({ cooldownMs: 60_000 })
  const stranger = await createSigningKey('nobody', 'ES256')
  for (let i = 0; i < 20; i++) await refusal(tokens.verify(await issuer.token({}, { key: { ...stranger, kid: `nobody-${i}` } })))
  expect(issuer.asked).toBe(1)
})

/** jose goes by the clock of the process. */
const setClock = (now: number): void => { vi.setSystemTime(now) }
function fakeClock (): number {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => { vi.useRealTimers() })
  return Date.now()
}

test('unless it is set otherwise, unknown keys make the issuer be asked once in ten seconds', async () => {
  const start = fakeClock()
  const { issuer, tokens } = await room({ cooldownMs: undefined })
  const stranger = await createSigningKey('nobody', 'ES256')
  const tryAt = async (ms: number): Promise<number> => {
    setClock(start + ms)
    for (let i = 0; i < 3; i++) await refusal(tokens.verify(await issuer.token({}, { key: { ...stranger, kid: `nobody-${ms}-${i}` } })))
    return issuer.asked
  }
  expect([await tryAt(0), await tryAt(9000), await tryAt(10_500), await tryAt(19_000), await tryAt(21_500)]).toEqual([1, 1, 2, 2, 3])
})

test('the keys of the issuer are read again after ten minutes, so that one it took back ends without a new one', async () => {
  const start = fakeClock()
  const { issuer, tokens } = await room()
  const token = await issuer.token({ exp: inS(3600) })
  await tokens.verify(token)
  issuer.published = [await createSigningKey('second', 'ES256')]
  setClock(start + 590_000)
  expect(await tokens.verify(token)).toMatchObject({ tenant: 'acme' })
  setClock(start + 610_000)
  expect(await refusal(tokens.verify(token))).toEqual(invalid('none of its issuer\'s keys signed it'))
})

test('many first tokens at once ask for the keys once', async () => {
  const { issuer, tokens } = await room()
  const token = await issuer.token()
  await Promise.all(Array.from({ length: 20 }, () => tokens.verify(token)))
  expect(issuer.asked).toBe(1)
})

test.for<[name: string, spoil: (issuer: TokenIssuer) => unknown]>([
  ['that is down', (issuer) => issuer.stop()],
  ['that never answers', (issuer) => { issuer.answer = 'hang' }],
  ['that fails', (issuer) => { issuer.answer = 500 }],
  ['that has moved', (issuer) => { issuer.answer = 302 }],
  ['that sends no JSON', (issuer) => { issuer.answer = { text: '<html>' } }],
  ['that sends no keys', (issuer) => { issuer.answer = { text: '{"keys": 1}' } }],
  ['that sends too much', (issuer) => { issuer.answer = { text: `{"keys": [], "pad": "${'x'.repeat(2 ** 20)}"}` } }],
  ['that sends a broken key', (issuer) => { issuer.answer = { text: '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "first", "x": "AA", "y": "AA"}]}' } }]
])('a key server %s is 503 and told, never 401: the token may be a good one', async ([, spoil]) => {
  const { issuer, tokens, faults } = await room({ timeoutMs: 100 })
  const token = await issuer.token()
  await spoil(issuer)
  expect(await refusal(tokens.verify(token))).toEqual({
    code: 'AUTH_UNAVAILABLE', text: 'the token cannot be checked now: the keys of its issuer cannot be had'
  })
  expect(faults).toHaveLength(1)
})

test('after a failure the key server is left alone for a moment, then asked again', async () => {
  const { issuer, tokens, faults, clock } = await room()
  const token = await issuer.token()
  issuer.answer = 500
  for (let i = 0; i < 10; i++) expect((await refusal(tokens.verify(token))).code).toBe('AUTH_UNAVAILABLE')
  expect([issuer.asked, faults.length]).toEqual([1, 1])
  issuer.answer = 'keys'
  clock.now += 2001
  expect(await tokens.verify(token)).toMatchObject({ tenant: 'acme' })
})

test('tokens of keys that are known are taken while the key server is down', async () => {
  const { issuer, tokens } = await room()
  await tokens.verify(await issuer.token())
  await issuer.stop()
  expect(await tokens.verify(await issuer.token({ tenant: 'other' }))).toMatchObject({ tenant: 'other' })
})

test.for<[claim: unknown, detail: string]>([
  [undefined, 'the token has no claim "tenant"'],
  ...['', 'a b', 'a/b', '../x', 'x'.repeat(65), 'ünïcode', 7, ['acme'], null, { name: 'acme' }].map((value): [unknown, string] =>
    [value, 'the token\'s claim "tenant" must be 1 to 64 letters, digits, "_", "." or "-"'])
])('a tenant of %j is 403', async ([tenant, detail]) => {
  const { issuer, tokens } = await room()
  expect(await refusal(tokens.verify(await issuer.token({ tenant })))).toEqual({ code: 'FORBIDDEN', text: detail })
})

test('a claim is the token\'s own: none is found on its prototype', async () => {
  const { issuer, tokens } = await room({ settings: { tenantClaim: 'constructor' } })
  expect(await refusal(tokens.verify(await issuer.token()))).toEqual({ code: 'FORBIDDEN', text: 'the token has no claim "constructor"' })
})

test('models, depth and limits are read from the claims that the configuration names, and from none that it does not', async () => {
  const claims = { models: ['scripted/*'], minDepth: 2, limits: { running: 3 } }
  const plain = await room()
  expect(await plain.tokens.verify(await plain.issuer.token(claims))).toEqual({ id: 'token:acme', tenant: 'acme', scopes: ['read', 'write'] })
  const named = await room({ settings: { modelsClaim: 'models', minDepthClaim: 'minDepth', limitsClaim: 'limits' } })
  expect(await named.tokens.verify(await named.issuer.token(claims))).toMatchObject(claims)
  for (const missing of ['models', 'minDepth', 'limits']) {
    expect(await refusal(named.tokens.verify(await named.issuer.token({ ...claims, [missing]: undefined })))).toMatchObject({ code: 'FORBIDDEN' })
  }
  for (const wrong of [{ models: 'all' }, { minDepth: -1 }, { minDepth: '2' }, { limits: { running: 0 } }, { limits: { other: 1 } }, { limits: 3 }]) {
    expect(await refusal(named.tokens.verify(await named.issuer.token({ ...claims, ...wrong })))).toMatchObject({ code: 'FORBIDDEN' })
  }
})

const get = (service: Service, bearer: string, path = '/v1/runs'): Promise<Answer> => service.call('GET', path, undefined, { authorization: `Bearer ${bearer}` })

test('8.1 a service takes keys and tokens side by side; a tenant is the same by either', async () => {
  const issuer = await startTokenIssuer(onTestFinished)
  const keys = createKeyRing({
    path: 'keys.yaml', now: Date.now, onFault: () => {}, watch: () => () => {},
    readFile: () => JSON.stringify([{ id: 'k', sha256: sha256('aa.bb.cc').toString('hex'), tenant: 'acme' }])
  })
  const service = await startService(onTestFinished, { keys, env: tokenEnv(issuer) })
  const token = await issuer.token()
  const { body: run } = await service.call('POST', '/v1/runs', { task: 'a' }, { authorization: `Bearer ${token}` })
  for (const bearer of [token, 'aa.bb.cc']) expect((await get(service, bearer, `/v1/runs/${run.id}`)).status).toBe(200)
  expect((await get(service, await issuer.token({ tenant: 'other' }), `/v1/runs/${run.id}`)).status).toBe(404)
  for (const wrong of ['aa.bb.cd', 'nothing', 'a.b']) expect(await get(service, wrong)).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } })
  expect(await get(service, await issuer.token({ scope: 'read' }))).toMatchObject({ status: 200 })
  const reader = await service.call('POST', '/v1/runs', { task: 'a' }, { authorization: `Bearer ${await issuer.token({ scope: 'read' })}` })
  expect(reader).toMatchObject({ status: 403, body: { detail: 'the token lacks the scope "write"' } })
  for (const scope of [undefined, 7, '', 'reader']) {
    expect(await get(service, await issuer.token({ scope }))).toMatchObject({ status: 403, body: { detail: 'the token lacks the scope "read"' } })
  }
})

test('8.2 with tokens alone nobody comes without one; health does, and a broken key server is 503 with Retry-After', async () => {
  const issuer = await startTokenIssuer(onTestFinished)
  const service = await startService(onTestFinished, { env: tokenEnv(issuer) })
  const bare = await service.call('GET', '/v1/runs')
  expect(bare).toMatchObject({ status: 401, body: { detail: 'a token is needed: send "Authorization: Bearer TOKEN"' } })
  expect(bare.headers.get('www-authenticate')).toBe('Bearer')
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  issuer.answer = 500
  const down = await get(service, await issuer.token())
  expect(down).toMatchObject({ status: 503, body: { code: 'AUTH_UNAVAILABLE', retryable: true } })
  expect(down.headers.get('retry-after')).toBe('2')
})

test('8.1 limits of tokens hold for their tenant together', async () => {
  const issuer = await startTokenIssuer(onTestFinished)
  const service = await startService(onTestFinished, {
    env: tokenEnv(issuer), yaml: 'auth: {jwt: {limitsClaim: limits}}'
  })
  const start = async (sub: string, tenant: string): Promise<number> => (await service.call('POST', '/v1/runs', { task: 'a' },
    { authorization: `Bearer ${await issuer.token({ sub, tenant, limits: { startsPerMinute: 2 } })}` })).status
  expect([await start('x', 'a'), await start('y', 'a'), await start('z', 'a'), await start('x', 'b')]).toEqual([201, 201, 429, 201])
})

test('a huge token is refused before it is looked into; a larger one is no request', async () => {
  const issuer = await startTokenIssuer(onTestFinished)
  const service = await startService(onTestFinished, { env: tokenEnv(issuer) })
  expect(await get(service, await issuer.token({ pad: 'x'.repeat(7000) }))).toMatchObject({ status: 401, body: { detail: 'the token is too long' } })
  expect((await get(service, await issuer.token({ pad: 'x'.repeat(40_000) }))).status).toBe(431)
  expect(issuer.asked).toBe(0)
})

test('§9 the three variables go together; the file may give them; a key server in the clear is of this machine only', () => {
  const all = { JWT_JWKS_URL: 'https://login.test/jwks', JWT_ISSUER: ISSUER, JWT_AUDIENCE: AUDIENCE }
  const load = (env: Record<string, string>, yaml = '') => loadConfig({ ...env, CONFIG: 'c.yaml' }, () => yaml)
  expect(load(all)).toMatchObject({ access: 'keys', jwt: { issuer: ISSUER, tenantClaim: 'tenant', scopeClaim: 'scope' } })
  expect(load({ ...all, HOST: '0.0.0.0' }).access).toBe('keys')
  expect(load({ JWT_AUDIENCE: 'mine' }, 'auth: {jwt: {jwksUrl: "https://a.test/k", issuer: i, audience: a, tenantClaim: "https://a.test/org"}}').jwt)
    .toEqual({ jwksUrl: 'https://a.test/k', issuer: 'i', audience: 'mine', tenantClaim: 'https://a.test/org', scopeClaim: 'scope' })
  expect(load({}).jwt).toBeUndefined()
  for (const missing of Object.keys(all)) expect(() => load({ ...all, [missing]: '' })).toThrow(`${missing}: is missing`)
  expect(() => load({}, 'auth: {jwt: {}}')).toThrow('JWT_JWKS_URL: is missing')
  expect(() => load(all, 'auth: {jwt: {secret: x}}')).toThrow('auth.jwt.secret: is not known')
  for (const url of ['http://login.test/jwks', 'http://127.0.0.1.evil.test/', 'ftp://a.test', 'file:///etc/passwd', 'https://u:p@a.test/', 'x']) {
    expect(() => load({ ...all, JWT_JWKS_URL: url })).toThrow('JWT_JWKS_URL: must be an https URL')
  }
  for (const url of ['http://127.0.0.1:1/', 'http://localhost:1/', 'http://[::1]:1/']) expect(load({ ...all, JWT_JWKS_URL: url }).access).toBe('keys')
})
