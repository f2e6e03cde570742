import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { makeFolder } from '../support/service.ts'

const root = resolve(import.meta.dirname, '../..')
const hasStrace = spawnSync('strace', ['-f', '-o', '/dev/null', 'true']).status === 0
const CALLS = 'openat,open,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,truncate,chmod,fchmodat,mknod,mknodat'

/** Beside the packages, as `npm start` has it too; a read-only root has none. */
const COMPILED = join(realpathSync(join(root, 'node_modules')), '.cache')

/** A folder of each kind that a process might write to; none but `data` is given to it. */
function folders (): Record<'data' | 'home' | 'temp' | 'here' | 'top', string> {
  const top = makeFolder(onTestFinished)
  const made = { data: join(top, 'data'), home: join(top, 'home'), temp: join(top, 'temp'), here: join(top, 'here') }
  for (const folder of Object.values(made)) mkdirSync(folder)
  return { ...made, top }
}

/** The service as `npm start` runs it, at work on runs of each kind, then told to stop. `before`: a command that runs it. */
async function liveOnce ({ data, home, temp, here }: ReturnType<typeof folders>, before: string[] = []): Promise<void> {
  const [command, ...args] = [...before, process.execPath, '--max-semi-space-size=4', join(root, 'src/main.ts')]
  const child = spawn(command as string, args, {
    cwd: here, stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH ?? '', HOME: home, TMPDIR: temp, PORT: '0', DATABASE_URL: `sqlite:${join(data, 'runs.db')}`, SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0' }
  })
  onTestFinished(() => { child.kill('SIGKILL') })
  const listening = Promise.withResolvers<string>()
  createInterface(child.stdout).on('line', (line) => {
    const { url } = JSON.parse(line) as { url?: string }
    if (url !== undefined) listening.resolve(url)
  })
  const ended = once(child, 'close')
  ended.then(([code]) => listening.reject(new Error(`it ended with ${code}`)), () => {})
  const url = await listening.promise
  const post = async (path: string, body: object): Promise<{ id: string, status: string }> => {
    const answer = await fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', prefer: 'wait=20' }, body: JSON.stringify(body) })
    return await answer.json() as { id: string, status: string }
  }
  const program = { call: { name: 'run_code', input: { code: 'return 1 + 1' } } }
  const runs = [
    { task: 'a' }, { task: 'a', codeMode: 'code', agentOptions: { script: [program, { say: 'done' }] } },
    { task: 'a', outputSchema: { type: 'object' }, agentOptions: { script: [{ call: { name: 'structured_output', input: {} } }] } }
  ]
  for (const run of runs) expect(await post('/v1/runs', run)).toMatchObject({ status: 'settled' })
  const { id } = await post('/v1/sessions', { transcript: { format: 'openai-chat', messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }] } })
  expect(await post('/v1/runs', { task: 'a', provider: 'fork', parent: { sessionId: id } })).toMatchObject({ status: 'settled' })
  for (const path of ['/docs', '/docs/swagger-ui-bundle.js', '/openapi.json', '/metrics']) await (await fetch(url + path)).text()
  const [pid] = before.length === 0 ? [child.pid] : readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ').map(Number)
  process.kill(pid as number, 'SIGTERM')
  expect((await ended)[0]).toBe(0)
}

test('nothing is written to the home, the temporary or the working folder, and to the data folder only the database, for its owner alone', async () => {
  const made = folders()
  await liveOnce(made)
  expect([made.home, made.temp, made.here].map((folder) => readdirSync(folder))).toEqual([[], [], []])
  const kept = readdirSync(made.data)
  expect(kept.filter((name) => !name.startsWith('runs.db'))).toEqual([])
  expect(kept.map((name) => statSync(join(made.data, name)).mode & 0o777)).toEqual(kept.map(() => 0o600))
})

test.skipIf(!hasStrace)('no system call makes, opens for writing, renames or removes a file outside the data folder, but Node\'s compiled sources beside the packages', async () => {
  const made = folders()
  const trace = join(made.top, 'trace')
  await liveOnce(made, ['strace', '-f', '-qq', '-s', '4096', '-e', `trace=${CALLS}`, '-o', trace])
  const writes = readFileSync(trace, 'utf8').split('\n').filter((line) => {
    const [, call, args = ''] = /^\d+ +(?:<\.\.\. )?(\w+)[( ](.*)/.exec(line) ?? []
    if (call === undefined || / = -1 /.test(line) || line.includes('resumed>')) return false
    return !/^open(at)?$/.test(call) || /O_(WRONLY|RDWR|CREAT|TRUNC)/.test(args)
  })
  expect(writes.some((line) => line.includes(join(made.data, 'runs.db-wal')))).toBe(true)
  const elsewhere = writes.filter((line) => {
    const paths = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map((match) => match[1] as string)
    return !paths.every((path) => path.startsWith(`${made.data}/`) || path.startsWith(join(root, 'node_modules/.cache')) || path === made.data || path === '/dev/null' || path === '/dev/tty' || path.startsWith(COMPILED))
  })
  expect(elsewhere).toEqual([])
}, 60_000)

interface Compose { services: Record<string, Record<string, unknown>>, volumes: Record<string, unknown> }

test('the container runs as a user without rights, and its image holds nothing that this user may write to but the data', () => {
  const stages = readFileSync(join(root, 'Dockerfile'), 'utf8').split(/^FROM /m).slice(1)
  const last = stages.at(-1) ?? ''
  const lines = last.split('\n')
  const at = (start: RegExp): number => lines.findIndex((line) => start.test(line))
  expect(lines[at(/^USER /)]).toBe('USER node')
  expect(lines.filter((line) => line.startsWith('USER '))).toHaveLength(1)
  // What comes after is run as that user, in a build too; the files before it are root's, and only read.
  expect(at(/^USER /)).toBeGreaterThan(Math.max(...lines.map((line, i) => /^COPY|^ADD/.test(line) ? i : -1)))
  expect(at(/^CMD/)).toBeGreaterThan(at(/^USER /))
  expect(last).not.toMatch(/--chown|chmod|^ADD |sudo|apt-get|curl/m)
  expect(lines[at(/^CMD/)]).toMatch(/^CMD \["node", /)
  expect([...last.matchAll(/install -d -o node -g node(?: -m (\d+))? (\S+)/g)].map(([, mode, path]) => [mode, path])).toEqual([['700', '/data'], [undefined, '/app/.compile-cache']])
  expect(last).toContain('VOLUME /data')
  for (const stage of stages) expect(stage).not.toMatch(/(KEY|TOKEN|SECRET|PASSWORD)=/)
  expect(stages[0]).toContain('npm ci --omit=dev --ignore-scripts')
})

test('compose starts it with a read-only root, no capabilities, no new privileges, and publishes on this machine alone', () => {
  const { services, volumes } = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8')) as Compose
  expect(Object.keys(services)).toEqual(['subagentd'])
  const service = services['subagentd'] ?? {}
  expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'], init: true, ports: ['127.0.0.1:8080:8080'], volumes: ['data:/data'] })
  expect(service['tmpfs']).toEqual(['/tmp:size=64m,noexec,nosuid,nodev'])
  expect([service['pids_limit'], service['mem_limit']]).toEqual([512, '2g'])
  for (const key of ['privileged', 'cap_add', 'network_mode', 'pid', 'ipc', 'devices', 'user', 'extra_hosts']) expect(service).not.toHaveProperty(key)
  expect(JSON.stringify(service)).not.toMatch(/docker\.sock|host\.docker/)
  expect(Object.keys(volumes)).toEqual(['data'])
  // No secret stands in the file; each comes from the shell.
  const environment = service['environment'] as Record<string, unknown>
  for (const [name, value] of Object.entries(environment)) expect([name, value]).toEqual([name, name === 'ALLOW_UNAUTHENTICATED' ? 'true' : null])
})
