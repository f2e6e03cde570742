import { existsSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { environmentOf } from '../../src/providers/claude-code/command.ts'
import { startCli } from '../../src/providers/claude-code/process.ts'
import { agentCall, notified, result, streamed, taskStart } from '../providers/claude-code/play.ts'
import { fakeClaude, isAlive, type FakeClaude, type Script } from '../support/fake-claude.ts'
import { createLives } from '../support/lives.ts'
import { startProcess, type ServiceProcess } from '../support/service-process.ts'
import { makeFolder, type AtEnd } from '../support/service.ts'
import { configOf, opens, pidsOf, sent, startBody, startDrive, story } from './host.ts'

const spawned = [agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' })]
const PATH = process.env['PATH'] ?? ''

interface Deployment { cli: FakeClaude, start (more?: Record<string, string>): ServiceProcess }

/** A service that is started as a process, again and again on one file. Whatever its CLI left is ended with the test. */
function deploy (atEnd: AtEnd, script?: Script, settings: object = {}): Deployment {
  const cli = fakeClaude(atEnd, script)
  const folder = realpathSync(makeFolder(atEnd))
  const file = join(folder, 'config.yaml')
  writeFileSync(file, configOf(cli, folder, settings))
  atEnd(() => {
    const left = pidsOf(cli).filter(isAlive)
    for (const pid of left) process.kill(pid, 'SIGKILL')
    expect(left, 'processes that are left').toEqual([])
  })
  return {
    cli,
    start: (more = {}) => startProcess(atEnd, { DATABASE_URL: `sqlite:${join(folder, 'runs.db')}`, CONFIG: file, SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '100', ...more })
  }
}

const start = async (service: Pick<ServiceProcess, 'call'>, more: object = {}): Promise<string> => {
  const { status, body, text } = await service.call('POST', '/v1/runs', startBody(more))
  if (status !== 201) throw new Error(`the start was answered ${status}: ${text}`)
  return body.id as string
}
const until = async (service: Pick<ServiceProcess, 'call'>, id: string, has: object): Promise<void> => {
  await vi.waitFor(async () => { expect((await service.call('GET', `/v1/runs/${id}`)).body).toMatchObject(has) }, { timeout: 10_000, interval: 5 })
}

test.concurrent('SIGTERM: a working CLI gets its grace and is ended, its run INTERRUPTED, and no process is left', async ({ onTestFinished }) => {
  const { cli, start: serve } = deploy(onTestFinished, [
    { user: true }, { emit: spawned }, ...opens(1).slice(1), { grandchild: {} }, { silent: true }
  ], { graceMs: 200 })
  const service = serve()
  const busy = await start(service)
  await cli.entry('grandchild')
  await until(service, busy, { runningChildren: 1 })
  service.signal('SIGTERM')
  expect(await service.ended).toBe(0)
  expect(pidsOf(cli).filter(isAlive)).toEqual([])
  expect(cli.entries('signal')).toHaveLength(1)
  const next = serve()
  const { body } = await next.call('GET', `/v1/runs/${busy}/result`)
  expect(body).toMatchObject({ stopReason: 'error', error: { code: 'INTERRUPTED', message: 'the service stopped while the CLI was at work', retryable: true } })
  const { body: { children } } = await next.call('GET', `/v1/runs/${busy}/tree`)
  expect(children).toMatchObject([{ status: 'settled', stopReason: 'aborted' }])
})

test.concurrent('a stop: what ends within the grace ends as it would, an idle chat settles with its result, a queued one is left and begins at the next start', async ({ onTestFinished }) => {
  const cli = fakeClaude(onTestFinished)
  const root = realpathSync(makeFolder(onTestFinished))
  const lives = createLives(onTestFinished)
  const options = { yaml: configOf(cli, root, {}, { FAKE_CLAUDE_PACE_MS: '30' }), env: { PATH, MAX_RUNNING: '2', SHUTDOWN_GRACE_MS: '10000' } }
  const service = await lives.start(options)
  const idle = await start(service, { task: 'hi', keepOpen: true })
  await until(service, idle, { status: 'idle' })
  const words = Array.from({ length: 25 }, (_, n) => `word${n}`).join(' ')
  const busy = await start(service, { task: words })
  const queued = await start(service, { task: 'later' })
  expect((await service.call('POST', `/v1/runs/${queued}/messages`, { content: 'with this' })).status).toBe(202)
  await until(service, queued, { status: 'queued' })
  await cli.entry('in', 2)
  expect(await service.app.stop(new AbortController().signal)).toBe(1)
  expect(pidsOf(cli).filter(isAlive)).toEqual([])
  const next = await lives.start(options)
  expect(await next.result(busy)).toMatchObject({ stopReason: 'completed', output: [{ text: `You said: ${words}` }] })
  expect(await next.result(idle)).toMatchObject({ stopReason: 'completed', output: [{ text: 'You said: hi' }] })
  expect(await next.result(queued)).toMatchObject({ stopReason: 'completed', output: [{ text: 'You said: with this' }] })
  expect(story(await next.log(queued)).filter((line) => /^(turn|user|end)/.test(line))).toEqual(['turn 1 task', 'user later', 'user with this', 'end 1 completed'])
  expect(sent(cli).slice(-2)).toEqual(['first later', 'now with this'])
})

test.concurrent('SIGKILL of the service: the next start ends the group that is left, settles chat and children, and begins a queued one anew', async ({ onTestFinished }) => {
  const { cli, start: serve } = deploy(onTestFinished, {
    start: [{ ignore: 'end' }, { ignore: 'SIGTERM' }, ...opens(1), { emit: spawned }, { grandchild: { ignoresTerm: true } }, { silent: true }],
    resume: [...opens(1), { emit: [...streamed('m', 'back'), result()] }]
  })
  const service = serve({ MAX_RUNNING: '1' })
  const busy = await start(service)
  const { pid } = await cli.entry('grandchild')
  await until(service, busy, { runningChildren: 1 })
  const queued = await start(service, { task: 'second' })
  const cancelled = await start(service, { task: 'third' })
  service.signal('SIGKILL')
  await service.ended
  const [leader] = cli.entries('start')
  expect([leader?.pid, pid].filter((each) => isAlive(each ?? 0))).toEqual([leader?.pid, pid])
  const next = serve({ MAX_RUNNING: '1' })
  const { status, body } = await next.call('GET', `/v1/runs/${busy}/result?wait=10`)
  expect([status, body]).toMatchObject([200, { stopReason: 'error', error: { code: 'INTERRUPTED' } }])
  expect([leader?.pid, pid].filter((each) => isAlive(each ?? 0))).toEqual([])
  const { body: tree } = await next.call('GET', `/v1/runs/${busy}/tree`)
  expect(tree).toMatchObject({ runningChildren: 0, children: [{ status: 'settled', stopReason: 'error', error: { code: 'INTERRUPTED' } }] })
  await cli.entry('start', 2)
  await until(next, queued, { status: 'running' })
  await next.call('POST', `/v1/runs/${cancelled}/cancel`)
  await until(next, cancelled, { status: 'settled', stopReason: 'aborted' })
  const later = await next.call('POST', `/v1/runs/${busy}/messages`, { content: 'go on', mode: 'follow-up' })
  expect(later).toMatchObject({ status: 201, body: { continues: busy, status: 'queued' } })
  await next.call('DELETE', `/v1/runs/${queued}`)
  await until(next, later.body.id as string, { status: 'settled', stopReason: 'completed' })
})

test.concurrent('D8 a CLI whose start was never written, and that its input\'s end did not end, is ended before its run begins anew', async ({ onTestFinished }) => {
  const script: Script = { start: [{ ignore: 'end' }, { ignore: 'SIGTERM' }, ...opens(1), { emit: [...streamed('m', 'done'), result()] }], resume: [] }
  const cli = fakeClaude(onTestFinished, script)
  const lives = createLives(onTestFinished)
  const root = realpathSync(makeFolder(onTestFinished))
  const options = { yaml: configOf(cli, root), env: { PATH, MAX_RUNNING: '1', SHUTDOWN_GRACE_MS: '100' } }
  const service = await lives.start(options)
  await start(service)
  const queued = await start(service)
  await until(service, queued, { status: 'queued' })
  await cli.entry('start')
  await service.stop()
  const stranger = fakeClaude(onTestFinished, script)
  // As a service that was killed in the instant after it had started them.
  const left = await Promise.all([[stranger, queued], [stranger, `${queued}0`]].map(async ([fake, runId]) => {
    const env = environmentOf({ inherited: { PATH }, env: (fake as FakeClaude).env, runId: runId as string })
    const made = await startCli({ command: cli.command, args: [], cwd: root, env, onStderr: () => {} })
    onTestFinished(() => made.end(0))
    return made.pid
  }))
  await stranger.entry('start', 2)
  expect(left.map(isAlive)).toEqual([true, true])
  const next = await lives.start(options)
  await cli.entry('start', 2)
  expect(left.map(isAlive)).toEqual([false, true])
  expect(await next.result(queued)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
})

test.concurrent('SIGKILL of the service: a CLI that ends with its input is gone, an idle chat settles with its last answer', async ({ onTestFinished }) => {
  const { cli, start: serve } = deploy(onTestFinished)
  const service = serve()
  const id = await start(service, { keepOpen: true, task: 'hi' })
  await until(service, id, { status: 'idle' })
  service.signal('SIGKILL')
  await service.ended
  const next = serve()
  const { body } = await next.call('GET', `/v1/runs/${id}/result?wait=10`)
  expect(body).toMatchObject({ stopReason: 'completed', output: [{ text: 'You said: hi' }] })
  await vi.waitFor(() => { expect(pidsOf(cli).filter(isAlive)).toEqual([]) })
})

test.concurrent('DELETE of a driven run ends its process, and forgets the run, its children and its journal', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { settings: { graceMs: 60 }, script: [{ ignore: 'SIGTERM' }, ...opens(1), { emit: spawned }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: [notified('t-1', 'stopped'), result()] }, { silent: true }] })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  const [{ id: childId }] = await drive.children(id)
  expect((await drive.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
  for (const each of [id, childId]) expect((await drive.call('GET', `/v1/runs/${each}`)).status).toBe(404)
  expect(await drive.app.store.readFrames('default', id, 0, 10)).toEqual([])
  expect(existsSync(drive.root)).toBe(true)
})
