import { createHash, randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder, type Answer, type AtEnd } from '../support/service.ts'
import { startProcess, type ServiceProcess } from '../support/service-process.ts'
import type { Reference } from './requests.ts'

/** The real service as a process of its own, with two tenants and runs in every state. */

export const KEY = 'key-of-ann-0123456789'
export const FOREIGN_KEY = 'key-of-bob-0123456789'
const RUNNING = 16
/** More open runs than these are strays, and are cancelled. */
const MAX_OPEN = 28

export interface Population {
  service: ServiceProcess
  port: number
  /** The text with what its placeholders stand for. */
  fill (text: string): string
  /** Makes anew what the requests that named these have changed, and ends what they left running. */
  refresh (touched: ReadonlySet<Reference>): Promise<void>
  call (method: string, path: string, body?: unknown, headers?: Record<string, string>, key?: string): Promise<Answer>
}

export async function startPopulation (atEnd: AtEnd, env: Record<string, string> = {}): Promise<Population> {
  const folder = makeFolder(atEnd)
  const keys = join(folder, 'keys.yaml')
  const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex')
  const scopes = ['read', 'write', 'metrics']
  writeFileSync(keys, JSON.stringify([{ id: 'ann', sha256: sha256(KEY), tenant: 'a', scopes }, { id: 'bob',
    sha256: sha256(FOREIGN_KEY), tenant: 'b', scopes }]))
  const service = startProcess(atEnd, {
    DATABASE_URL: `sqlite:${join(folder, 'runs.db')}`, LOG_LEVEL: 'info', API_KEYS_FILE: keys, MAX_BODY_BYTES: '1000000',
      MAX_WAIT_SECONDS: '1',
    MAX_RUNNING: String(RUNNING), MAX_QUEUED: '40', SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0',
    // As `npm start` does.
    MALLOC_ARENA_MAX: '1', NODE_OPTIONS: '--max-semi-space-size=4', ...env
  })
  const url = await service.url
  const call: Population['call'] = (method, path, body, headers = {}, key = KEY) => service.call(method, path, body,
    { authorization: `Bearer ${key}`, ...headers })
  const ids = new Map<string, string>([['unknown', randomUUID()], ['foreignKey', FOREIGN_KEY]])
  const fill = (text: string): string => text.replaceAll(/\{\{(\w+)\}\}/g, (whole, name: string) => ids.get(name) ?? whole)
  const population: Population = { service, port: Number(new URL(url).port), fill, call, refresh: (touched) => refresh(population,
    ids, touched) }
  await population.refresh(new Set(Object.keys(MAKERS) as Reference[]))
  return population
}

type Maker = (call: Population['call']) => Promise<string>
const scripted = (...script: object[]): object => ({ task: 'a task', agentOptions: { model: 'scripted/demo', script } })
const ask = { ...scripted({ call: { name: 'ask', id: 'c1' } }, { say: 'done' }), tools: [{ name: 'ask',
  inputSchema: { type: 'object' } }] }

const started = (body: object, status: string, key = KEY): Maker => async (call) => {
  const { body: run, text } = await call('POST', '/v1/runs', body, { prefer: status === 'running' ? 'wait=0' : 'wait=1' }, key)
  if (run?.status !== status) throw new Error(`a run should be ${status}: ${text}`)
  return run.id as string
}
const made = (path: string, body: object, key = KEY): Maker => async (call) => {
  const { body: session, text } = await call('POST', path, body, {}, key)
  if (typeof session?.id !== 'string') throw new Error(`no session was made: ${text}`)
  return session.id
}
const messages = [{ role: 'user', content: 'hi' }, { role: 'assistant', content: 'ho' }]

const MAKERS: Partial<Record<Reference, Maker>> = {
  running: started(scripted({ say: 'a b c', hang: true }), 'running'),
  waiting: started(ask, 'waiting'),
  // Its host runs the program: nothing of it is here.
  chat: async (call) => {
    const { body: run, text } = await call('POST', '/v1/runs', { provider: 'claude-code', ingest: true })
    if (typeof run?.id !== 'string') throw new Error(`no chat was made: ${text}`)
    return run.id as string
  },
  settled: started(scripted({ say: 'done' }), 'settled'),
  failed: started(scripted({ fail: { code: 'MODEL_AUTH' } }), 'settled'),
  aborted: async (call) => {
    const id = await started(scripted({ hang: true }), 'running')(call)
    await call('POST', `/v1/runs/${id}/cancel?wait=1`)
    return id
  },
  deleted: async (call) => {
    const id = await started(scripted({ say: 'gone' }), 'settled')(call)
    await call('DELETE', `/v1/runs/${id}`)
    return id
  },
  parent: async (call) => {
    const id = await started(scripted({ hang: true }), 'running')(call)
    await started({ ...scripted({ hang: true }), parent: { runId: id } }, 'running')(call)
    return id
  },
  foreign: started(scripted({ hang: true }), 'running', FOREIGN_KEY),
  foreignWaiting: started(ask, 'waiting', FOREIGN_KEY),
  session: made('/v1/sessions', { transcript: { format: 'openai-chat', messages } }),
  emptySession: made('/v1/sessions', {}),
  foreignSession: made('/v1/sessions', { transcript: { format: 'openai-chat', messages } }, FOREIGN_KEY),
  deletedSession: async (call) => {
    const id = await made('/v1/sessions', {})(call)
    await call('DELETE', `/v1/sessions/${id}`)
    return id
  }
}
/** What the run of a reference is like while nobody changed it; others are made anew whenever they were touched. */
const STATES: Partial<Record<Reference, string>> = { running: 'running', waiting: 'waiting', settled: 'settled',
  failed: 'settled', aborted: 'settled', parent: 'running', foreign: 'running', foreignWaiting: 'waiting' }

async function refresh ({ call }: Population, ids: Map<string, string>, touched: ReadonlySet<Reference>): Promise<void> {
  await endStrays(call, ids)
  for (const name of touched) {
    const make = MAKERS[name]
    const state = STATES[name]
    if (!make) continue
    const known = ids.get(name)
    const key = name.startsWith('foreign') ? FOREIGN_KEY : KEY
    if (known !== undefined && state !== undefined && (await call('GET', `/v1/runs/${known}`, undefined, {},
      key)).body?.status === state) continue
    ids.set(name, await make(call).catch(async () => {
      // The places were taken.
      await endStrays(call, ids, 0)
      return await make(call)
    }))
    if (name === 'settled') ids.set('cursor', (await call('GET', `/v1/runs/${ids.get(name)}/events`)).body.after as string)
  }
}

/** Cancels what requests left open where it is more than `most`, so that places are free again. */
async function endStrays (call: Population['call'], ids: Map<string, string>, most = MAX_OPEN): Promise<void> {
  for (const key of [KEY, FOREIGN_KEY]) {
    const open: { id: string, status: string, parent: { runId: string | null } }[] =
      (await call('GET', '/v1/runs?status=running&status=queued&status=waiting&limit=200', undefined, {}, key)).body.runs
    if (key === KEY) ids.set('queued', open.find(({ status }) => status === 'queued')?.id ?? randomUUID())
    if (open.length <= (key === KEY ? most : 2)) continue
    const kept = new Set(ids.values())
    const strays = open.filter(({ id, parent }) => !kept.has(id) && parent.runId !== ids.get('parent')).map(({ id }) => id)
    if (strays.length === 0) continue
    await call('POST', '/v1/runs/cancel', { ids: strays }, {}, key)
    await Promise.all(strays.map((id) => call('GET', `/v1/runs/${id}/result?wait=1`, undefined, {}, key)))
  }
}
