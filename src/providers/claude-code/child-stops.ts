import type { Clock } from '../../core/clock.ts'
import { stopTaskRequest } from './command.ts'
import type { ChildRef } from './vocabulary.ts'

/** What a child that is told to stop may take for it. */
const STOP_CHILD_MS = 3000

export interface ChildStopsOptions {
  clock: Clock
  newId: () => string
  /** The CLI's own id for it; `undefined` where it told none. */
  taskOf: (child: ChildRef) => string | undefined
  post: (frame: object) => void
  giveUp: (child: ChildRef) => void
}

export interface ChildStops {
  stop (child: ChildRef): void
  /** An answer of the CLI to a request of ours. */
  answered (requestId: string, ok: boolean): void
  clear (): void
}

/** D6: a child is stopped by its task. One that the CLI cannot stop, or does not, is given up. */
export function createChildStops ({ clock, newId, taskOf, post, giveUp }: ChildStopsOptions): ChildStops {
  const asked = new Map<string, { child: ChildRef, cancel: () => void }>()
  return {
    stop (child) {
      const task = taskOf(child)
      if (task === undefined) return giveUp(child)
      const id = newId()
      const cancel = clock.after(STOP_CHILD_MS, () => {
        asked.delete(id)
        giveUp(child)
      })
      asked.set(id, { child, cancel })
      post(stopTaskRequest(id, task))
    },
    answered (requestId, ok) {
      const request = asked.get(requestId)
      if (!request || ok) return
      asked.delete(requestId)
      request.cancel()
      giveUp(request.child)
    },
    clear () {
      for (const { cancel } of asked.values()) cancel()
      asked.clear()
    }
  }
}
