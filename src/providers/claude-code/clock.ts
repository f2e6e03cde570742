import type { Clock } from '../../core/clock.ts'

const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => performance.now(),
  after (ms, call) {
    const timer = setTimeout(call, Math.min(Math.max(0, Math.ceil(ms)), MAX_TIMER_MS))
    return () => clearTimeout(timer)
  }
}
