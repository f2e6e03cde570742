import { cutText } from '../core/cut.ts'
import type { EventMap } from '../core/events.ts'
import { plainJsonFault } from '../core/json.ts'
import type { SessionLog } from '../core/log.ts'
import type { ToolProgress } from '../core/tool.ts'

/** Between two events of one call. */
const EVERY_MS = 1000
const MAX_MESSAGE_BYTES = 1000

export interface ProgressNotes {
  note: (news: ToolProgress) => void
  /** The call is over: nothing follows and no timer stays. `last`: whether what is still held back is logged. */
  end: (last: boolean) => void
}

/**
 * Logs how far a call is: the first news at once, then at most one a second, and the last. What came between is left out, so
 * that a chatty tool fills no log; news that no log can hold is none.
 */
export function createProgressNotes (log: SessionLog, toolCallId: string): ProgressNotes {
  let held: EventMap['tool/progress'] | undefined
  let timer: NodeJS.Timeout | undefined
  let over = false
  const flush = (): void => {
    timer = undefined
    if (!held) return
    log.append('tool/progress', held)
    held = undefined
    timer = setTimeout(flush, EVERY_MS)
  }
  return {
    note ({ progress, total, message }) {
      const said = message === undefined ? {} : { message: cutText(message, MAX_MESSAGE_BYTES) }
      const news = { toolCallId, progress, ...(total === undefined ? {} : { total }), ...said }
      if (over || plainJsonFault(news)) return
      held = news
      if (!timer) flush()
    },
    end (last) {
      over = true
      clearTimeout(timer)
      if (last && held) log.append('tool/progress', held)
      held = undefined
    }
  }
}
