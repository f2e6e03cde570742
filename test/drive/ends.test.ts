import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { agentCall, assistant, fork, notified, result, streamed, taskStart, words } from '../providers/claude-code/play.ts'
import { FAKE_CLAUDE } from '../support/fake-claude.ts'
import { makeFolder, startService } from '../support/service.ts'
import { opens, startDrive, story } from './host.ts'

const answers = { emit: [...streamed('m', 'hi'), result()] }

test.concurrent('D7 exit without a result: fork, children, then the turn', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: [agentCall('a-1', { run_in_background: true }), fork('t-1'), notified('t-1', 'completed')] }, { kill: 'SIGKILL' }]
  })
  const id = await drive.start()
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'INTERRUPTED', message: 'the CLI ended before the turn did (SIGKILL)' } })
  expect(story(await drive.log(id)).slice(-6)).toEqual(['subagent/end completed', 'result Agent', 'subagent/end error', 'result Agent error Error: no result: the turn ended first', 'end 1 error', 'settled error'])
  expect(await drive.run(id)).toMatchObject({ runningChildren: 0 })
})

test.concurrent('D7 a CLI that ends at once with code 1: an error that a model can read, and the end of its stderr in the log, without secrets', async ({ onTestFinished }) => {
  const lines: string[] = []
  const token = 'abc-very-secret-0123456789'
  const drive = await startDrive(onTestFinished, {
    script: [{ stderr: `Invalid API key {{cwd}} ${token} ` + 'x'.repeat(4060) + ` ${token}` }, { exit: 1 }], cliEnv: { TOKEN: token }, onLog: (line) => { lines.push(line) }
  })
  const id = await drive.start()
  expect(await drive.result(id)).toMatchObject({
    stopReason: 'error', diagnostic: 'the CLI ended before the turn did (code 1)', error: { code: 'INTERRUPTED', message: 'the CLI ended before the turn did (code 1)', retryable: true }
  })
  const told = lines.find((line) => line.includes('a CLI ended by itself')) ?? ''
  expect(JSON.parse(told)).toMatchObject({ level: 40, runId: id, code: 1, signal: null, stderr: expect.stringMatching(/^ x+ \[redacted\]$/) })
  expect(lines.join('\n')).not.toContain('secret-')
})

test.concurrent('A6 what the CLI itself says is wrong is the error, in its words', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: result({ is_error: true, result: 'Invalid API key · Please run /login' }) }, { exit: 1 }]
  })
  expect(await drive.result(await drive.start())).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_ERROR', message: 'Invalid API key · Please run /login' } })
})

test.concurrent('a CLI that is not there any more, or cannot be executed, refuses a start; one that no process can be made of fails the run', async ({ onTestFinished }) => {
  const folder = makeFolder(onTestFinished)
  const command = join(folder, 'claude')
  copyFileSync(FAKE_CLAUDE, command)
  const drive = await startDrive(onTestFinished, { settings: { command } })
  const provider = async (): Promise<unknown> => (await drive.call('GET', '/v1/providers')).body.providers.find(({ name }: { name: string }) => name === 'claude-code')
  expect(await provider()).toMatchObject({ available: true })
  chmodSync(command, 0o644)
  const unavailable = `the command "${command}" is not there: install Claude Code, or set providers.claudeCode.command`
  expect(await provider()).toMatchObject({ available: false, reason: unavailable })
  expect(await drive.call('POST', '/v1/runs', { provider: 'claude-code', task: 'go' })).toMatchObject({ status: 422, body: { code: 'PROVIDER_UNAVAILABLE', detail: `subagent provider "claude-code" is not available: ${unavailable}` } })
  rmSync(command)
  expect(await drive.call('POST', '/v1/runs', { provider: 'claude-code', task: 'go' })).toMatchObject({ status: 422 })
  writeFileSync(command, '#!/no/such/interpreter\n')
  chmodSync(command, 0o755)
  const id = await drive.start()
  const ended = await drive.result(id)
  expect(ended).toMatchObject({ stopReason: 'error', output: [], error: { code: 'SETUP_FAILED', message: expect.stringContaining(`cannot start "${command}"`) } })
})

test.concurrent('without a CLI the provider is listed as unavailable with the reason, a start is refused with a text to relay, and ingest works', async ({ onTestFinished }) => {
  const service = await startService(onTestFinished)
  const reason = 'no CLI is configured: set providers.claudeCode in the configuration file (runs with "ingest": true need none)'
  const { body: { providers } } = await service.call('GET', '/v1/providers')
  expect(providers).toContainEqual(expect.objectContaining({ name: 'claude-code', available: false, reason }))
  expect(await service.call('POST', '/v1/runs', { provider: 'claude-code', task: 'go' })).toMatchObject({
    status: 422, body: { code: 'PROVIDER_UNAVAILABLE', detail: `subagent provider "claude-code" is not available: ${reason}` }
  })
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
  expect(await service.call('POST', '/v1/runs', { provider: 'claude-code', ingest: true })).toMatchObject({ status: 201, body: { status: 'idle' } })
})

test.concurrent('torn lines, junk, blank lines and a line of 9 MiB cost nothing but themselves, and each is in the journal', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      { write: 'Debugger attached\n\n{"type":"assist\n' }, ...opens(1), { write: '{"type":"user","x":"' }, { repeat: 9, steps: [{ write: 'y'.repeat(1024 * 1024) }] }, { write: '"}\n[1]\nnull\n' },
      answers, { write: 'no break at the end' }, { exit: 0 }
    ]
  })
  const id = await drive.start()
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'hi' }] })
  const lines = await drive.journaled(id, 10)
  expect(lines.slice(0, 3)).toEqual(['Debugger attached', '', '{"type":"assist'])
  expect(lines.at(-1)).toBe('no break at the end')
  expect(Math.max(...lines.map(({ length }) => length))).toBe(1024)
})

test.concurrent('a CLI that closes its output early and stays is ended after its grace', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [{ ignore: 'end' }, ...opens(1), { closeOutput: true }, { silent: true }] })
  const id = await drive.start()
  await drive.cli.entry('closed')
  await vi.waitFor(() => {
    drive.clock.pass(300)
    expect(drive.cli.entries('signal')).toHaveLength(1)
  })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'INTERRUPTED', message: 'the CLI closed its output' } })
})

test.concurrent('a silent CLI is ended by its time limit', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [{ silent: true }] })
  const id = await drive.start({ limits: { timeoutMs: 5000 } })
  await drive.cli.entry('in')
  drive.clock.pass(5000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME', message: expect.stringContaining('5000') } })
})

test.concurrent('a CLI that asks without end and reads no answer is not read any more, and can be cancelled', async ({ onTestFinished }) => {
  const ask = { type: 'control_request', request_id: 'q', request: { subtype: 'can_use_tool', tool_name: 'Read', input: { text: 'x'.repeat(50_000) } } }
  const drive = await startDrive(onTestFinished, {
    settings: { graceMs: 100, permissions: { allow: ['Read'] } }, script: [...opens(1), { pauseInput: true }, { repeat: 1000, steps: [{ emit: ask }] }, { silent: true }]
  })
  const id = await drive.start()
  const lengths: number[] = []
  await vi.waitFor(async () => {
    lengths.push((await drive.journaled(id, 0)).length)
    expect(lengths.slice(-4)).toEqual(Array(4).fill(lengths.at(-1)))
    expect(lengths.at(-1)).toBeGreaterThan(20)
  }, { interval: 100, timeout: 10_000 })
  expect(lengths.at(-1)).toBeLessThan(200)
  await drive.cancel(id)
  drive.clock.pass(3000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'aborted' })
})

test.concurrent('a CLI that floods its output loses nothing, and takes no more memory for it', async ({ onTestFinished }) => {
  const line = assistant(words('w'.repeat(2000)), { tag: 'nobody' })
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { repeat: 8000, steps: [{ emit: line }] }, answers] })
  const id = await drive.start()
  const before = process.memoryUsage().rss
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed' })
  expect((process.memoryUsage().rss - before) / 1e6).toBeLessThan(200)
  expect(await drive.journaled(id, 8000)).toHaveLength(4 + 8000 + 7 + 1)
})

test.concurrent('a background child keeps the chat at work after its turn, and what the CLI says of its end is heard out', async ({ onTestFinished }) => {
  const woken = streamed('m2', 'it is done')
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: [agentCall('a-1', { run_in_background: true }), taskStart('t-1', { tool_use_id: 'a-1', is_backgrounded: true }), ...streamed('m1', 'started it'), result()] },
      { delay: 100 }, { emit: notified('t-1', 'completed') }, { delay: 30 }, { emit: woken.slice(0, 3) }, { delay: 150 },
      { emit: [...woken.slice(3), result({ origin: { kind: 'task-notification' } })] }
    ]
  })
  const id = await drive.start()
  await drive.logged(id, 'turn/start', 2)
  drive.clock.pass(10_000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'started it' }] })
  const types = (await drive.log(id)).map(({ type }) => type)
  expect(types.indexOf('subagent/end')).toBeGreaterThan(types.indexOf('turn/end'))
  expect(story(await drive.log(id)).slice(-4)).toEqual(['turn 2 service', 'says it is done', 'end 2 completed', 'settled completed'])
  expect(drive.cli.entries('signal')).toEqual([])
})

test.concurrent('a lost store: the CLI is ended, and neither the chat nor a child of it stays', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: agentCall('a-1') }, { user: true }, { repeat: 20_000, steps: [{ emit: assistant(words('more'), { tag: 'a-1', uuid: '{{uuid}}' }) }] }, { silent: true }]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  await drive.say(id, 'go on')
  await drive.journaled(id, 30)
  await drive.app.store.close()
  await vi.waitFor(() => { expect(drive.app.registry.liveRuns().map((run) => run.id)).toEqual([]) }, { timeout: 5000 })
})
