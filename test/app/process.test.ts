import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { makeFolder, type Answer } from '../support/service.ts'
import { startProcess, type ServiceProcess } from '../support/service-process.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const databaseIn = (folder: string): string => `sqlite:${join(folder, 'runs.db')}`

test('9 a bad configuration ends the process with 1 and names every bad key', async () => {
  const service = startProcess(
    onTestFinished, { MAX_RUNNING: '-1', RETENTION_DAYS: 'soon', DEFAULT_MODEL: 'nowhere', DATABASE_URL: 'mysql://x' }
  )
  expect(await service.ended).toBe(1)
  for (const key of ['MAX_RUNNING', 'RETENTION_DAYS', 'DEFAULT_MODEL', 'DATABASE_URL']) {
    expect(service.stderr()).toMatch(new RegExp(`^  ${key}: `, 'm'))
  }
  expect(service.lines).toEqual([])
})

test('3 the first line tells where it listens; a second process on its file or port is refused; two SIGTERMs end it', async () => {
  const folder = makeFolder(onTestFinished)
  const env = { DATABASE_URL: databaseIn(folder), SHUTDOWN_DELAY_MS: '600000', SHUTDOWN_GRACE_MS: '600000' }
  const service = startProcess(onTestFinished, env)
  const url = await service.url
  expect(service.lines).toHaveLength(1)
  expect(service.lines[0]).toMatchObject({
    url, docs: `${url}/docs`, model: 'scripted/demo', msg: expect.stringMatching(
      /^subagentd listens on http:\/\/127\.0\.0\.1:\d+ \(docs: .*\/docs\); model scripted\/demo answers; only this machine/
    )
  })
  const sameFile = startProcess(onTestFinished, env)
  const samePort = startProcess(onTestFinished, { DATABASE_URL: 'sqlite::memory:', PORT: new URL(url).port })
  expect(await sameFile.ended).toBe(1)
  expect(sameFile.stderr()).toBe(
    `the service cannot start: cannot open the database "${join(folder, 'runs.db')}": it is in use by another process. ` +
      'Stop that process, or set DATABASE_URL to another file\n'
  )
  expect(await samePort.ended).toBe(1)
  expect(samePort.stderr()).toBe(
    `the service cannot start: port ${new URL(url).port} of 127.0.0.1 is in use by another process. ` +
      'Stop that process, or set PORT to another one\n'
  )

  const { body: run } = await service.call('POST', '/v1/runs', hang)
  service.signal('SIGTERM')
  await service.told(/^draining/)
  expect(await service.call('GET', '/readyz')).toMatchObject({ status: 503, body: { code: 'SHUTTING_DOWN' } })
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  expect((await service.call('POST', '/v1/runs', hang)).status).toBe(201)
  const stream = await fetch(`${url}/v1/runs/${run.id}/events`, { headers: { accept: 'text/event-stream' } })
  service.signal('SIGTERM')
  expect(await stream.text()).toMatch(/^event: step\/start$/m)
  expect(await service.ended).toBe(0)
  expect(service.stderr()).toBe('')
  expect(service.lines.at(-1)).toMatchObject({ left: 2, msg: 'stopped; open runs are taken up at the next start' })
  expect(service.lines.map(({ msg }) => msg)).not.toContainEqual(expect.stringMatching(/keeps the process|Server listening/))
  const next = startProcess(onTestFinished, env)
  await next.told(/^took up/)
  expect(next.lines.map(({ msg }) => msg)).toMatchObject(
    [/^subagentd listens/, /^run resumed/, /^run resumed/, /^took up/].map((line) => expect.stringMatching(line))
  )
})

const eventsOf = async (service: ServiceProcess, id: string): Promise<SessionEvent[]> =>
  (await service.call('GET', `/v1/runs/${id}/events?limit=200`)).body.events

test('2.8 SIGKILL in every state: what was acknowledged is there, and each run goes on as the rules say', async () => {
  const folder = makeFolder(onTestFinished)
  const toolLog = join(folder, 'tools.log')
  const env = { DATABASE_URL: databaseIn(folder), TOOL_LOG: toolLog, MAX_RUNNING: '3' }
  const entry = 'test/support/service-with-tools.ts'
  const first = startProcess(onTestFinished, { ...env, STAY: 'yes' }, entry)
  const start = async (service: ServiceProcess, body: object, headers = {}): Promise<Answer['body']> => {
    const key = { 'idempotency-key': JSON.stringify(body).replaceAll(' ', '_') }
    return (await service.call('POST', '/v1/runs', body, { ...key, ...headers })).body
  }
  const calls = (name: string): object =>
    ({ task: name, agentOptions: { script: [{ call: { name } }, { say: `after ${name}` }] } })
  const hostBody = {
    task: 'host', tools: [{ name: 'ask' }],
    agentOptions: { script: [{ calls: [{ name: 'ask' }, { name: 'ask' }] }, { say: 'thanks' }] }
  }
  const settled = await start(first, { task: 'done' }, { prefer: 'wait=20' })
  const host = await start(first, hostBody, { prefer: 'wait=20' })
  const [one, two] = host.pendingToolCalls.map((call: { toolCallId: string }) => call.toolCallId)
  expect(
    (await first.call('POST', `/v1/runs/${host.id}/tool-results`, { results: [{ toolCallId: one, content: 'kept' }] })).status
  ).toBe(200)
  const model = await start(first, hang)
  const again = await start(first, calls('again'))
  const once = await start(first, calls('once'))
  const queued = await start(first, { task: 'queued', agentOptions: { script: [{ say: 'ran' }] } })
  expect(queued.status).toBe('queued')
  for (const [run, type] of [[again, 'tool/call'], [once, 'tool/call'], [model, 'step/start']] as const) {
    while (!(await eventsOf(first, run.id)).some((event) => event.type === type)) await first.call('GET', '/healthz')
  }
  while (readFileSync(toolLog, 'utf8') !== 'again\nonce\n') await first.call('GET', '/healthz')
  const before = await Promise.all([settled, host, model, again, once, queued].map((run) => eventsOf(first, run.id)))
  first.signal('SIGKILL')
  expect(await first.ended).toBe('SIGKILL')

  const second = startProcess(onTestFinished, env, entry)
  const result = async (id: string): Promise<Answer['body']> => (await second.call('GET', `/v1/runs/${id}/result?wait=20`)).body
  expect(await result(again.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'after again' }] })
  expect(await result(once.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'after once' }] })
  expect(readFileSync(toolLog, 'utf8')).toBe('again\nonce\nagain\n')
  expect(await result(queued.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'ran' }] })
  expect(await start(second, hostBody)).toMatchObject({ id: host.id, status: 'waiting', pendingToolCalls: [{ toolCallId: two }] })
  await second.call(
    'POST', `/v1/runs/${host.id}/tool-results`, { results: [{ toolCallId: two, content: 'late' }] }, { prefer: 'wait=20' }
  )
  expect(await result(host.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'thanks' }] })
  expect(
    (await eventsOf(second, model.id)).filter((event) => event.type === 'step/start').map(({ data }) => data)
  ).toMatchObject([{ attempt: 1 }, { attempt: 2 }])
  await second.call('POST', `/v1/runs/${model.id}/cancel?wait=20`)
  const unknown = (await eventsOf(second, once.id)).find((event) => event.type === 'tool/result')
  expect(unknown?.data).toMatchObject({ isError: true, content: [{ text: expect.stringMatching(/outcome unknown/) }] })
  for (const [i, run] of [settled, host, model, again, once, queued].entries()) {
    expect((await eventsOf(second, run.id)).slice(0, before[i]?.length)).toEqual(before[i])
  }
  expect((await second.call('GET', '/v1/runs?status=running&status=queued&status=waiting')).body.runs).toEqual([])
})
