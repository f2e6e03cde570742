import { setImmediate as turn } from 'node:timers/promises'
import type { SessionEvent } from '../core/events.ts'
import type { RunRecord } from '../core/run.ts'
import type { Store } from '../core/store.ts'

const PAGE = 1000

/** The events that a run inherits, read in pages that leave others their turn; `undefined` when `signal` aborts first. */
export async function readSeed (
  store: Store, { id, segment, seed }: RunRecord, signal: AbortSignal
): Promise<SessionEvent[] | undefined> {
  const events: SessionEvent[] = []
  while (events.length < seed.events) {
    if (signal.aborted) return undefined
    const page = await store.readEvents(segment, events.length, seed.events, PAGE)
    if (page.length === 0) throw new Error(`the seed of run ${id} ends at ${events.length} of ${seed.events} events`)
    events.push(...page)
    await turn()
  }
  return events
}
