import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pkg from '../package.json' with { type: 'json' }
import { freePort, serve, type Served } from './process.ts'

/** One line of the table. `met`: whether the bar holds; `null` where there is none. */
export interface Row { what: string, figure: string, floor: string, ratio: string, bar: string, met: boolean | null }

/** What a section of the benchmark works with. Everything it starts is stopped when the section is over. */
export interface Bench {
  /** Fewer repetitions: to see that it runs, not to quote. */
  readonly quick: boolean
  /** A fresh service on a fresh database, or on `database` again. `tooled`: with a tool of its own (tooled.ts). */
  service (options?: { env?: Record<string, string>, nodeArgs?: string[], database?: string, tooled?: boolean }): Promise<Served>
  floor (): Promise<Served>
  /** A model server that streams as many deltas as the request's `max_tokens` says. */
  upstream (): Promise<Served>
  /** A place for a database; gone with the section. */
  database (): string
}

/** How `npm start` starts the service, its environment and its flags: what is measured is what operators run. */
const STARTED = startOf(pkg.scripts.start.split(' '))

function startOf (words: readonly string[]): { env: Record<string, string>, flags: string[] } {
  const node = words.indexOf('node')
  return { env: Object.fromEntries(words.slice(0, node).map((word) => word.split('=', 2))), flags: words.slice(node + 1, -1) }
}

export type Section = (bench: Bench) => Promise<Row[]>

/** Runs a section, for at most `seconds`, and stops whatever it left running. */
export async function runSection (section: Section, quick: boolean, seconds: number): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'subagentd-bench-'))
  const running: Served[] = []
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000)
  try {
    return await Promise.race([section(createBench(folder, running, quick)), late])
  } finally {
    clearTimeout(timer)
    await Promise.all(running.map((process) => process.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}

function createBench (folder: string, running: Served[], quick: boolean): Bench {
  let databases = 0
  const database = (): string => join(folder, `${++databases}.db`)
  const start = async (args: string[], readyPath: string, env: (port: number) => Record<string, string>): Promise<Served> => {
    const port = await freePort()
    const served = await serve({ args, readyPath, port, env: env(port) })
    running.push(served)
    return served
  }
  const beside = (file: string): string => join(import.meta.dirname, file)
  return {
    quick,
    database,
    service: ({ env = {}, nodeArgs = [], database: path = database(), tooled = false } = {}) =>
      start([...STARTED.flags, ...nodeArgs, beside(tooled ? 'tooled.ts' : '../src/main.ts')], '/readyz', (port) => ({
        ...STARTED.env, PORT: String(port), HOST: '127.0.0.1', DATABASE_URL: `sqlite:${path}`, LOG_LEVEL: 'error', SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '1000', ...env
      })),
    floor: () => start([beside('floor.ts')], '/healthz', (port) => ({ PORT: String(port), DATABASE: database() })),
    upstream: () => start([beside('upstream.ts')], '/healthz', (port) => ({ PORT: String(port) }))
  }
}

/** Bytes on disk of a database, its side files included. */
export function diskBytes (path: string): number {
  const folder = join(path, '..')
  const files = readdirSync(folder).filter((name) => join(folder, name).startsWith(path))
  return files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}
