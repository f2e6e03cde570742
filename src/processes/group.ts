import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { groupIn, stateIn } from './stat.ts'

const LOOK_MS = 20
const KILL_MS = 200
/** How many looks pass between two searches for what only waits to be reaped. */
const SEARCH_EVERY = 10
const SEARCH_FIRST = 3

/**
 * Ends every process of a group: SIGTERM, and SIGKILL for what is left after `graceMs`. The group is looked at, for no event
 * tells of the end of a process that is not one's own child. Resolves once it is empty, or killed.
 */
export async function endGroup (leader: number, graceMs: number): Promise<void> {
  if (!signalGroup(leader, 'SIGTERM') || await isEmpty(leader, graceMs)) return
  await killGroup(leader)
}

/** SIGKILL to every process of a group. Answers whether there was one, once they are gone. */
export async function killGroup (leader: number): Promise<boolean> {
  if (!signalGroup(leader, 'SIGKILL')) return false
  // The system needs a moment to take them away.
  await isEmpty(leader, KILL_MS)
  return true
}

async function isEmpty (leader: number, withinMs: number): Promise<boolean> {
  const last = performance.now() + withinMs
  for (let look = 0; performance.now() < last; look++) {
    await delay(LOOK_MS)
    if (!signalGroup(leader, 0) || (look % SEARCH_EVERY === SEARCH_FIRST && await isDead(leader))) return true
  }
  return false
}

/** Whether there was a process to signal; one that we may not signal is not ours. */
function signalGroup (leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leader, signal)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ESRCH' || code === 'EPERM') return false
    throw error
  }
}

/** Whether what is left of a group has ended and only waits for a parent to reap it: in a container it may wait for ever. */
async function isDead (leader: number): Promise<boolean> {
  try {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    const stats = await Promise.all(pids.map(async (pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')))
    const members = stats.filter((stat) => groupIn(stat) === leader)
    return members.length > 0 && members.every((stat) => /[ZX]/.test(stateIn(stat) ?? ''))
  } catch {
    // No /proc on this system.
    return false
  }
}
