const FIRST_MS = 1000
const MAX_MS = 60_000

/** When a server that failed may be tried again. A call that succeeds ends the count, a connection alone does not. */
export interface Backoff {
  /** How long the next attempt has to wait still. */
  waitMs (): number
  /** An attempt to connect failed. */
  failed (): void
  /** A connection was lost: the first time the next attempt may come at once. */
  lost (): void
  succeeded (): void
}

export function createBackoff (now: () => number): Backoff {
  let failures = 0
  let until = 0
  const wait = (times: number): void => { until = times < 1 ? 0 : now() + Math.min(MAX_MS, FIRST_MS * 2 ** (times - 1)) }
  return {
    waitMs: () => Math.max(0, until - now()),
    failed () { wait(++failures) },
    lost () { wait(failures++) },
    succeeded () { failures = 0 }
  }
}
