import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { environmentOf, markerOf } from '../../../src/providers/claude-code/command.ts'
import { endLeftover, endUnwritten, findMarked } from '../../../src/providers/claude-code/leftovers.ts'
import { startCli, type CliProcess } from '../../../src/providers/claude-code/process.ts'
import { startTimeIn, statOf } from '../../../src/processes/stat.ts'
import { fakeClaude, isAlive } from '../../support/fake-claude.ts'
import { makeFolder } from '../../support/service.ts'

async function start (runId = 'run-1'): Promise<{ cli: CliProcess, grandchild: number }> {
  const fake = fakeClaude(onTestFinished, [{ ignore: 'SIGTERM' }, { ignore: 'end' }, { grandchild: { ignoresTerm: true } }, { silent: true }])
  const env = environmentOf({ inherited: { PATH: process.env['PATH'] ?? '' }, env: fake.env, runId })
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

test('a CLI whose start was never written is found by its marker alone, and ended with its group (D8)', async () => {
  const runId = randomUUID()
  const { cli: { pid }, grandchild } = await start(runId)
  const marker = markerOf(runId)
  const found = (await findMarked()).get(marker)
  expect(found).toEqual([pid])
  expect(await endUnwritten([pid, grandchild], markerOf('run-2'))).toBe(false)
  expect(await endUnwritten([grandchild], marker)).toBe(false)
  expect([pid, grandchild].filter(isAlive)).toEqual([pid, grandchild])
  expect(await endUnwritten(found ?? [], marker)).toBe(true)
  await expect.poll(() => [pid, grandchild].filter(isAlive)).toEqual([])
  expect(await endUnwritten([pid], marker)).toBe(false)
})

const KEEPER = `const { spawn } = require('node:child_process')
const child = spawn('sleep', ['600'], { detached: true, env: { PATH: process.env.PATH, SUBAGENTD_RUN: process.argv[1] }, stdio: 'ignore' })
child.once('spawn', () => { process.send(child.pid) })
process.on('disconnect', () => { child.kill('SIGKILL') })`

test('what another service started, and still has, is not found; once that one was killed it is (D8)', async () => {
  const runId = randomUUID()
  const other = spawn(process.execPath, ['-e', KEEPER, runId], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const [pid] = await once(other, 'message') as [number]
  onTestFinished(async () => {
    other.kill('SIGKILL')
    await endUnwritten([pid], markerOf(runId))
  })
  expect((await findMarked()).get(markerOf(runId))).toBeUndefined()
  other.kill('SIGKILL')
  await once(other, 'exit')
  expect((await findMarked()).get(markerOf(runId))).toEqual([pid])
})
