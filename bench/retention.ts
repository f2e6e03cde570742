import { randomUUID } from 'node:crypto'
import { noUsage, text, type NewEvent, type SessionEvent } from '../src/core/events.ts'
import type { Store } from '../src/core/store.ts'
import { openSqliteStore } from '../src/store/sqlite.ts'
import type { Bench, Row } from './bench.ts'
import { inParallel } from './client.ts'
import { ms, seconds, within } from './figures.ts'

const TENANT = 'bench'
const said: NewEvent = { type: 'user/message', data: { content: [text('what a model may say in a line or two, more or less '.repeat(4))] } }

/** How long the event loop stands still while much expires at once: by age, by count, and one long log. */
export async function retention (bench: Bench): Promise<Row[]> {
  const runs = bench.quick ? 5_000 : 100_000
  const events = bench.quick ? 10_000 : 200_000
  return [
    ...await expiring(bench, `${runs.toLocaleString('en')} runs of 10 events expire by age`, { runs, events: 10 }),
    ...await expiring(bench, `${runs.toLocaleString('en')} runs of 10 events expire by count`, { runs, events: 10, keep: 1 }),
    ...await expiring(bench, `a run of ${events.toLocaleString('en')} events expires`, { runs: 1, events })
  ]
}

interface Expiring { runs: number, events: number, keep?: number }

async function expiring (bench: Bench, what: string, { runs, events, keep }: Expiring): Promise<Row[]> {
  const store = await openSqliteStore({
    path: bench.database(), now: () => 0, retentionMs: 1000, ...keep === undefined ? {} : { retentionRuns: keep }
  })
  try {
    await inParallel(runs, 256, () => settled(store, events))
    const loop = watchLoop()
    const begun = performance.now()
    const gone = await store.sweep(keep === undefined ? 10_000 : 0)
    const elapsed = performance.now() - begun
    const longest = await loop.stop()
    if (gone < runs - (keep ?? 0)) throw new Error(`${gone} of ${runs} runs expired`)
    return [
      within(`${what}: longest stop of the event loop, its work`, longest.cpu, ms, { most: 20 }),
      { what: `${what}: longest stop, the wait for the disk and the other processes included`, figure: ms(longest.wall), floor: '–', ratio: '–', bar: '–', met: null },
      { what: `${what}: all gone after`, figure: seconds(elapsed), floor: '–', ratio: '–', bar: '–', met: null }
    ]
  } finally {
    await store.close()
  }
}

/** A run with its log, settled. */
async function settled (store: Store, events: number): Promise<void> {
  const id = randomUUID()
  const { segment } = await store.publish({
    run: {
      id, tenant: TENANT, sessionId: id, continues: null, provider: 'spawn', label: null, status: 'running', stopReason: null,
      error: null, depth: 1, parentRunId: null, parentSessionId: null, rootId: id, model: 'scripted/demo',
      seed: { turns: 0, events: 0 }, notices: [], createdAt: 0, startedAt: 0, settledAt: null, expiresAt: null, cancel: null,
      usage: noUsage(), pendingToolCalls: [], metadata: {}, result: null
    },
    spec: { prompt: [text('hello')], model: 'scripted/demo', agentOptions: {}, hostTools: [], codeMode: 'native', limits: {}, depth: 1, relay: {} },
    header: { id, tenant: TENANT, createdAt: 0, delegationDepth: 1 }
  })
  for (let from = 0; from < events; from += 1000) {
    const piece = Array.from({ length: Math.min(1000, events - from) }, (_, i) => ({ ...said, seq: from + i, time: 0 }) as SessionEvent)
    const patch = { status: 'settled' as const, stopReason: 'completed' as const, settledAt: 0 }
    await store.append({ segment, events: piece, ...from + 1000 >= events ? { run: { tenant: TENANT, id, patch } } : {} })
  }
}

interface Stops { wall: number, cpu: number }

/** The longest time between two turns of this process's event loop, in ms; and the most that its thread worked in one. */
function watchLoop (): { stop: () => Promise<Stops> } {
  let watching = true
  const worked = (): number => { const { user, system } = process.threadCpuUsage(); return (user + system) / 1000 }
  const watched = (async () => {
    const longest = { wall: 0, cpu: 0 }
    for (let [last, before] = [performance.now(), worked()]; watching;) {
      await new Promise(setImmediate)
      const [now, cpu] = [performance.now(), worked()]
      longest.wall = Math.max(longest.wall, now - last)
      longest.cpu = Math.max(longest.cpu, cpu - before)
      last = now
      before = cpu
    }
    return longest
  })()
  return {
    stop () {
      watching = false
      return watched
    }
  }
}
