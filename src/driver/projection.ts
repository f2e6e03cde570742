import type { RunPatch, RunRecord } from '../core/run.ts'
import type { RunProjection } from '../core/live.ts'

/** A run's row in memory; `take` hands over what changed since, to ride on a commit. */
export interface Projection extends RunProjection {
  take (): RunPatch | undefined
}

export function createProjection (initial: RunRecord): Projection {
  const record: RunRecord = { ...initial }
  let changed: RunPatch | undefined
  return {
    record,
    patch (changes) {
      Object.assign(record, changes)
      changed = { ...changed, ...changes }
    },
    take () {
      const patch = changed
      changed = undefined
      return patch
    }
  }
}
