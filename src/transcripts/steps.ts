import type { Steps } from '../core/transcript.ts'

/** Items between two pauses: a millisecond's work, about. */
const PAUSE = 250

/** As `map`, with pauses. */
export function * mapInSteps<T, U> (items: readonly T[], of: (item: T, index: number) => U): Steps<U[]> {
  const made: U[] = []
  for (let index = 0; index < items.length; index++) {
    if (index > 0 && index % PAUSE === 0) yield
    made.push(of(items[index] as T, index))
  }
  return made
}

/** All steps at once. */
export function finish<T> (steps: Steps<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}
