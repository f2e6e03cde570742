import { expect, onTestFinished, test } from 'vitest'
import { environmentOf, markerOf } from '../../../src/providers/claude-code/command.ts'
import { endLeftover } from '../../../src/providers/claude-code/leftovers.ts'
import { startCli, type CliProcess } from '../../../src/providers/claude-code/process.ts'
import { startTimeIn, statOf } from '../../../src/processes/stat.ts'
import { fakeClaude, isAlive } from '../../support/fake-claude.ts'
import { makeFolder } from '../../support/service.ts'

async function start (): Promise<{ cli: CliProcess, grandchild: number }> {
  const fake = fakeClaude(onTestFinished, [{ ignore: 'SIGTERM' }, { ignore: 'end' }, { grandchild: { ignoresTerm: true } }, { silent: true }])
  const env = environmentOf({ inherited: { PATH: process.env['PATH'] ?? '' }, env: fake.env, runId: 'run-1' })
  const cli = await startCli({ command: fake.command, args: [], cwd: makeFolder(onTestFinished), env, onStderr: () => {} })
  onTestFinished(() => cli.end(0))
  const { pid } = await fake.entry('grandchild')
  return { cli, grandchild: pid }
}

test('a CLI that outlived its service is killed with its group, by its start time and its marker (D8)', async () => {
  const { cli: { pid, startTime }, grandchild } = await start()
  expect(await endLeftover({ pid, startTime, marker: markerOf('run-1') })).toBe(true)
  await expect.poll(() => [pid, grandchild].filter(isAlive)).toEqual([])
  expect(await endLeftover({ pid, startTime, marker: markerOf('run-1') })).toBe(false)
})

test('another process is never touched: a later start, another marker, no start time, no such process (D8)', async () => {
  const { cli: { pid, startTime }, grandchild } = await start()
  const marker = markerOf('run-1')
  expect(await endLeftover({ pid, startTime: String(Number(startTime) + 1), marker })).toBe(false)
  expect(await endLeftover({ pid, startTime: null, marker })).toBe(false)
  expect(await endLeftover({ pid, startTime, marker: markerOf('run-2') })).toBe(false)
  expect(await endLeftover({ pid, startTime, marker: markerOf('run') })).toBe(false)
  expect(await endLeftover({ pid: 2 ** 22 + 1, startTime, marker })).toBe(false)
  // In its group and marked, but it leads none.
  expect(await endLeftover({ pid: grandchild, startTime: startTimeIn(statOf(grandchild) ?? '') ?? null, marker })).toBe(false)
  expect([pid, grandchild].filter(isAlive)).toEqual([pid, grandchild])
})
