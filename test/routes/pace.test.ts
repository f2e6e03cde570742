import { once } from 'node:events'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import type { KeyEntry } from '../../routes/context.ts'
import { createPace, paceTenants } from '../../routes/pace.ts'
import { createApp } from './app.ts'
import { runView } from './fake-runs.ts'

/** A pace whose turns a test makes. */
function paced () {
  const turns: (() => void)[] = []
  const pace = createPace((turn) => turns.push(turn))
  const begun: string[] = []
  const enter = (tenant: string): void => {
    const later = pace.enter(tenant)
    if (later) void later.then(() => begun.push(tenant))
    else begun.push(tenant)
  }
  const next = async (): Promise<void> => {
    turns.shift()?.()
    for (let n = 0; n < 3; n++) await Promise.resolve()
  }
  return { pace, turns, begun, enter, next }
}

test('requests of one tenant alone all begin at once', () => {
  const { enter, begun, turns } = paced()
  for (let n = 0; n < 100; n++) enter('a')
  expect([begun.length, turns.length]).toEqual([100, 0])
})

test('8.3 beside another tenant\'s, a few of a tenant begin in each turn, in their order, and the other\'s at once', async () => {
  const { enter, begun, next, turns } = paced()
  enter('b')
  for (let n = 0; n < 10; n++) enter('a')
  enter('b')
  expect(begun).toEqual(['b', 'a', 'a', 'a', 'a', 'b'])
  await next()
  expect(begun.slice(6)).toEqual(['a', 'a', 'a', 'a'])
  enter('a')
  await next()
  expect(begun.slice(10)).toEqual(['a', 'a', 'a'])
  while (turns.length > 0) await next()
  expect(begun).toHaveLength(13)
})

test('once the other tenant has left, requests begin at once again', async () => {
  const { pace, enter, begun, next, turns } = paced()
  enter('b')
  for (let n = 0; n < 6; n++) enter('a')
  pace.leave('b')
  while (turns.length > 0) await next()
  expect(begun).toHaveLength(7)
  for (let n = 0; n < 20; n++) enter('a')
  expect(begun).toHaveLength(27)
})

const keyOf = (tenant: string): KeyEntry => ({ id: tenant, tenant, scopes: ['read', 'write'] })
const as = (tenant: string) => ({ authorization: `Bearer ${tenant}` })

test('8.3 every request of a key is paced, and no longer than another tenant\'s is under way', async () => {
  const { send, runs } = createApp(onTestFinished, { keys: { find: keyOf } })
  const begun: { tenant: string, turn: number }[] = []
  const held = Promise.withResolvers<void>()
  let turn = 0
  let ended = false
  const count = (): void => { turn++; if (!ended) setImmediate(count) }
  setImmediate(count)
  onTestFinished(() => { ended = true })
  runs.override.get = async ({ tenant }) => {
    begun.push({ tenant, turn })
    if (tenant === 'b') await held.promise
    return runView({ tenant })
  }
  const mostInATurn = async (): Promise<number> => {
    begun.length = 0
    await Promise.all(Array.from({ length: 40 }, () => send('GET', '/v1/runs/x', undefined, as('a'))))
    return Math.max(...Map.groupBy(begun, (one) => one.turn).values().map((ones) => ones.length))
  }
  expect(await mostInATurn()).toBe(40)
  const other = send('GET', '/v1/runs/x', undefined, as('b'))
  while (begun.at(-1)?.tenant !== 'b') await new Promise(setImmediate)
  expect(await mostInATurn()).toBeLessThanOrEqual(8)
  held.resolve()
  expect((await other).statusCode).toBe(200)
  expect(await mostInATurn()).toBe(40)
})

test('a client that goes while its token is looked at is counted out again, once', async () => {
  const { enter, leave } = createPace()
  const open = new Map<string, number>()
  const entered = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  const looked = Promise.withResolvers<void>()
  const app = Fastify()
  onTestFinished(() => app.close())
  app.decorateRequest('caller')
  let gone: Promise<unknown> = Promise.resolve()
  app.addHook('onRequest', async (request, reply) => {
    request.caller = { tenant: 'a' }
    if (request.url !== '/slow') return
    gone = once(reply.raw, 'close')
    arrived.resolve()
    await looked.promise
  })
  const add = (tenant: string, more: number): unknown => open.set(tenant, (open.get(tenant) ?? 0) + more)
  paceTenants(app, {
    enter (tenant) { add(tenant, 1); entered.resolve(); return enter(tenant) },
    leave (tenant) { add(tenant, -1); leave(tenant) }
  })
  app.get('/*', async () => 'ok')
  await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  socket.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n')
  await arrived.promise
  socket.destroy()
  await gone
  expect(open.get('a')).toBeUndefined()
  looked.resolve()
  await entered.promise
  expect(open.get('a')).toBe(0)
  expect((await app.inject('/fast')).body).toBe('ok')
  await new Promise(setImmediate)
  expect(open.get('a')).toBe(0)
})
