import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, relative, sep } from 'node:path'
import { refuse } from '../../core/errors.ts'

/** Where the command is: an absolute path as it stands, a name in the absolute folders of `path`. `undefined`: nowhere. */
export function findCommand (command: string, path: string | undefined): string | undefined {
  if (isAbsolute(command)) return isExecutable(command) ? command : undefined
  if (command.includes(sep)) return undefined
  return (path ?? '').split(delimiter).filter(isAbsolute).map((folder) => join(folder, command)).find(isExecutable)
}

function isExecutable (path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/**
 * The directory that a run works in, with its links resolved; the first root where none is named (D8). Throws `INVALID_REQUEST`
 * for any other than one under a root, in one text, so that nobody learns what lies elsewhere, and `PROVIDER_UNAVAILABLE` where
 * the first root is needed and not there.
 */
export function checkCwd (cwd: string | undefined, roots: readonly string[]): string {
  if (cwd === undefined) {
    const root = folderAt(roots[0] ?? '')
    if (root !== undefined) return root
    throw refuse('PROVIDER_UNAVAILABLE', { name: 'claude-code', reason: 'its first root is no directory' })
  }
  const folder = isAbsolute(cwd) ? folderAt(cwd) : undefined
  if (folder !== undefined && roots.some((root) => isUnder(folder, folderAt(root)))) return folder
  const detail = 'cwd must be the absolute path of a directory that exists, ' +
    'at or under one of the roots that this service is configured with'
  throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/parent/cwd', detail }] })
}

function folderAt (path: string): string | undefined {
  try {
    const real = realpathSync(path)
    return statSync(real).isDirectory() ? real : undefined
  } catch {
    return undefined
  }
}

function isUnder (folder: string, root: string | undefined): boolean {
  const way = root === undefined ? '..' : relative(root, folder)
  return way !== '..' && !way.startsWith(`..${sep}`)
}
