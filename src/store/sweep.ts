import type { CommitQueue } from './commit-queue.ts'
import type { Garbage } from './garbage.ts'
import type { Keys } from './keys.ts'
import type { RunWrites } from './runs.ts'
import type { Sessions } from './sessions.ts'

/** Removal of what nobody needs any more. PRIVATE: touches no table; asks the other modules, a small transaction at a time. */
export interface SweepParts {
  queue: CommitQueue
  runs: RunWrites
  sessions: Sessions
  garbage: Garbage
  keys: Keys
  retentionMs: number | undefined
}

/** Rows removed in one transaction, about: other writes come in between. */
const STEP = 1000
/** A run is some ten rows. */
const RUNS_A_STEP = 100

/** Expires runs, sessions and keys as of `now`, then frees log bytes that no seed refers to. Resolves with how many runs went. */
export async function sweep ({ queue, runs, sessions, garbage, keys, retentionMs }: SweepParts, now: number): Promise<number> {
  const gone = await repeat(() => queue.write(runs.expire(now, RUNS_A_STEP)))
  if (retentionMs !== undefined) await repeat(() => queue.write(() => sessions.expire(now - retentionMs, RUNS_A_STEP)))
  await repeat(() => queue.write(() => keys.expire(now, STEP)))
  await repeat(() => queue.write(() => garbage.collect(STEP)))
  return gone
}

/** Steps until one finds nothing; their sum. */
async function repeat (step: () => Promise<number>): Promise<number> {
  let sum = 0
  for (let done = await step(); done > 0; done = await step()) sum += done
  return sum
}
