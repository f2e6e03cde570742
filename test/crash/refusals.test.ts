import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')
const HANG = [{ hang: true }]

interface Process { child: ChildProcess, url: Promise<string>, stderr: () => string, ended: Promise<number | null> }

/** The service as a process that no write past a limit ends by a signal: such a write fails, as on a full disk. */
function startService (path: string, identity: { uid?: number, gid?: number } = {}): Process {
  const child = spawn('sh', ['-c', 'trap "" XFSZ; exec "$0" src/main.ts', process.execPath], {
    cwd: root, ...identity, stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', PORT: '0', DATABASE_URL: `sqlite:${path}`, SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0' }
  })
  const errors: string[] = []
  const url = Promise.withResolvers<string>()
  child.stderr.on('data', (chunk: Buffer) => { errors.push(chunk.toString()) })
  createInterface(child.stdout).on('line', (line) => {
    const entry = JSON.parse(line) as { url?: string }
    if (entry.url !== undefined) url.resolve(entry.url)
  })
  const ended = once(child, 'close').then(([code]) => {
    url.reject(new Error(errors.join('')))
    return code as number | null
  })
  url.promise.catch(() => {})
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, url: url.promise, stderr: () => errors.join(''), ended }
}

// eslint-disable-next-line typescript/no-explicit-any
async function call (url: string, method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<{ status: number, headers: Headers, body: any }> {
  const response = await fetch(url + path, {
    method, headers: { ...body === undefined ? {} : { 'content-type': 'application/json' }, ...headers }, ...body === undefined ? {} : { body: JSON.stringify(body) }
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

/** No file of the process may grow past so many bytes. */
const limitFiles = ({ pid }: ChildProcess, bytes: string): void => { execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}`]) }

test('a full disk refuses clearly; what was acknowledged stays, and goes on once there is room', { timeout: 60_000 }, async () => {
  const path = join(makeFolder(onTestFinished), 'runs.db')
  const first = startService(path)
  const url = await first.url
  const settled = (await call(url, 'POST', '/v1/runs', { task: 'a' }, { prefer: 'wait=20' })).body
  const script = [{ call: { id: 'h1', name: 'ask' } }, { say: 'thanks' }]
  const host = (await call(url, 'POST', '/v1/runs', { task: 'b', tools: [{ name: 'ask' }], agentOptions: { script } }, { prefer: 'wait=20' })).body
  const hanging = (await call(url, 'POST', '/v1/runs', { task: 'c', agentOptions: { script: HANG } })).body
  const answer = { results: [{ toolCallId: host.pendingToolCalls[0].toolCallId, content: 'kept' }] }

  limitFiles(first.child, '4096:unlimited')
  const refused = await call(url, 'POST', '/v1/runs', { task: 'd', id: '11111111-1111-4111-8111-111111111111' })
  expect(refused).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE', retryable: true } })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await call(url, 'POST', `/v1/runs/${hanging.id}/cancel`)).status).toBe(503)
  expect((await call(url, 'GET', '/readyz')).status).toBe(503)
  expect((await call(url, 'GET', '/healthz')).status).toBe(200)
  expect((await call(url, 'GET', `/v1/runs/${settled.id}/result`)).body).toEqual(settled.result)
  expect((await call(url, 'GET', '/v1/runs/11111111-1111-4111-8111-111111111111')).status).toBe(404)

  limitFiles(first.child, 'unlimited:unlimited')
  while ((await call(url, 'GET', '/readyz')).status !== 200) await new Promise((resolve) => { setTimeout(resolve, 20) })
  expect((await call(url, 'POST', '/v1/runs', { task: 'd', id: '11111111-1111-4111-8111-111111111111' })).status).toBe(201)
  expect((await call(url, 'POST', `/v1/runs/${host.id}/tool-results`, answer)).status).toBe(200)
  expect((await call(url, 'GET', `/v1/runs/${host.id}/result?wait=20`)).body).toMatchObject({ stopReason: 'completed', output: [{ text: 'thanks' }] })
  first.child.kill('SIGKILL')
  await first.ended
  expect(first.stderr()).toBe('')

  const second = startService(path)
  const again = await second.url
  expect((await call(again, 'GET', `/v1/runs/${settled.id}/result`)).body).toEqual(settled.result)
  expect((await call(again, 'POST', `/v1/runs/${hanging.id}/cancel?wait=20`)).body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
})

test('a start on a damaged file, or one that it may not write, ends with 1 and a text that names the path and the mend', { timeout: 60_000 }, async () => {
  const folder = makeFolder(onTestFinished)
  chmodSync(folder, 0o755)
  const damaged = join(folder, 'damaged.db')
  writeFileSync(damaged, 'no database, but long enough to be taken for one. '.repeat(100))
  const before = readFileSync(damaged)
  const one = startService(damaged)
  expect(await one.ended).toBe(1)
  expect(one.stderr()).toBe(`the service cannot start: cannot open the database "${damaged}": it is no SQLite database, or a damaged one. ` +
    'Restore it from a backup, or set DATABASE_URL to another file\n')
  expect(readFileSync(damaged)).toEqual(before)
})

test.runIf(process.getuid?.() === 0)('a start in a folder that is read-only for its user ends with 1 and leaves nothing there', { timeout: 60_000 }, async () => {
  const folder = makeFolder(onTestFinished)
  chmodSync(folder, 0o755)
  const data = join(folder, 'data')
  mkdirSync(data, { mode: 0o755 })
  const service = startService(join(data, 'runs.db'), { uid: 65_534, gid: 65_534 })
  expect(await service.ended).toBe(1)
  expect(service.stderr()).toBe(`the service cannot start: cannot open the database "${join(data, 'runs.db')}": permission denied. ` +
    'Give this user write access to the file and its folder, or set DATABASE_URL to another file\n')
  expect(readdirSync(data)).toEqual([])
})
