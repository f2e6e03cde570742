import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Refusal } from '../../../src/core/errors.ts'
import { checkCwd, findCommand } from '../../../src/providers/claude-code/places.ts'
import { makeFolder } from '../../support/service.ts'

const makePlaces = (): { root: string, outside: string } => {
  const folder = realpathSync(makeFolder(onTestFinished))
  for (const name of ['root', 'root/in', 'root/in/deep', 'root-2', 'outside']) mkdirSync(join(folder, name))
  return { root: join(folder, 'root'), outside: join(folder, 'outside') }
}

function refusal (cwd: string | undefined, roots: string[]): Refusal {
  try {
    checkCwd(cwd, roots)
  } catch (error) {
    return error as Refusal
  }
  throw new Error('not refused')
}

test('a run works where it says, at or under a root, with every link resolved; without a word in the first root (D8)', () => {
  const { root, outside } = makePlaces()
  symlinkSync(join(root, 'in'), join(outside, 'way-in'))
  symlinkSync(root, join(outside, 'root-link'))
  expect(checkCwd(undefined, [root, outside])).toBe(root)
  expect(checkCwd(root, [outside, root])).toBe(root)
  expect(checkCwd(`${root}/in/../in/deep/`, [root])).toBe(join(root, 'in/deep'))
  expect(checkCwd(join(outside, 'way-in'), [root])).toBe(join(root, 'in'))
  expect(checkCwd(join(root, 'in'), [join(outside, 'root-link')])).toBe(join(root, 'in'))
  expect(checkCwd(outside, ['/'])).toBe(outside)
  mkdirSync(join(root, '..dots'))
  expect(checkCwd(join(root, '..dots'), [root])).toBe(join(root, '..dots'))
})

test('every other place is refused in the same words, whether it exists or not (D8)', () => {
  const { root, outside } = makePlaces()
  writeFileSync(join(root, 'file'), '')
  symlinkSync(outside, join(root, 'way-out'))
  const detail = 'cwd must be the absolute path of a directory that exists, at or under one of the roots that this service is configured with'
  const bad = [outside, `${root}/..`, `${root}-2`, join(root, 'file'), join(root, 'none'), join(root, 'way-out'), `${root}/in/../../outside`, 'in', '.', '', '/', `${root}\0`]
  for (const cwd of bad) {
    expect(refusal(cwd, [root]), cwd).toMatchObject({ code: 'INVALID_REQUEST', context: { detail, errors: [{ pointer: '/parent/cwd', detail }] } })
  }
  expect(refusal(root, [join(root, 'gone')]).code).toBe('INVALID_REQUEST')
})

test('a first root that is not there is the service\'s fault, not the run\'s', () => {
  const { root } = makePlaces()
  expect(refusal(undefined, [join(root, 'gone')])).toMatchObject({ code: 'PROVIDER_UNAVAILABLE', message: 'subagent provider "claude-code" is not available: its first root is no directory' })
})

test('a command is an executable file: at its absolute path, or in an absolute folder of PATH', () => {
  const { root, outside } = makePlaces()
  const make = (path: string, mode: number): void => {
    writeFileSync(path, '#!/bin/sh\n')
    chmodSync(path, mode)
  }
  make(join(root, 'in/claude'), 0o644)
  make(join(outside, 'claude'), 0o755)
  mkdirSync(join(root, 'claude'))
  const PATH = `:relative:${root}:${join(root, 'in')}:${join(root, 'gone')}:${outside}`
  expect(findCommand('claude', PATH)).toBe(join(outside, 'claude'))
  expect(findCommand('claude', root)).toBeUndefined()
  expect(findCommand('claude', undefined)).toBeUndefined()
  expect(findCommand(join(outside, 'claude'), undefined)).toBe(join(outside, 'claude'))
  expect(findCommand(join(root, 'in/claude'), PATH)).toBeUndefined()
  expect(findCommand('./claude', outside)).toBeUndefined()
  expect(findCommand('outside/claude', join(outside, '..'))).toBeUndefined()
})
