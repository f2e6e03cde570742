import { readFileSync } from 'node:fs'
import { killGroup } from '../../processes/group.ts'
import { startTimeIn, statOf } from '../../processes/stat.ts'

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

function isMarked (pid: number, marker: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(marker)
  } catch {
    // Ended in the meantime, or another user's.
    return false
  }
}
