import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose'
import type { AtEnd } from './service.ts'

export const ISSUER = 'https://login.test/'
export const AUDIENCE = 'subagentd'

export interface SigningKey { kid: string, alg: string, privateKey: CryptoKey, publicKey: CryptoKey, jwk: JWK }
/** How the key server answers: with its keys, with a status, never, or with this text. */
export type KeyAnswer = 'keys' | number | 'hang' | { text: string }

export interface TokenIssuer {
  url: string
  /** What it publishes; a test may change it. */
  published: SigningKey[]
  answer: KeyAnswer
  /** How often its keys were asked for. */
  readonly asked: number
  /** A token of its first key with these claims beside the usual ones; `undefined` leaves a claim out. */
  token (claims?: Record<string, unknown>, options?: { key?: SigningKey, header?: Record<string, unknown>, expires?: number | null }): Promise<string>
  /** Ends the server: nobody listens there any more. */
  stop (): Promise<void>
}

export async function createSigningKey (kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, privateKey, publicKey, jwk: { ...await exportJWK(publicKey), kid, alg, use: 'sig' } }
}

/** A real key server of an issuer on the loopback. */
export async function startTokenIssuer (atEnd: AtEnd, alg = 'ES256'): Promise<TokenIssuer> {
  let asked = 0
  const server = createServer((_, response) => {
    asked++
    const { answer } = issuer
    if (answer === 'hang') return
    if (typeof answer === 'number') return void response.writeHead(answer).end('no')
    response.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
    response.end(answer === 'keys' ? JSON.stringify({ keys: issuer.published.map(({ jwk }) => jwk) }) : answer.text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = async (): Promise<void> => {
    if (!server.listening) return
    await new Promise((resolve) => { server.close(resolve); server.closeAllConnections() })
  }
  atEnd(stop)
  const issuer: TokenIssuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    published: [await createSigningKey('first', alg)],
    answer: 'keys',
    get asked () { return asked },
    async token (claims = {}, { key = issuer.published[0], header = {}, expires = Math.floor(Date.now() / 1000) + 300 } = {}) {
      if (!key) throw new Error('no key to sign with')
      const all = { iss: ISSUER, aud: AUDIENCE, tenant: 'acme', scope: 'read write', ...expires === null ? {} : { exp: expires }, ...claims }
      const payload = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
      return await new SignJWT(payload).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(key.privateKey)
    },
    stop
  }
  return issuer
}

export const tokenEnv = (issuer: TokenIssuer): Record<string, string> =>
  ({ JWT_JWKS_URL: issuer.url, JWT_ISSUER: ISSUER, JWT_AUDIENCE: AUDIENCE })
