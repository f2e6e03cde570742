import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { createLogger } from '../../src/observe/log.ts'
import { makeFolder } from '../support/service.ts'

type Line = Record<string, unknown>

/** The real service, and what its log tells of runs. */
async function open (path = ':memory:', yaml = '') {
  const lines: Line[] = []
  const config = loadConfig({
    DATABASE_URL: `sqlite:${path}`, PORT: '0', SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0', CONFIG: 'x.yaml'
  }, () => yaml)
  const log = createLogger({ level: 'info', pretty: false, destination: { write: (line) => { lines.push(JSON.parse(line) as Line) } } })
  const app = await createApp({ config, log })
  const url = await app.listen()
  const stop = () => app.stop(AbortSignal.abort())
  onTestFinished(async () => { await stop() })
  const post = async (path: string, body: object, headers: Record<string, string> = {}): Promise<any> => { // eslint-disable-line typescript/no-explicit-any
    const answer = await fetch(url + path, {
      method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', prefer: 'wait=20', ...headers }
    })
    return await answer.json()
  }
  const told = (id: string): Line[] => lines.filter(({ runId }) => runId === id)
  return { post, stop, told, lines }
}
const by = (requestId: string) => ({ 'x-request-id': requestId })
const scripted = (...script: unknown[]) => ({ agentOptions: { model: 'scripted/demo', script } })
const waits = { task: 'x', tools: [{ name: 'ask' }], ...scripted({ call: { id: 'c', name: 'ask' } }, { say: 'ok' }) }

test('a run has one line at its start and one at its end, with every id and the request that made it', async () => {
  const { post, told } = await open()
  const { id } = await post('/v1/runs', { task: 'x' }, by('req-1'))
  const ids = { level: 30, time: expect.any(String), runId: id, tenant: 'default', rootId: id, provider: 'spawn', requestId: 'req-1' }
  expect(told(id)).toEqual([
    { ...ids, model: 'scripted/demo', depth: 1, msg: 'run started' },
    { ...ids, stopReason: 'completed', ms: expect.any(Number), steps: 1, tokens: expect.any(Number), msg: 'run settled' }
  ])
})

test('a delegated child has its own lines, with its parent, its root and the request that made the root', async () => {
  const { post, lines } = await open(':memory:', 'delegation: true')
  const { id } = await post('/v1/runs', { task: 'x', ...scripted({ call: { name: 'subagent', input: { description: 'd', prompt: 'p' } } }, { say: 'ok' }) }, by('req-1'))
  expect(lines.filter(({ parentRunId }) => parentRunId === id)).toEqual([
    expect.objectContaining({ rootId: id, depth: 2, requestId: 'req-1', msg: 'run started' }),
    expect.objectContaining({ rootId: id, requestId: 'req-1', stopReason: 'completed', msg: 'run settled' })
  ])
})

test('a failed run says why, a cancelled one by whom, a follow-up what it continues', async () => {
  const { post, told } = await open()
  const failed = await post('/v1/runs', { task: 'x', ...scripted({ fail: { code: 'MODEL_AUTH' } }) })
  expect(told(failed.id).at(-1)).toMatchObject({ msg: 'run settled', stopReason: 'error', errorCode: 'MODEL_AUTH', reason: failed.error.message })
  const waiting = await post('/v1/runs', waits, by('req-1'))
  await post(`/v1/runs/${waiting.id}/cancel?wait=10`, {}, by('req-2'))
  expect(told(waiting.id).at(-1)).toMatchObject({ msg: 'run settled', stopReason: 'aborted', cancelledBy: 'request', requestId: 'req-1' })
  const later = await post(`/v1/runs/${failed.id}/messages`, { content: 'again', mode: 'follow-up' }, by('req-3'))
  expect(told(later.id)).toEqual([
    expect.objectContaining({ msg: 'run started', continues: failed.id, rootId: later.id, requestId: 'req-3' }),
    expect.objectContaining({ msg: 'run settled', continues: failed.id })
  ])
  for (const { id } of [failed, waiting, later]) expect(told(id)).toHaveLength(2)
})

test('a run that is taken up again has a line that says so, and its end; no request made it here', async () => {
  const path = `${makeFolder(onTestFinished)}/x.db`
  const first = await open(path)
  const { id } = await first.post('/v1/runs', waits, by('req-1'))
  await first.stop()
  expect(first.told(id).map(({ msg }) => msg)).toEqual(['run started'])
  const second = await open(path)
  const result = await second.post(`/v1/runs/${id}/tool-results`, { results: [{ toolCallId: 'c', content: 'yes' }] })
  expect(result.status).toBe('settled')
  expect(second.told(id)).toEqual([
    expect.objectContaining({ msg: 'run resumed', rootId: id, status: 'waiting' }), expect.objectContaining({ msg: 'run settled', stopReason: 'completed' })
  ])
  expect(second.told(id)[0]).not.toHaveProperty('requestId')
})

test('in a terminal a line is one line: what happened, then the ids', async () => {
  const out = new PassThrough()
  const log = createLogger({ level: 'info', pretty: true, destination: out })
  const app = await createApp({ config: loadConfig({ DATABASE_URL: 'sqlite::memory:', PORT: '0', SHUTDOWN_DELAY_MS: '0' }, () => ''), log })
  const url = await app.listen()
  onTestFinished(async () => { await app.stop(AbortSignal.abort()) })
  await fetch(`${url}/v1/runs`, { method: 'POST', body: '{"task":"x"}', headers: { 'content-type': 'application/json', prefer: 'wait=20' } })
  await app.stop(AbortSignal.abort())
  const lines = String(out.read()).trim().split('\n')
  expect(lines).toHaveLength(2)
  expect(lines[0]).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: run started \{"runId":/)
  expect(lines[1]).toMatch(/INFO: run settled \{"runId":.*"stopReason":"completed"/)
})
