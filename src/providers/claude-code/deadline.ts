import type { Clock } from '../../core/clock.ts'

export interface Deadline {
  /** Told whenever it may have changed whether the chat is at work. */
  mark (isIdle: boolean): void
  clear (): void
}

export interface DeadlineOptions {
  clock: Clock
  /** Absent: none. */
  ms: number | undefined
  /** It counts for each time at work, not once for all. */
  renewed: boolean
  /** How much of it has passed at the first mark. */
  spent: number
  onOver: (ms: number) => void
}

/** The time limit of a chat: from its publication on, or, where it is kept open, for each time that it is at work. */
export function createDeadline ({ clock, ms, renewed, spent, onOver }: DeadlineOptions): Deadline {
  let cancel: (() => void) | undefined
  const clear = (): void => {
    cancel?.()
    cancel = undefined
  }
  return {
    clear,
    mark (isIdle) {
      if (renewed && isIdle) clear()
      if (ms === undefined || isIdle || cancel) return
      cancel = clock.after(renewed ? ms : ms - spent, () => onOver(ms))
    }
  }
}
