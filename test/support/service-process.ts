import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { AtEnd, Service } from './service.ts'

const root = join(import.meta.dirname, '../..')

export interface ServiceProcess {
  /** Its log, a JSON object a line. */
  readonly lines: Record<string, unknown>[]
  readonly stderr: () => string
  /** The address that its log tells. Rejects with its output where it ends before. */
  readonly url: Promise<string>
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
  call: Service['call']
  /** Signals it. */
  signal (name: NodeJS.Signals): void
  /** Resolves once its log tells this. */
  told (message: RegExp): Promise<void>
}

/** The service as a process of its own, on a free port. `entry`: in place of src/main.ts. Killed at the end of the test. */
export function startProcess (atEnd: AtEnd, env: Record<string, string>, entry = 'src/main.ts'): ServiceProcess {
  const child = spawn(process.execPath, [entry], {
    cwd: root, env: { PATH: process.env.PATH ?? '', PORT: '0', ...env }, stdio: ['ignore', 'pipe', 'pipe']
  })
  const lines: Record<string, unknown>[] = []
  const errors: string[] = []
  const url = Promise.withResolvers<string>()
  url.promise.catch(() => {})
  const wakes = new Set<() => void>()
  createInterface(child.stdout).on('line', (line) => {
    const entry = JSON.parse(line) as Record<string, unknown>
    lines.push(entry)
    if (typeof entry.url === 'string') url.resolve(entry.url)
    for (const wake of wakes) wake()
  })
  child.stderr.on('data', (chunk: Buffer) => { errors.push(chunk.toString()) })
  const ended = once(child, 'close').then(([code, signal]) => {
    url.reject(new Error(`the process ended: ${JSON.stringify(lines)} ${errors.join('')}`))
    return (code ?? signal) as number | NodeJS.Signals
  })
  atEnd(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    lines,
    stderr: () => errors.join(''),
    url: url.promise,
    ended,
    async call (method, path, body, headers = {}) {
      const sent = body === undefined ? {} : { body: JSON.stringify(body) }
      const response = await fetch(
        await url.promise + path,
        { method, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, ...sent }
      )
      const text = await response.text()
      const isJson = /json/.test(response.headers.get('content-type') ?? '')
      return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined }
    },
    signal: (name) => { child.kill(name) },
    async told (message) {
      while (!lines.some(({ msg }) => message.test(String(msg)))) {
        await new Promise<void>((resolve) => { wakes.add(resolve) })
      }
    }
  }
}
