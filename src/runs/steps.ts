import { setImmediate as turn } from 'node:timers/promises'
import type { Steps } from '../core/transcript.ts'

const SHARE_MS = 10

/** Does work that may be long in shares, between which everything else has its turn. */
export async function inShares<T> (steps: Steps<T>): Promise<T> {
  let until = 0
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done) return step.value
    if (performance.now() < until) continue
    await turn()
    until = performance.now() + SHARE_MS
  }
}
