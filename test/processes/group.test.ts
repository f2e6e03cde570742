import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { endGroup, killGroup } from '../../src/processes/group.ts'
import { groupIn, startTimeIn, stateIn, statOf } from '../../src/processes/stat.ts'

test('a process that has ended, and waits for a parent that never reaps it, does not hold the end of its group back', async () => {
  // The shell becomes a program that knows nothing of the job.
  const parent = spawn('/bin/sh', ['-c', 'setsid sleep 600 & echo $!; exec tail -f /dev/null'], { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => { parent.kill('SIGKILL') })
  const [said] = await once(parent.stdout, 'data') as [Buffer]
  const leader = Number(said.toString())
  await expect.poll(() => groupIn(statOf(leader) ?? '')).toBe(leader)
  await expect.poll(() => statOf(parent.pid as number)).toContain('(tail)')
  process.kill(leader, 'SIGKILL')
  await expect.poll(() => stateIn(statOf(leader) ?? '')).toBe('Z')
  const started = performance.now()
  await endGroup(leader, 10_000)
  expect(performance.now() - started).toBeLessThan(5000)
  expect(stateIn(statOf(leader) ?? '')).toBe('Z')
})

test('a group that is gone is no fault, and is not killed', async () => {
  const child = spawn(process.execPath, ['-e', ''], { detached: true, stdio: 'ignore' })
  await once(child, 'exit')
  await endGroup(child.pid as number, 10_000)
  expect(await killGroup(child.pid as number)).toBe(false)
})

test('a stat is read aright though the name in it holds spaces and parentheses', () => {
  const stat = `7 (a) S 1 (b)) R 1 5 7 0 -1 ${Array.from({ length: 13 }, (_, i) => i + 9).join(' ')} 98765 23 24\n`
  expect([stateIn(stat), groupIn(stat), startTimeIn(stat)]).toEqual(['R', 5, '98765'])
  expect([stateIn(''), groupIn(''), startTimeIn('')]).toEqual([undefined, NaN, undefined])
})
