import type { ModelFailure } from './model.ts'

export interface RetryPolicy {
  /** Tries in all, the first included. */
  tries: number
  baseMs: number
  maxMs: number
  /** A longer `Retry-After` is not waited for: the failure stands. */
  retryAfterCapMs: number
}

export const RETRY_POLICY: RetryPolicy = { tries: 4, baseMs: 500, maxMs: 30_000, retryAfterCapMs: 60_000 }

/** `attempt`: which try of the step failed, from 1. `deltas`: whether it had sent a delta before it failed. */
export interface FailedTry { failure: ModelFailure, attempt: number, deltas: boolean }

/**
 * How long to wait before the next try; `undefined` when there is none. Exponential with jitter, never earlier than
 * `Retry-After`, bounded, and only before the first delta was received (quality.md). Pure.
 */
export function retryDelay (
  { failure, attempt, deltas }: FailedTry, random: () => number, policy: RetryPolicy = RETRY_POLICY
): number | undefined {
  if (!failure.outcome.retryable || deltas || attempt >= policy.tries) return undefined
  const asked = failure.retryAfterMs ?? 0
  if (asked > policy.retryAfterCapMs) return undefined
  const backoff = Math.min(policy.maxMs, policy.baseMs * 2 ** (attempt - 1))
  if (asked >= backoff) return Math.round(asked + random() * policy.baseMs)
  return Math.max(asked, Math.round(backoff * (0.5 + random() / 2)))
}
