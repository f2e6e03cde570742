import { setImmediate as turn } from 'node:timers/promises'
import type { SessionEvent } from '../core/events.ts'
import type { Seed } from '../core/provider.ts'
import type { RunRecord } from '../core/run.ts'
import type { Store } from '../core/store.ts'

/** Read in one go; the answer to the start waits for no more than this. */
const PAGE = 200
/** Events that a publication writes itself; more of them would keep others waiting. */
const LONG = 500

/** The seed as publication takes it: a host's long transcript is kept first, in small steps, and only referred to then. */
export async function keepSeed (store: Store, seed: Seed | undefined, signal: AbortSignal): Promise<Seed | undefined> {
  if (!seed || 'segment' in seed.stored || seed.events <= LONG) return seed
  return { ...seed, stored: await store.keepSeed(seed.stored.events, signal) }
}

/** Undoes `keepSeed`. */
export function dropSeed (store: Store, given: Seed | undefined, kept: Seed | undefined): void {
  if (kept && kept !== given && 'segment' in kept.stored) store.dropSeed(kept.stored.segment)
}

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
