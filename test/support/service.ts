import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApp, type App, type AppOptions } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import type { SessionEvent } from '../../src/core/events.ts'
import { createLogger } from '../../src/observe/log.ts'
import { createTwoTenants, type TwoTenants } from './two-tenants.ts'

/** Whatever ends a test's things: vitest's `onTestFinished`, or a list of one's own. */
export type AtEnd = (end: () => void | Promise<void>) => unknown

export interface ServiceOptions extends Partial<Pick<AppOptions, 'tools' | 'keys' | 'now' | 'random' | 'agents' | 'clock'>> {
  /** Over the defaults: memory store, port 0, silent log. */
  env?: Record<string, string>
  /** Its test counts what the whole service does, so that no second tenant may come (two-tenants.ts). */
  alone?: boolean
  /** Content of the file that `CONFIG` names. */
  yaml?: string
  /** Gets each line of the log. */
  onLog?: (line: string) => void
}

export interface Answer<T = any> { status: number, headers: Headers, body: T, text: string } // eslint-disable-line typescript/no-explicit-any

export interface Service {
  app: App
  url: string
  call<T = any> (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer<T>> // eslint-disable-line typescript/no-explicit-any
  /** Starts a run and throws unless it was published. */
  start (body: object, headers?: Record<string, string>): Promise<{ id: string, [key: string]: any }> // eslint-disable-line typescript/no-explicit-any
  /** The run's result, once it is settled. */
  result (id: string): Promise<any> // eslint-disable-line typescript/no-explicit-any
  /** The run's session log, its seed included, as it is stored. */
  log (id: string): Promise<SessionEvent[]>
  stop (): Promise<number>
}

/** The real service on a free port: routes, driver, loop and store are real. */
export async function startService (atEnd: AtEnd, options: ServiceOptions = {}): Promise<Service> {
  const env = { DATABASE_URL: 'sqlite::memory:', PORT: '0', LOG_LEVEL: 'silent', SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0', ...options.env }
  const config = loadConfig(options.yaml === undefined ? env : { ...env, CONFIG: 'test.yaml' }, () => options.yaml ?? '')
  const { onLog } = options
  const log = createLogger({ level: onLog ? 'info' : config.logLevel, pretty: false, ...(onLog ? { destination: { write: onLog } } : {}) })
  const second = process.env.TEST_TENANTS === '2' && !options.alone && !options.keys && !config.jwt ? createTwoTenants(isAlone(options)) : undefined
  const { tools, keys = second?.keys, now, random, agents, clock } = options
  const app = await createApp({ config, log, ...(tools ? { tools } : {}), ...(agents ? { agents } : {}), ...(keys ? { keys } : {}), ...(now ? { now } : {}), ...(random ? { random } : {}), ...(clock ? { clock } : {}) })
  second?.follow(app, () => url)
  const url = await app.listen()
  let stopped: Promise<number> | undefined
  const stop = (): Promise<number> => stopped ??= stopBoth(app, second)
  atEnd(async () => { await stop() })
  return { app: second?.view(app) ?? app, url, stop, ...createCalls(app, url) }
}

async function stopBoth (app: App, second: TwoTenants | undefined): Promise<number> {
  try {
    await second?.end()
  } finally {
    await app.stop(AbortSignal.abort())
  }
  return await app.stop(AbortSignal.abort())
}

/** Whether another tenant's runs would leave a test's own things alone: its tools, its models, its clock, its caps. */
const isAlone = ({ env = {}, yaml, tools = [], now, random, agents }: ServiceOptions): boolean =>
  yaml === undefined && tools.length === 0 && !now && !random && !agents && Object.keys(env).every((name) => name === 'DATABASE_URL' || name === 'MAX_WAIT_SECONDS')

function createCalls (app: App, url: string): Pick<Service, 'call' | 'start' | 'result' | 'log'> {
  const call: Service['call'] = async (method, path, body, headers = {}) => {
    const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const response = await fetch(url + path, { method, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, ...sent })
    const text = await response.text()
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined }
  }
  return {
    call,
    async start (body, headers) {
      const { status, body: run, text } = await call('POST', '/v1/runs', body, headers)
      if (status !== 201) throw new Error(`the start was answered ${status}: ${text}`)
      return run
    },
    async result (id) {
      const { status, body, text } = await call('GET', `/v1/runs/${id}/result?wait=20`)
      if (status !== 200) throw new Error(`the result was answered ${status}: ${text}`)
      return body
    },
    async log (id) {
      const run = await app.store.getRun('default', id)
      if (!run) throw new Error(`no run ${id}`)
      return await app.store.readEvents(run.segment, 0)
    }
  }
}

/** A folder that goes at the end. */
export function makeFolder (atEnd: AtEnd): string {
  const folder = mkdtempSync(join(tmpdir(), 'subagentd-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
