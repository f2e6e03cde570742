import { expect, test } from 'vitest'
import { createStartRate, isLoopback } from '../../routes/auth.ts'
import type { KeyEntry } from '../../routes/context.ts'
import { createApp, problem } from './app.ts'

const KEYS: Record<string, KeyEntry> = {
  full: { id: 'full', tenant: 'a', scopes: ['read', 'write'], models: ['openai/*'], minDepth: 2, limits: { running: 5 } },
  reader: { id: 'reader', tenant: 'a', scopes: ['read'] },
  meter: { id: 'meter', tenant: 'ops', scopes: ['metrics'] },
  slow: { id: 'slow', tenant: 'b', scopes: ['read', 'write'], limits: { startsPerMinute: 2 } },
  small: { id: 'small', tenant: 'b', scopes: ['read', 'write'], limits: { bodyBytes: 30 } }
}
const keys = { find: (bearer: string) => Object.hasOwn(KEYS, bearer) ? KEYS[bearer] : undefined }
const metrics = { contentType: 'text/plain; version=0.0.4', text: async () => 'up 1\n', httpRequest: () => {} }
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

test.for<[method: string, url: string, key: string | undefined, status: number]>([
  ['GET', '/v1/runs', undefined, 401], ['GET', '/v1/runs', 'nobody', 401], ['GET', '/v1/runs', '__proto__', 401], [
    'GET', '/v1/runs', 'full', 200
  ],
  ['GET', '/v1/runs', 'reader', 200], ['HEAD', '/v1/runs', 'reader', 200], ['POST', '/v1/runs', 'reader', 403], [
    'POST', '/v1/runs', 'full', 201
  ],
  ['DELETE', '/v1/runs/x', 'reader', 403], ['DELETE', '/v1/runs/x', 'full', 204], ['GET', '/v1', undefined, 401], [
    'GET', '/v1/runs', 'meter', 403
  ],
  ['GET', '/metrics', undefined, 401], ['GET', '/metrics', 'full', 403], ['GET', '/metrics', 'meter', 200],
  ['GET', '/healthz', undefined, 200], ['GET', '/readyz', undefined, 200], ['GET', '/docs', undefined, 200], [
    'GET', '/openapi.json', undefined, 200
  ],
  ['GET', '/nowhere', undefined, 404], ['PUT', '/v1/runs', undefined, 405]
])('8.1 %s %s with the key %s is %i', async ([method, url, key, status], { onTestFinished }) => {
  const { send } = createApp(onTestFinished, { keys, metrics })
  const answer = await send(method, url, method === 'POST' ? { task: 'a' } : undefined, key === undefined ? {} : bearer(key))
  expect(answer.statusCode).toBe(status)
  if (status === 401) {
    problem(answer, 401, 'UNAUTHENTICATED')
    expect(answer.headers['www-authenticate']).toBe('Bearer')
  }
  if (status === 403) problem(answer, 403, 'FORBIDDEN')
})

test('8.1 the caller is the key\'s tenant with its models, depth and limits', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished, { keys })
  await start({ task: 'a' }, { authorization: 'bearer full' })
  expect(runs.asked[0]?.caller).toEqual({ tenant: 'a', models: ['openai/*'], minDepth: 2, limits: { running: 5 } })
})

test('5.4 authentication comes before the rate, the rate before the body', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished, { keys })
  problem(await send('POST', '/v1/runs', '{bad', {}), 401, 'UNAUTHENTICATED')
  for (const expected of [400, 400, 429]) expect(
    (await send('POST', '/v1/runs', '{bad', bearer('slow'))).statusCode
  ).toBe(expected)
})

test('a key past its starts a minute is told when to come again; reading goes on', async ({ onTestFinished }) => {
  const { start, send } = createApp(onTestFinished, { keys })
  await start({ task: 'a' }, bearer('slow'))
  await start({ task: 'a' }, bearer('slow'))
  const refused = await start({ task: 'a' }, bearer('slow'))
  expect(problem(refused, 429, 'RATE_LIMITED')['retryable']).toBe(true)
  expect(refused.headers['retry-after']).toBe('30')
  expect((await send('GET', '/v1/runs', undefined, bearer('slow'))).statusCode).toBe(200)
  expect((await start({ task: 'a' }, bearer('full'))).statusCode).toBe(201)
})

test('the starts of a key refill evenly', () => {
  let now = 0
  const allow = createStartRate(() => now)
  const key: KeyEntry = { id: 'k', tenant: 't', scopes: [], limits: { startsPerMinute: 60 } }
  const taken = () => { try { allow(key); return true } catch { return false } }
  expect(Array.from({ length: 61 }, taken).filter(Boolean)).toHaveLength(60)
  now = 999
  expect(taken()).toBe(false)
  now = 1001
  expect([taken(), taken()]).toEqual([true, false])
  now = 10_000_000
  expect(Array.from({ length: 61 }, taken).filter(Boolean)).toHaveLength(60)
})

test('a key\'s own body limit holds', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished, { keys })
  problem(await start({ task: 'a'.repeat(100) }, bearer('small')), 413, 'PAYLOAD_TOO_LARGE')
  expect((await start({ task: 'a' }, bearer('small'))).statusCode).toBe(201)
})

test.for<[host: string, origin: string | undefined, access: 'loopback' | 'open', ok: boolean]>([
  ['localhost:8080', undefined, 'loopback', true], ['127.0.0.1', undefined, 'loopback', true], [
    '127.8.9.1:1', undefined, 'loopback', true
  ], ['[::1]:8080', undefined, 'loopback', true],
  ['evil.example', undefined, 'loopback', false], ['localhost.evil.example', undefined, 'loopback', false], [
    '127.0.0.1.evil.example', undefined, 'loopback', false
  ],
  ['localhost@evil.example', undefined, 'loopback', false], ['192.168.0.4', undefined, 'loopback', false],
  ['localhost:8080', 'http://localhost:8080', 'loopback', true], ['localhost:8080', 'http://localhost:9090', 'loopback', false],
  ['localhost:8080', 'http://evil.example', 'loopback', false], ['localhost:8080', 'null', 'loopback', false],
  ['service.example', undefined, 'open', true], ['service.example', 'https://service.example', 'open', true], [
    'service.example', 'https://evil.example', 'open', false
  ],
  ['service.example', 'file://service.example', 'open', false]
])('8.2 without keys: Host %s, Origin %s, %s: %s', async ([host, origin, access, ok], { onTestFinished }) => {
  const { send } = createApp(onTestFinished, { access })
  for (const url of ['/v1/runs', '/healthz', '/docs']) {
    const answer = await send('GET', url, undefined, { host, ...origin !== undefined && { origin } })
    if (ok) expect(answer.statusCode).toBe(200)
    else problem(answer, 403, 'FORBIDDEN')
  }
})

test('8.1 with keys neither Host nor Origin matters', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished, { keys })
  expect(
    (
      await send('GET', '/v1/runs', undefined, { ...bearer('full'), host: 'service.example', origin: 'https://app.example' })
    ).statusCode
  ).toBe(200)
})

test('a loopback host is a name or address of this machine', () => {
  expect(['LOCALHOST', '127.1', '[0:0:0:0:0:0:0:1]'].map(isLoopback)).toEqual([true, true, true])
  expect(['', 'localhost/x', '[::2]', 'a b', '127.0.0.256'].filter(isLoopback)).toEqual([])
})

test('rates are kept of those alone who started in the last minute, however many came', () => {
  const clock = { now: 0 }
  const buckets = new Map<string, { left: number, at: number }>()
  const allow = createStartRate(() => clock.now, buckets)
  const start = (n: number): void => allow({ id: `token:${n}`, tenant: 't', scopes: [], limits: { startsPerMinute: 1 } })
  for (let n = 0; n < 1000; n++) start(n)
  clock.now = 59_000
  expect(() => start(0)).toThrow('may start 1 runs a minute')
  expect(buckets.size).toBe(1000)
  clock.now = 61_000
  start(5000)
  expect([...buckets.keys()]).toEqual(['token:0', 'token:5000'])
  start(1)
  expect(() => start(1)).toThrow('may start 1 runs a minute')
})
