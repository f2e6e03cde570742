import { setTimeout as delay } from 'node:timers/promises'

const LOOK_MS = 20
const KILL_MS = 200

/**
 * Ends every process of a group: SIGTERM, and SIGKILL for what is left after `graceMs`. The group is looked at, for no event tells
 * of the end of a process that is not one's own child. Resolves once it is empty, or killed.
 */
export async function endGroup (leader: number, graceMs: number): Promise<void> {
  if (!signalGroup(leader, 'SIGTERM') || await isEmpty(leader, graceMs)) return
  signalGroup(leader, 'SIGKILL')
  // What nobody reaps still counts, though it has ended.
  await isEmpty(leader, KILL_MS)
}

async function isEmpty (leader: number, withinMs: number): Promise<boolean> {
  for (let waited = 0; waited < withinMs; waited += LOOK_MS) {
    await delay(LOOK_MS)
    if (!signalGroup(leader, 0)) return true
  }
  return false
}

/** Whether there was a process to signal. */
function signalGroup (leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leader, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}
