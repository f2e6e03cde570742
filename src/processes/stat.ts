import { readFileSync } from 'node:fs'

/** Fields of /proc/<pid>/stat from the third on; the second is a name, which may hold spaces and parentheses. */
const fields = (stat: string): string[] => stat.slice(stat.lastIndexOf(')') + 2).trim().split(' ')
const FIRST = 3
const fieldIn = (stat: string, field: number): string | undefined => fields(stat)[field - FIRST] || undefined

export const stateIn = (stat: string): string | undefined => fieldIn(stat, 3)
export const parentIn = (stat: string): number => Number(fieldIn(stat, 4))
export const groupIn = (stat: string): number => Number(fieldIn(stat, 5))
export const startTimeIn = (stat: string): string | undefined => fieldIn(stat, 22)

/** The `stat` of a process; `undefined` where there is none, or no /proc. */
export function statOf (pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
}
