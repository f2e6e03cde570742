import type { DatabaseSync } from 'node:sqlite'
import type { Observation } from '../core/store.ts'
import { isRefusal, refuse } from '../core/errors.ts'
import type { CommitQueue } from './commit-queue.ts'
import type { Journals } from './journals.ts'
import type { RunWrites } from './runs.ts'

type Places = ReadonlyMap<string, { segment: number, firstSeq: number }>

export interface ObservationParts {
  queue: CommitQueue
  runs: RunWrites
  journals: Journals
  /** Where a run's log is and begins; `undefined` where there is no such run. */
  placeOf: (tenant: string, id: string) => { segment: number, firstSeq: number } | undefined
}

/** Reads `runs`. */
export function createPlaceOf (db: DatabaseSync): ObservationParts['placeOf'] {
  const find = db.prepare('SELECT segment, first_seq FROM runs WHERE tenant = ? AND id = ?')
  return (tenant, id) => {
    const row = find.get(tenant, id) as { segment: number, first_seq: number } | undefined
    return row && { segment: row.segment, firstSeq: row.first_seq }
  }
}

/** A refusal in the middle of an operation: to the queue a fault of the operation, so that nothing of it stays. */
class Refused extends Error { override readonly name = 'Refused' }

/** Writes all of an external chat's news (store.ts, `observe`). PRIVATE: writes through the other modules. */
export function createObserve ({ queue, ...parts }: ObservationParts): (observation: Observation) => Promise<Places> {
  const operationOf = createOperation(parts)
  return async (observation) => {
    const run = operationOf(observation)
    try {
      return await queue.write(() => {
        try {
          return run()
        } catch (error) {
          throw isRefusal(error) ? new Refused(error.message, { cause: error }) : error
        }
      })
    } catch (error) {
      throw error instanceof Refused ? error.cause : error
    }
  }
}

function createOperation ({ runs, journals, placeOf }: Omit<ObservationParts, 'queue'>): (observation: Observation) => () => Places {
  return ({ tenant, chat, frames, writes }) => {
    const steps = writes.map(({ id, publication, events, patch }) => ({
      id,
      publish: publication && runs.publish(publication),
      // The segment of a run that is published here is known once it is.
      append: runs.appendTo({ events, ...(patch ? { run: { tenant, id, patch } } : {}) })
    }))
    return () => {
      const places = new Map<string, { segment: number, firstSeq: number }>()
      for (const { id, publish, append } of steps) {
        if (publish) places.set(id, publish())
        const place = places.get(id) ?? placeOf(tenant, id)
        if (!place) throw refuse('RUN_NOT_FOUND', { id })
        append(place.segment)
      }
      const place = frames && (places.get(chat) ?? placeOf(tenant, chat))
      if (frames && !place) throw refuse('RUN_NOT_FOUND', { id: chat })
      if (frames && place) journals.append(place, frames.from, frames.lines)
      return places
    }
  }
}
