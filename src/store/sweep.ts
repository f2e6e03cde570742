import { at } from '../core/fault-point.ts'
import type { CommitQueue } from './commit-queue.ts'
import type { Garbage } from './garbage.ts'
import type { Journals } from './journals.ts'
import type { Keys } from './keys.ts'
import { dueBy, LAST, laterOf, type Due, type Retention } from './retention.ts'
import { FIRST_SESSION, type SessionPlace, type Sessions } from './sessions.ts'

/** Removal of what nobody needs any more. PRIVATE: touches no table; asks the other modules, a small transaction at a time. */
export interface SweepParts {
  queue: CommitQueue
  retention: Retention
  sessions: Sessions
  garbage: Garbage
  journals: Journals
  keys: Keys
  retentionMs: number | undefined
  /** So many settled runs of a tenant are kept. */
  retentionRuns: number | undefined
  /** Ends it after the step that is under way. */
  signal: AbortSignal | undefined
}

/** Rows removed in one transaction, about: other writes come in between. */
const STEP = 1000
/** Each up to 64 KiB. */
const JOURNAL_ROWS_A_STEP = 32
const SESSIONS_A_STEP = 100
/** Runs counted at once. */
const PIECE = 5000

/** Expires runs, sessions and keys as of `now`, then frees log bytes that no seed refers to. Resolves with how many runs went. */
export async function sweep (parts: SweepParts, now: number): Promise<number> {
  const { queue, garbage, journals, keys, retentionMs, signal } = parts
  const gone = await sweepRuns(parts, now)
  if (retentionMs !== undefined) await sweepSessions(parts, now - retentionMs)
  await repeat(() => queue.write(() => keys.expire(now, STEP)), signal)
  await repeat(() => queue.write(() => garbage.collect(STEP)), signal)
  await repeat(() => queue.write(() => journals.collect(JOURNAL_ROWS_A_STEP)), signal)
  return gone
}

async function sweepRuns (parts: SweepParts, now: number): Promise<number> {
  const { queue, retention, signal } = parts
  const after = (tenant: string): Promise<string | undefined> => queue.write(() => retention.tenantAfter(tenant), 'written')
  let sum = 0
  for (let tenant = await after(''); tenant !== undefined && !signal?.aborted; tenant = await after(tenant)) {
    // Some may wait for others now, so that those are too many in their place.
    for (let more = true; more && !signal?.aborted;) {
      const { gone, handled } = await sweepTenant(parts, tenant, now)
      sum += gone
      more = handled > 0
    }
  }
  return sum
}

/** One tenant's runs: those whose time has come, and those past the newest that are kept. */
async function sweepTenant (parts: SweepParts, tenant: string, now: number): Promise<{ gone: number, handled: number }> {
  const { queue, retention, signal } = parts
  const due = laterOf(dueBy(now), await newestTooMany(parts, tenant))
  const sum = { gone: 0, handled: 0 }
  await repeat(async () => {
    const { gone, handled } = await queue.write(retention.expire(tenant, due))
    sum.gone += gone
    sum.handled += handled
    return handled
  }, signal)
  return sum
}

async function newestTooMany ({ queue, retention, retentionRuns }: SweepParts, tenant: string): Promise<Due | undefined> {
  if (retentionRuns === undefined) return undefined
  let place: Due | undefined = LAST
  for (let left = retentionRuns + 1; left > 0 && place; left -= PIECE) {
    const from: Due = place
    place = await queue.write(() => retention.before(tenant, from, Math.min(left, PIECE)), 'written')
  }
  return place
}

async function sweepSessions ({ queue, sessions, signal }: SweepParts, before: number): Promise<void> {
  for (let place: SessionPlace | undefined = FIRST_SESSION; place && !signal?.aborted;) {
    const after: SessionPlace = place
    place = await queue.write(() => sessions.expire(before, after, SESSIONS_A_STEP))
    if (place) at('sweep/stepped')
  }
}

/** Steps until one finds nothing. */
async function repeat (step: () => Promise<number>, signal: AbortSignal | undefined): Promise<void> {
  while (!signal?.aborted && await step() > 0) at('sweep/stepped')
}
