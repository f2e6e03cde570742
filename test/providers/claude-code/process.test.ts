import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { environmentOf, interruptRequest, userLine } from '../../../src/providers/claude-code/command.ts'
import { startCli, type CliOptions, type CliProcess } from '../../../src/providers/claude-code/process.ts'
import { startTimeIn, statOf } from '../../../src/processes/stat.ts'
import { fakeClaude, isAlive, type FakeClaude, type Script } from '../../support/fake-claude.ts'
import { makeFolder } from '../../support/service.ts'

const PATH = process.env['PATH'] ?? ''

interface Started { cli: CliProcess, fake: FakeClaude, output: () => Promise<string>, errors: string[] }

async function start (script?: Script, options: Partial<CliOptions> = {}): Promise<Started> {
  const fake = fakeClaude(onTestFinished, script)
  const errors: string[] = []
  const env = environmentOf({ inherited: { PATH }, env: { ...fake.env }, runId: 'run-1' })
  const cli = await startCli({ command: fake.command, args: ['-p'], cwd: makeFolder(onTestFinished), env, onStderr: (line) => errors.push(line), ...options })
  onTestFinished(() => cli.end(0))
  return { cli, fake, errors, output: () => textOf(cli.output) }
}

async function textOf (output: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = []
  for await (const piece of output) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}
const say = (text: string, uuid = 'u-1'): object => userLine({ uuid, content: [{ type: 'text', text }] })

test('a CLI takes lines, gives frames, and ends with its input (D1)', async () => {
  const { cli, fake, output } = await start()
  cli.write(say('hello'))
  cli.closeInput()
  const frames = (await output()).trim().split('\n').map((line) => JSON.parse(line) as { type: string, result?: string })
  expect(frames.at(0)).toMatchObject({ type: 'command_lifecycle', command_uuid: 'u-1', state: 'queued' })
  expect(frames.find(({ type }) => type === 'result')).toMatchObject({ is_error: false, result: 'You said: hello' })
  expect(await cli.exited).toEqual({ code: 0, signal: null })
  expect(fake.entries('in').map(({ frame }) => frame)).toEqual([say('hello')])
})

test('the process gets exactly the environment and the directory it is given, and leads its group (D8)', async () => {
  const cwd = makeFolder(onTestFinished)
  const { cli, fake } = await start([{ silent: true }], { cwd })
  const { env, argv, pid, cwd: there } = await fake.entry('start')
  expect(Object.keys(env).filter((name) => !name.startsWith('FAKE_')).toSorted()).toEqual(['CLAUDE_CODE_FORWARD_SUBAGENT_TEXT', 'PATH', 'SUBAGENTD_RUN'])
  expect({ argv, pid, there }).toEqual({ argv: ['-p'], pid: cli.pid, there: cwd })
  expect(() => process.kill(-cli.pid, 0)).not.toThrow()
  expect(cli.startTime).toBe(startTimeIn(statOf(cli.pid) ?? '') ?? null)
})

test('what an ended CLI wrote is whole, however late it is read', async () => {
  const { cli, output } = await start([{ repeat: 100, steps: [{ write: 'x'.repeat(500) }] }, { exit: 3 }])
  await expect.poll(() => isAlive(cli.pid)).toBe(false)
  expect(await output()).toHaveLength(50_000)
  expect(await cli.exited).toEqual({ code: 3, signal: null })
})

test('output is not read faster than it is taken: the CLI waits, and loses nothing', async () => {
  const { cli, fake } = await start([{ repeat: 64, steps: [{ write: 'y'.repeat(65_536) }] }, { grandchild: {} }, { exit: 0 }])
  const reader = cli.output[Symbol.asyncIterator]()
  const first = await reader.next()
  let read = (first.value as Uint8Array).length
  // It answers whoever writes, so it has had its time; the process it starts after the output is not there.
  await roundTrip()
  expect(fake.entries('grandchild')).toEqual([])
  for (let next = await reader.next(); next.done !== true; next = await reader.next()) read += next.value.length
  expect(read).toBe(64 * 65_536)
  expect(fake.entries('grandchild')).toHaveLength(1)
  expect(await cli.exited).toEqual({ code: 0, signal: null })
})

/** Some work of the system, so that a process that could go on has gone on. */
async function roundTrip (): Promise<void> {
  const { cli, output } = await start([{ exit: 0 }])
  await output()
  await cli.exited
}

test('the exit is told after the last piece was dealt with, not before', async () => {
  const { cli } = await start([{ write: 'last words' }, { exit: 0 }])
  const order: string[] = []
  const told = cli.exited.then(() => order.push('exit'))
  for await (const piece of cli.output) {
    await expect.poll(() => isAlive(cli.pid)).toBe(false)
    order.push(Buffer.from(piece).toString())
  }
  await told
  expect(order).toEqual(['last words', 'exit'])
})

test('what the leader leaves in its group is ended with it, though it holds the output open (D8)', async () => {
  const { cli, fake, output } = await start([{ grandchild: { holdsOutput: true } }, { grandchild: { ignoresTerm: true } }, { write: 'end' }, { exit: 0 }])
  expect(await output()).toBe('end')
  expect(await cli.exited).toEqual({ code: 0, signal: null })
  const left = fake.entries('grandchild').map(({ pid }) => pid)
  expect(left).toHaveLength(2)
  expect(left.filter(isAlive)).toEqual([])
})

/** A CLI whose output a process beyond its group holds open: it ends once nothing has come for a while. */
async function startHeldOpen (): Promise<Started> {
  const started = await start([{ grandchild: { leavesGroup: true, holdsOutput: true } }, { write: 'end' }, { exit: 0 }])
  const { pid } = await started.fake.entry('grandchild')
  onTestFinished(() => { if (isAlive(pid)) process.kill(pid, 'SIGKILL') })
  return started
}

test('a process that left the group cannot hold the end back', async () => {
  const { cli, output } = await startHeldOpen()
  expect(await output()).toBe('end')
  expect(await cli.exited).toEqual({ code: 0, signal: null })
})

test('a slow reader loses nothing of what an ended CLI wrote', async () => {
  const { cli } = await start([{ write: 'x'.repeat(100_000) }, { exit: 0 }])
  const reader = cli.output[Symbol.asyncIterator]()
  const first = await reader.next()
  await expect.poll(() => isAlive(cli.pid)).toBe(false)
  // Meanwhile one that is held open is given up.
  const held = await startHeldOpen()
  await Promise.all([held.output(), held.cli.exited])
  let read = (first.value as Uint8Array).length
  for (let next = await reader.next(); next.done !== true; next = await reader.next()) read += next.value.length
  expect(read).toBe(100_000)
})

test('end asks first: who heeds SIGTERM ends by it', async () => {
  const { cli, fake, output } = await start([{ write: 'ready' }, { silent: true }])
  const text = output()
  await fake.entry('start')
  await cli.end(10_000)
  expect(await text).toBe('ready')
  expect(await cli.exited).toEqual({ code: 143, signal: null })
  expect(fake.entries('signal')).toHaveLength(1)
})

test('end kills the whole group that does not heed SIGTERM, once the time is over', async () => {
  const { cli, fake, output } = await start([{ ignore: 'SIGTERM' }, { ignore: 'end' }, { grandchild: { ignoresTerm: true } }, { write: 'ready' }, { silent: true }])
  const text = output()
  const { pid } = await fake.entry('grandchild')
  cli.closeInput()
  await fake.entry('end')
  await Promise.all([cli.end(50), cli.end(50)])
  expect([cli.pid, pid].filter(isAlive)).toEqual([])
  expect(await cli.exited).toEqual({ code: null, signal: 'SIGKILL' })
  expect(await text).toBe('ready')
  await cli.end(0)
})

test('a second end shortens the time of the first', async () => {
  const { cli, fake, output } = await start([{ ignore: 'SIGTERM' }, { silent: true }])
  void output()
  await fake.entry('start')
  const slow = cli.end(60_000)
  await fake.entry('signal')
  await cli.end(0)
  await slow
  expect(await cli.exited).toEqual({ code: null, signal: 'SIGKILL' })
})

test('who writes to a CLI that has ended, or whose input is closed, is not told off', async () => {
  const { cli, fake, output } = await start([{ user: true }, { kill: 'SIGKILL' }])
  cli.write(say('now'))
  cli.write(say('x'.repeat(1_000_000)))
  void output()
  expect(await cli.exited).toEqual({ code: null, signal: 'SIGKILL' })
  cli.write(interruptRequest('r-1'))
  cli.closeInput()
  cli.closeInput()
  cli.write(say('late'))
  expect(fake.entries('end')).toEqual([])
})

test('a reader that stops reading does not hold the exit back', async () => {
  const { cli } = await start([{ repeat: 8, steps: [{ write: 'z'.repeat(65_536) }] }, { silent: true }])
  for await (const piece of cli.output) if (piece.length > 0) break
  expect(await cli.exited).toMatchObject({ code: 1 })
})

test('the standard error is told in lines, and its last 4 KiB are kept', async () => {
  const { cli, errors, output } = await start([{ stderr: 'first\nsecond\n' }, { stderr: 'é'.repeat(3000) }, { stderr: '\nlast words' }, { exit: 1 }])
  await output()
  await cli.exited
  expect(errors.slice(0, 2)).toEqual(['first', 'second'])
  expect(cli.stderrTail()).toMatch(/^é+\nlast words$/)
  expect(Buffer.byteLength(cli.stderrTail())).toBeGreaterThan(4090)
  expect(Buffer.byteLength(cli.stderrTail())).toBeLessThanOrEqual(4096)
})

test('a CLI that cannot be started says why', async () => {
  const folder = makeFolder(onTestFinished)
  const plain = join(folder, 'plain')
  writeFileSync(plain, '')
  mkdirSync(join(folder, 'empty'))
  const tell = async (options: Partial<CliOptions>): Promise<string> => {
    try {
      await start([{ exit: 0 }], options)
      return 'started'
    } catch (error) {
      return (error as Error).message
    }
  }
  expect(await tell({ command: join(folder, 'none'), cwd: folder })).toBe(`cannot start "${join(folder, 'none')}": there is no such command, or no directory "${folder}"`)
  expect(await tell({ cwd: join(folder, 'gone') })).toMatch(/^cannot start ".+fake-claude\.mjs": there is no such command, or no directory ".+gone"$/)
  expect(await tell({ command: plain, cwd: folder })).toMatch(/^cannot start ".+plain": it is not executable, or the directory ".+" may not be entered$/)
  expect(await tell({ args: ['x'.repeat(4_000_000)] })).toMatch(/: its arguments and its environment are larger than the system takes$/)
  expect(await tell({ args: ['a\0b'] })).toMatch(/null bytes/)
})
