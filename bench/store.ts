import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { noUsage, text, type SessionEvent } from '../src/core/events.ts'
import { createIds } from '../src/core/ids.ts'
import type { Publication, Store } from '../src/core/store.ts'
import { openSqliteStore } from '../src/store/sqlite.ts'

/** `node bench/store.ts`: what the embedded store takes, without HTTP, beside a bare table that commits a row at a time. */

const SECONDS = 2
const newId = createIds(Date.now)
const folder = mkdtempSync(join(tmpdir(), 'store-bench-'))

function publicationOf (id: string): Publication {
  return {
    run: {
      id, tenant: 'default', sessionId: id, continues: null, provider: 'spawn', label: null, status: 'running', stopReason: null,
      error: null, depth: 1, parentRunId: null, parentSessionId: null, rootId: id, model: 'scripted/demo',
      seed: { turns: 0, events: 0 }, notices: [], createdAt: Date.now(), startedAt: null, settledAt: null, expiresAt: null,
      cancel: null, usage: noUsage(), pendingToolCalls: [], metadata: {}, result: null
    },
    spec: {
      prompt: [text('Read the file and say what it does.')], model: 'scripted/demo', agentOptions: {}, hostTools: [],
      codeMode: 'native', limits: {}, depth: 1, relay: {}
    },
    header: { id, tenant: 'default', createdAt: Date.now(), provider: 'spawn', delegationDepth: 1 }
  }
}

const message = (seq: number): SessionEvent =>
  ({ type: 'user/message', seq, time: Date.now(), data: { content: [text('x'.repeat(120))] } })

/** What a run of one step writes: ten events in three appends, two changes of its row. */
async function writeRun (store: Store): Promise<void> {
  const id = newId()
  const { segment } = await store.publish(publicationOf(id))
  const events = Array.from({ length: 10 }, (_, seq) => message(seq))
  const result = { output: [text('done')], stopReason: 'completed' as const, usage: noUsage() }
  const { stopReason } = result
  const settled = { status: 'settled' as const, stopReason, settledAt: Date.now(), expiresAt: Date.now(), result }
  await Promise.all([
    store.append({ segment, events: events.slice(0, 4), run: { tenant: 'default', id, patch: { startedAt: Date.now() } } }),
    store.append({ segment, events: events.slice(4, 7) }),
    store.append({ segment, events: events.slice(7), run: { tenant: 'default', id, patch: settled } })
  ])
}

/** Times `work`, `writers` at once, over and over; how many a second. */
async function rate (writers: number, work: (writer: number) => Promise<number>): Promise<number> {
  const start = performance.now()
  const until = start + SECONDS * 1000
  const counts = await Promise.all(Array.from({ length: writers }, async (_, writer) => {
    let count = 0
    while (performance.now() < until) count += await work(writer)
    return count
  }))
  return Math.round(counts.reduce((a, b) => a + b) / (performance.now() - start) * 1000)
}

async function appendRate (store: Store, writers: number, size: number): Promise<number> {
  const logs = await Promise.all(Array.from({ length: writers }, async () =>
    ({ ...await store.publish(publicationOf(newId())), next: 0 })))
  return await rate(writers, async (writer) => {
    const log = logs[writer] as { segment: number, next: number }
    const from = log.next
    log.next += size
    await store.append({ segment: log.segment, events: Array.from({ length: size }, (_, i) => message(from + i)) })
    return size
  })
}

/** One run after another, alone: the middle one's time from its publication to its settlement on the disk. */
async function runTime (store: Store): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < 2000; i++) {
    const start = performance.now()
    await writeRun(store)
    times.push(performance.now() - start)
  }
  return times.toSorted((a, b) => a - b)[times.length >> 1] as number
}

async function floorRate (): Promise<number> {
  const db = new DatabaseSync(join(folder, 'floor.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (id TEXT PRIMARY KEY, body TEXT)')
  const insert = db.prepare('INSERT INTO rows (id, body) VALUES (?, ?)')
  const body = JSON.stringify(publicationOf(newId()))
  const floor = await rate(1, async () => {
    insert.run(newId(), body)
    return 1
  })
  db.close()
  return floor
}

const store = await openSqliteStore({ path: join(folder, 'store.db'), now: Date.now, onFault: (error) => { throw error } })
const floor = await floorRate()
const table: Record<string, string | number> = { 'floor: rows/s, one a commit': floor }
const alone = await runTime(store)
table['a run of 10 events alone, p50 ms'] = `${alone.toFixed(2)} (${(alone * floor / 1000).toFixed(2)} × floor)`
for (const writers of [1, 32]) {
  table[`append of 1 event, ${writers} writers: events/s`] = await appendRate(store, writers, 1)
  table[`append of 10 events, ${writers} writers: events/s`] = await appendRate(store, writers, 10)
  const runs = await rate(writers, async () => {
    await writeRun(store)
    return 1
  })
  table[`runs of 10 events, ${writers} writers: runs/s`] = `${runs} (${(runs / floor).toFixed(2)} × floor)`
}
await store.close()
rmSync(folder, { recursive: true })
console.table(table)
