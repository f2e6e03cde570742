import type { Caller } from '../src/runs/api.ts'
import type { Life } from './lives.ts'

/**
 * Which requests of a start are still attached to its run. When the last one is lost (not answered, not closed by us) and
 * it asked for it, the run is cancelled (http-api.md §3, `onDisconnect`).
 */
export function createAttachments (disconnected: (caller: Caller, id: string) => void) {
  const counts = new Map<string, number>()
  return {
    attach (caller: Caller, id: string, life: Life, onDisconnect: 'cancel' | 'continue'): void {
      const key = `${caller.tenant}\n${id}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
      void life.done.then((how) => {
        const left = (counts.get(key) ?? 1) - 1
        if (left > 0) counts.set(key, left)
        else counts.delete(key)
        if (how === 'gone' && left === 0 && onDisconnect === 'cancel') disconnected(caller, id)
      })
    },
    get size (): number { return counts.size }
  }
}
export type Attachments = ReturnType<typeof createAttachments>
