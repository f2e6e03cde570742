import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { Store } from '../../src/core/store.ts'
import { openSqliteStore, type SqliteStoreOptions } from '../../src/store/sqlite.ts'
import { append, childOf, publish, said, settle, T, type Published } from '../store/support.ts'

async function open (options: Partial<SqliteStoreOptions> = {}): Promise<Store> {
  return await openSqliteStore({ path: ':memory:', now: () => 0, retentionMs: 1000, ...options })
}
async function opened (options: Partial<SqliteStoreOptions> = {}): Promise<Store> {
  const store = await open(options)
  onTestFinished(() => store.close())
  return store
}
const left = async (store: Store, tenant = T): Promise<string[]> => (await store.listRuns(tenant, {}, { limit: 10_000 })).map(({ id }) => id)

test('the children of one run, however many, go after it', async () => {
  const store = await opened()
  const root = await publish(store)
  const children = await Promise.all(Array.from({ length: 450 }, () => publish(store, { run: childOf(root) })))
  await Promise.all(children.map((child) => settle(store, child, 0, 1000)))
  expect(await store.sweep(5000)).toBe(0)
  expect(await store.getRun(T, children[0]?.id as string)).toMatchObject({ status: 'settled', expiresAt: null })
  await settle(store, root, 0, 6000)
  expect(await store.sweep(6999)).toBe(0)
  expect(await store.sweep(7000)).toBe(451)
  expect(await left(store)).toEqual([])
})

test('what waits for its parent alone is not looked at again, and counts among no newest', async () => {
  const store = await opened({ retentionRuns: 2 })
  const root = await publish(store)
  for (let n = 0; n < 5; n++) await settle(store, await publish(store, { run: childOf(root) }), 0, n)
  expect(await store.sweep(5000)).toBe(0)
  const others = [await publish(store), await publish(store), await publish(store)]
  for (const [n, run] of others.entries()) await settle(store, run, 0, 5000 + n)
  expect(await store.sweep(5500)).toBe(1)
  expect(await left(store)).toHaveLength(1 + 5 + 2)
  await settle(store, root, 0, 5003)
  expect(await store.sweep(5500)).toBe(1)
  expect(await store.sweep(9000)).toBe(2 + 5)
})

test('an id that was used again is no parent of those that its first run started', async () => {
  const store = await opened()
  const first = await publish(store)
  const child = await publish(store, { run: childOf(first) })
  await settle(store, first, 0, 0)
  await store.deleteRuns(T, [first.id])
  await publish(store, { run: { ...childOf(child), id: first.id, sessionId: first.id } })
  await settle(store, child, 0, 0)
  expect(await store.sweep(2000)).toBe(1)
  expect(await left(store)).toEqual([first.id])
})

test('RETENTION_RUNS counts each tenant for itself', async () => {
  const store = await opened({ retentionRuns: 3 })
  for (const [tenant, count] of [['a', 5], ['b', 2], ['c', 4]] as const) {
    for (let n = 0; n < count; n++) await settle(store, await publish(store, { run: { tenant } }), 0, n)
  }
  expect(await store.sweep(0)).toBe(2 + 1)
  expect([await left(store, 'a'), await left(store, 'b'), await left(store, 'c')].map(({ length }) => length)).toEqual([3, 2, 3])
})

test('RETENTION_RUNS holds where many more are kept than are counted at once', async () => {
  const store = await opened({ retentionRuns: 5001 })
  const runs = await Promise.all(Array.from({ length: 5003 }, () => publish(store)))
  await Promise.all(runs.map((run, n) => settle(store, run, 0, n < 2 ? 10 : 20)))
  expect(await store.sweep(20)).toBe(2)
  expect(await Promise.all(runs.slice(0, 3).map(async ({ id }) => await store.getRun(T, id) !== undefined))).toEqual([false, false, true])
})

test('a sweep that is told to stop ends after the step it is in; the next one goes on', async () => {
  const store = await opened()
  await Promise.all(Array.from({ length: 500 }, async () => settle(store, await publish(store), 0, 0)))
  const stop = new AbortController()
  const sweeping = store.sweep(2000, stop.signal)
  while ((await left(store)).length === 500) await new Promise(setImmediate)
  stop.abort()
  const gone = await sweeping
  expect(gone).toBeLessThan(500)
  expect(gone + await store.sweep(2000)).toBe(500)
})

test('a log of many large events goes in small steps: writes come in between', async () => {
  const store = await opened()
  const big = await publish(store)
  for (let from = 0; from < 400; from += 100) await append(store, big, from, Array.from({ length: 100 }, () => said('x'.repeat(100_000))))
  await settle(store, big, 400, 0)
  const run = await publish(store)
  let sweeping = true
  const swept = store.sweep(2000).finally(() => { sweeping = false })
  let during = 0
  for (; sweeping; during++) await append(store, run, during, [said('y')])
  expect(await swept).toBe(1)
  expect(during).toBeGreaterThan(3)
  expect(await store.readEvents(big.segment, 0)).toEqual([])
})

interface Model { run: Published, parent: number | null, settledAt: number | null, gone: boolean }

test('whatever trees settle and expire, in any order: no run goes before its time or its parent, none stays beyond both, and the newest stay', async () => {
  const act = fc.oneof(
    fc.record({ do: fc.constant('start' as const), parent: fc.option(fc.nat(30)) }),
    fc.record({ do: fc.constant('settle' as const), who: fc.nat(30) }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 400, 1000, 5000) })
  )
  await fc.assert(fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 50 }), fc.option(fc.integer({ min: 1, max: 4 })), async (acts, keep) => {
    const store = await open(keep === null ? {} : { retentionRuns: keep })
    const models: Model[] = []
    let now = 0
    try {
      for (const step of [...acts, { do: 'pass' as const, ms: 10_000 }]) {
        const there = models.filter(({ gone }) => !gone)
        if (step.do === 'start') {
          const parent = step.parent === null || there.length === 0 ? null : models.indexOf(there[step.parent % there.length] as Model)
          const above = parent === null ? undefined : models[parent]
          models.push({ run: await publish(store, above ? { run: childOf(above.run) } : {}), parent, settledAt: null, gone: false })
        } else if (step.do === 'settle') {
          const open = there.filter(({ settledAt }) => settledAt === null)
          const one = open[step.who % Math.max(1, open.length)]
          if (!one) continue
          one.settledAt = now
          await settle(store, one.run, 0, now)
        } else {
          now += step.ms
          await store.sweep(now)
          const ids = new Set(await left(store))
          for (const model of models) {
            const stays = ids.has(model.run.id)
            const parent = model.parent === null ? undefined : models[model.parent]
            if (model.settledAt === null) expect(stays).toBe(true)
            if (!stays && parent) expect(ids.has(parent.run.id)).toBe(false)
            if (!stays && !model.gone && keep === null) expect(model.settledAt as number + 1000).toBeLessThanOrEqual(now)
            if (stays && model.settledAt !== null && model.settledAt + 1000 <= now) expect(parent && ids.has(parent.run.id)).toBe(true)
            model.gone = !stays
          }
          const timed = (await store.listRuns(T, { status: ['settled'] }, { limit: 1000 })).filter(({ expiresAt }) => expiresAt !== null)
          if (keep !== null) expect(timed.length).toBeLessThanOrEqual(keep)
        }
      }
    } finally {
      await store.close()
    }
  }), { numRuns: 60 })
})
