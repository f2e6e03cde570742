import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** A child process that serves HTTP, and what the kernel says about it. */
export interface Served {
  readonly url: string
  /** From spawn to the first good answer of its ready route. */
  readonly readyMs: number
  /** Bytes resident now, and at most since the start or the last `resetPeak`. */
  memory (): { rss: number, peak: number }
  resetPeak (): void
  /** Ends it as an operator would, and waits until it is gone. */
  stop (): Promise<void>
}

export interface Serving { args: string[], env: Record<string, string>, readyPath: string, port: number }

/** A port that was free a moment ago. */
export async function freePort (): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/** Starts `node <args>` and resolves once `readyPath` answers 2xx. Throws with its output when it ends before that. */
export async function serve ({ args, env, readyPath, port }: Serving): Promise<Served> {
  const begun = performance.now()
  const child = spawn(process.execPath, args, { env: { PATH: process.env.PATH ?? '', ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const output: string[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => { output.push(chunk.toString()) })
  const url = `http://127.0.0.1:${port}`
  await ready(child, `${url}${readyPath}`, output)
  const readyMs = performance.now() - begun
  const { pid } = child
  if (pid === undefined) throw new Error('the process did not start')
  return {
    url,
    readyMs,
    memory: () => ({ rss: status(pid, 'VmRSS'), peak: status(pid, 'VmHWM') }),
    resetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
    stop: () => stop(child)
  }
}

async function ready (child: ChildProcess, url: string, output: readonly string[]): Promise<void> {
  const deadline = performance.now() + 20_000
  while (performance.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`the process ended (${child.exitCode}):\n${output.join('')}`)
    const answer = await fetch(url).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer?.ok) return
    await pause(5)
  }
  await stop(child)
  throw new Error(`not ready after 20 s:\n${output.join('')}`)
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  const killer = setTimeout(() => child.kill('SIGKILL'), 15_000)
  await gone
  clearTimeout(killer)
}

function status (pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const kilobytes = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) * 1024
}
