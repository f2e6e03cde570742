import { refuse } from './errors.ts'

/** What is known of an agent's delegation depth: the header's value and the runtime's, neither judged yet. */
export interface DelegationDepths { stored?: unknown, runtime?: unknown }

/** Malformed is everything but an integer in 0…2^53-1; `-0` is malformed, nothing is coerced (driver.md 6.3). */
export const isDepth = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)

/** `maxDepth` as given, judged; absent stays absent. Throws `MAX_DEPTH_INVALID`. */
export function asMaxDepth (value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (!isDepth(value)) throw refuse('MAX_DEPTH_INVALID')
  return value
}

/** The depth of an agent. The stored depth is the floor: a runtime depth may deepen it, never lower it. Throws `DEPTH_INVALID`. */
export const depthOf = (agent: DelegationDepths): number => Math.max(given(agent.stored), given(agent.runtime))

/** Depth of a child of `parent`. Throws `DEPTH_INVALID`, `DEPTH_RANGE`, `DEPTH_EXCEEDED`, in that order. */
export function childDepth (parent: DelegationDepths, maxDepth?: number): number {
  const depth = depthOf(parent) + 1
  if (!Number.isSafeInteger(depth)) throw refuse('DEPTH_RANGE')
  if (maxDepth !== undefined && depth > maxDepth) throw refuse('DEPTH_EXCEEDED', { depth, maxDepth })
  return depth
}

/** Absent is the top level; everything present must be a depth, null included. */
function given (value: unknown): number {
  if (value === undefined) return 0
  if (!isDepth(value)) throw refuse('DEPTH_INVALID')
  return value
}
