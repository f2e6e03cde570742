/** What may be new: something in the log (or a status), or only deltas. */
export type News = 'log' | 'deltas'

/** What came while its owner was busy, and the wait for more. Subscribe before reading, or an append in between is missed. */
export interface WakeUp {
  tell (news: News): void
  /** Hands over what was told since the last time. */
  take (): { log: boolean, deltas: boolean }
  /** Deltas of the next `ms` are told together. */
  gather (ms: number): void
  /** Resolves when something is told or was told since the last `take`, or when it is over. */
  next (): Promise<void>
  readonly over: boolean
  /** Leaves no listener and no timer. */
  close (): void
}

/** Over as soon as one of the signals aborts, or after `ms`. */
export function createWakeUp (signals: readonly AbortSignal[], ms?: number): WakeUp {
  let news = { log: false, deltas: false }
  let over = signals.some((signal) => signal.aborted)
  let wake: (() => void) | undefined
  const awaken = (): void => {
    wake?.()
    wake = undefined
  }
  const end = (): void => {
    over = true
    awaken()
  }
  for (const signal of signals) signal.addEventListener('abort', end)
  const timer = ms === undefined ? undefined : setTimeout(end, ms)
  let gathering: NodeJS.Timeout | undefined
  let gathered = false
  const tell = (what: News): void => {
    if (what === 'deltas' && gathering) {
      gathered = true
      return
    }
    news[what] = true
    awaken()
  }
  return {
    tell,
    gather (span) {
      if (gathering || span <= 0 || over) return
      gathering = setTimeout(() => {
        gathering = undefined
        if (gathered) tell('deltas')
        gathered = false
      }, span)
    },
    take () {
      const taken = news
      news = { log: false, deltas: false }
      return taken
    },
    next: () => over || news.log || news.deltas ? Promise.resolve() : new Promise((resolve) => { wake = resolve }),
    get over () { return over },
    close () {
      clearTimeout(timer)
      clearTimeout(gathering)
      for (const signal of signals) signal.removeEventListener('abort', end)
    }
  }
}
