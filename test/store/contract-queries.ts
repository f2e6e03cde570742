import { describe, expect, test } from 'vitest'
import { noUsage } from '../../src/core/events.ts'
import type { RunFilter } from '../../src/core/run.ts'
import type { Store } from '../../src/core/store.ts'
import type { NewStore } from './contract.ts'
import { childOf, newId, publish, refused, settle, T } from './support.ts'

export function describeQueries (name: string, newStore: NewStore): void {
  const listed = async (store: Store, filter: RunFilter, limit = 100): Promise<string[]> =>
    (await store.listRuns(T, filter, { limit })).map((run) => run.id)

  describe(`${name}: queries`, () => {
    test('runs are listed newest first by (createdAt, id), page after page, none twice and none left out', async () => {
      const store = await newStore()
      const runs = await Promise.all(Array.from({ length: 23 }, async (_, i) => {
        const createdAt = 100 + i % 4
        return { createdAt, id: (await publish(store, { run: { createdAt } })).id }
      }))
      await publish(store, { run: { tenant: 'tenant-b' } })
      const wanted = runs.toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1)).map((run) => run.id)
      const seen: string[] = []
      for (let before: { createdAt: number, id: string } | undefined; ;) {
        const page = await store.listRuns(T, {}, { limit: 5, ...(before && { before }) })
        seen.push(...page.map((run) => run.id))
        before = page.at(-1)
        if (page.length < 5) break
      }
      expect(seen).toEqual(wanted)
    })

    test('every filter narrows the list, and filters combine', async () => {
      const store = await newStore()
      const root = await publish(store, { run: { createdAt: 1, label: 'l', metadata: { a: '1', b: '2' } } })
      const forked = { createdAt: 2, provider: 'fork', status: 'queued', metadata: { a: '1' } } as const
      const child = await publish(store, { run: childOf(root, forked) })
      const grandchild = await publish(store, { run: childOf(child, { createdAt: 3, rootId: root.id, label: 'l' }) })
      const other = await publish(store, { run: { createdAt: 4, metadata: { a: '2' } } })
      await settle(store, other, 0, 50)
      expect(await listed(store, {})).toEqual([other.id, grandchild.id, child.id, root.id])
      expect(await listed(store, { status: ['running'] })).toEqual([grandchild.id, root.id])
      expect(await listed(store, { status: ['running', 'queued'] })).toEqual([grandchild.id, child.id, root.id])
      expect(await listed(store, { status: ['settled', 'queued'] })).toEqual([other.id, child.id])
      expect(await listed(store, { stopReason: ['completed'] })).toEqual([other.id])
      expect(await listed(store, { stopReason: ['aborted', 'error'] })).toEqual([])
      expect(await listed(store, { provider: 'fork' })).toEqual([child.id])
      expect(await listed(store, { parent: root.id })).toEqual([child.id])
      expect(await listed(store, { root: root.id })).toEqual([grandchild.id, child.id, root.id])
      expect(await listed(store, { root: child.id })).toEqual([])
      expect(await listed(store, { label: 'l' })).toEqual([grandchild.id, root.id])
      expect(await listed(store, { label: 'L' })).toEqual([])
      expect(await listed(store, { createdAfter: 2 })).toEqual([other.id, grandchild.id])
      expect(await listed(store, { settledAfter: 49 })).toEqual([other.id])
      expect(await listed(store, { settledAfter: 50 })).toEqual([])
      expect(await listed(store, { metadata: { a: '1' } })).toEqual([child.id, root.id])
      expect(await listed(store, { metadata: { a: '1', b: '2' } })).toEqual([root.id])
      expect(await listed(store, { root: root.id, label: 'l', status: ['running'], createdAfter: 1 })).toEqual([grandchild.id])
      expect(await listed(store, { root: root.id }, 2)).toEqual([grandchild.id, child.id])
    })

    test('a metadata filter matches whole pairs only, whatever characters they hold', async () => {
      const store = await newStore()
      const pairs: [string, string][] = [
        ['k', 'v'], ['k"', 'v'], ['k\\', 'v'], ['$.k', '%'], ['\0', '\ud800'], ['', ''], ['k', 'v"'], ['x', '"k":"v"'],
        ['__proto__', 'v']
      ]
      const ids: string[] = []
      for (const [key, value] of pairs) {
        const metadata = Object.fromEntries([['z', 'z'], [key, value]])
        ids.push((await publish(store, { run: { metadata } })).id)
      }
      for (const [i, [key, value]] of pairs.entries()) {
        expect(await listed(store, { metadata: Object.fromEntries([[key, value]]) })).toEqual([ids[i]])
      }
    })

    test('a rare match far back in a long list is found', async () => {
      const store = await newStore()
      const rare = await publish(store, { run: { createdAt: 0, label: 'rare' } })
      const times = Array.from({ length: 11_000 }, (_, i) => 1 + Math.floor(i / 3000))
      await Promise.all(times.map(async (createdAt) => publish(store, { run: { createdAt } })))
      expect(await listed(store, { label: 'rare' })).toEqual([rare.id])
      expect(await listed(store, { label: 'rare', createdAfter: 0 })).toEqual([])
      expect(new Set(await listed(store, { provider: 'spawn' }, 12_000)).size).toBe(11_001)
    })

    test('descendants come at any depth, parents before children, without the run itself', async () => {
      const store = await newStore()
      const root = await publish(store)
      const a = await publish(store, { run: childOf(root, { createdAt: 9 }) })
      const b = await publish(store, { run: childOf(root, { createdAt: 8 }) })
      const aa = await publish(store, { run: childOf(a, { createdAt: 1 }) })
      await publish(store)
      expect((await store.descendants(T, root.id)).map((run) => run.id)).toEqual([a.id, b.id, aa.id])
      expect(await store.descendants(T, aa.id)).toEqual([])
      expect(await store.descendants(T, newId())).toEqual([])
      expect(await store.descendants('tenant-b', root.id)).toEqual([])
    })

    test('parent references that make a circle, after an id was used again, end', async () => {
      const store = await newStore()
      const first = await publish(store)
      const child = await publish(store, { run: childOf(first) })
      await settle(store, first, 0)
      await store.deleteRuns(T, [first.id])
      await publish(store, { run: childOf(child, { id: first.id }) })
      expect((await store.descendants(T, child.id)).map((run) => run.id)).toEqual([first.id])
      expect((await store.treeUsage(T, [child.id])).size).toBe(1)
      expect(await store.readTree(T, child.id, 0, 10)).toEqual([])
    })

    test('runningChildren counts direct children that are not settled', async () => {
      const store = await newStore()
      const root = await publish(store)
      const child = await publish(store, { run: childOf(root, { status: 'queued' }) })
      const done = await publish(store, { run: childOf(root) })
      await publish(store, { run: childOf(child) })
      await settle(store, done, 0)
      const counts = await store.runningChildren(T, [root.id, child.id, done.id])
      expect(counts).toEqual(new Map([[root.id, 1], [child.id, 1], [done.id, 0]]))
    })

    test('2.5 treeUsage sums the run with all its descendants', async () => {
      const store = await newStore()
      const usage = (inputTokens: number) => ({ ...noUsage(), inputTokens, steps: 1 })
      const root = await publish(store, { run: { usage: usage(1) } })
      const child = await publish(store, { run: childOf(root, { usage: usage(10) }) })
      const leaf = await publish(store, { run: childOf(child, { usage: usage(100) }) })
      await publish(store, { run: childOf(root, { usage: usage(1000) }) })
      const sums = await store.treeUsage(T, [root.id, child.id, leaf.id, newId()])
      expect(sums).toEqual(new Map([
        [root.id, { ...usage(1111), steps: 4 }], [child.id, { ...usage(110), steps: 2 }], [leaf.id, usage(100)]
      ]))
    })

    test('runs left open are found, of every tenant, oldest first', async () => {
      const store = await newStore()
      const late = await publish(store, { run: { createdAt: 9, status: 'waiting' } })
      const early = await publish(store, { run: { createdAt: 3, status: 'queued', tenant: 'tenant-b' } })
      await settle(store, await publish(store), 0)
      expect((await store.unsettledRuns()).map((run) => run.id)).toEqual([early.id, late.id])
    })

    test('runs of another tenant do not exist', async () => {
      const store = await newStore()
      const run = await publish(store, { idempotency: { route: 'runs', key: 'k', bodyHash: 'h' } })
      expect(await store.getRun('tenant-b', run.id)).toBeUndefined()
      expect(await store.getSpec('tenant-b', run.id)).toBeUndefined()
      expect(await store.getSession('tenant-b', run.sessionId)).toBeUndefined()
      expect(await store.findIdempotency('tenant-b', 'runs', 'k')).toBeUndefined()
      await refused(store.patchRun('tenant-b', run.id, { startedAt: 1 }), 'RUN_NOT_FOUND')
      await settle(store, run, 0)
      await store.deleteRuns('tenant-b', [run.id])
      await store.deleteSession('tenant-b', run.sessionId)
      expect(await store.getSession(T, run.sessionId)).toBeDefined()
    })
  })
}
