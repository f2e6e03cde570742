import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { killGroup } from '../../processes/group.ts'
import { groupIn, parentIn, startTimeIn, statOf } from '../../processes/stat.ts'
import { isMarker } from './command.ts'

export interface Leftover {
  pid: number
  startTime: string | null
  /** The entry of its environment that names the run: command.ts `markerOf`. */
  marker: string
}

/**
 * Ends the group of a CLI that outlived the service which started it (D8). Only where the process is the one that was started:
 * the same start time, and the run's marker in its environment. Otherwise nothing is touched. Answers whether it killed.
 */
export async function endLeftover ({ pid, startTime, marker }: Leftover): Promise<boolean> {
  const stat = statOf(pid)
  if (stat === undefined || startTime === null || startTimeIn(stat) !== startTime) return false
  return isMarked(pid, marker) && killGroup(pid)
}

/**
 * Ends the groups of CLIs that outlived a service which was killed before it had written whom it started: `found` by their marker,
 * and looked at again. Answers whether it killed.
 */
export async function endUnwritten (found: readonly number[], marker: string): Promise<boolean> {
  const left = found.filter((pid) => groupIn(statOf(pid) ?? '') === pid && isMarked(pid, marker))
  const killed = await Promise.all(left.map(killGroup))
  return killed.includes(true)
}

/**
 * The leaders of groups that carry a marker, by marker: those whose parent has ended, so that they are now in the care of what
 * this process itself comes from. What another service started, and still has, is not among them.
 */
export async function findMarked (): Promise<ReadonlyMap<string, number[]>> {
  const marked = new Map<string, number[]>()
  const carers = carersOf(process.pid)
  // No /proc on this system: nobody is found.
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number)
  await Promise.all(pids.map(async (pid) => {
    const stat = statOf(pid)
    if (stat === undefined || groupIn(stat) !== pid || !carers.has(parentIn(stat))) return
    const environ = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')
    const marker = environ.split('\0').find(isMarker)
    if (marker !== undefined) marked.set(marker, [...marked.get(marker) ?? [], pid])
  }))
  return marked
}

/** A process, its ancestors and the first of all: to one of them goes what a process leaves that was started as this one was. */
function carersOf (pid: number): ReadonlySet<number> {
  const carers = new Set([1])
  for (let next = pid; next > 0 && !carers.has(next); next = parentIn(statOf(next) ?? '')) carers.add(next)
  return carers
}

function isMarked (pid: number, marker: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(marker)
  } catch {
    // Ended in the meantime, or another user's.
    return false
  }
}
