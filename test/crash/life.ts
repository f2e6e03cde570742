import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const root = join(import.meta.dirname, '../..')
const LISTEN_MS = 20_000

/** At the n-th time that the process comes to a point, or so long after it began to listen. */
export type Kill = { point: string, hit: number } | { afterMs: number }
export interface LifeOptions { env: Record<string, string>, kill?: Kill | undefined, trace: string, days?: number | undefined, sweeps: boolean }

/** One process of the service, from its start to its death. */
export interface Life {
  /** The address that it listens on; `undefined` where it ended before. */
  readonly url: Promise<string | undefined>
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** What it told of faults: log lines of level error and worse, and its standard error. */
  faults (): string[]
  /** The points that it came to, in order. */
  points (): string[]
  signal (name: NodeJS.Signals): void
}

export function beginLife ({ env, kill, trace, days, sweeps }: LifeOptions): Life {
  const armed = kill && 'point' in kill ? { CRASH_POINT: kill.point, CRASH_HIT: String(kill.hit) } : {}
  const arm = { ...armed, CRASH_TRACE: trace, ...sweeps ? { CRASH_SWEEP_MS: '40' } : {}, ...(days === undefined ? {} : { CRASH_DAYS: String(days) }) }
  const child = spawn(process.execPath, ['--max-semi-space-size=4', '--import', './test/crash/arm.ts', 'src/main.ts'], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: 'node_modules/.cache/compile', PORT: '0', ...env, ...arm },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const told: string[] = []
  const url = Promise.withResolvers<string | undefined>()
  let timer: NodeJS.Timeout | undefined = setTimeout(() => child.kill('SIGKILL'), LISTEN_MS)
  createInterface(child.stdout).on('line', (line) => {
    const entry = JSON.parse(line) as { level: unknown, url?: unknown }
    if (entry.level === 'error' || entry.level === 'fatal' || Number(entry.level) >= 50) told.push(line)
    if (typeof entry.url !== 'string') return
    url.resolve(entry.url)
    clearTimeout(timer)
    timer = kill && 'afterMs' in kill ? setTimeout(() => child.kill('SIGKILL'), kill.afterMs) : undefined
  })
  child.stderr.on('data', (chunk: Buffer) => { told.push(chunk.toString()) })
  const ended = once(child, 'close').then(([code, signal]) => {
    clearTimeout(timer)
    url.resolve(undefined)
    return (code ?? signal) as number | NodeJS.Signals
  })
  return {
    url: url.promise,
    ended,
    faults: () => told,
    points: () => existsSync(trace) ? readFileSync(trace, 'utf8').split('\n').filter((name) => name !== '') : [],
    signal: (name) => { child.kill(name) }
  }
}
