import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { deserializeMessage, serializeMessage, type JSONRPCMessage, type Transport } from '@modelcontextprotocol/client'
import { endGroup } from '../../processes/group.ts'
import { createLineReader } from '../../processes/lines.ts'
import { LineBuffer } from './lines.ts'

export interface StdioOptions {
  command: string
  args: readonly string[]
  /** The whole environment of the process. */
  env: Readonly<Record<string, string>>
  cwd?: string
  maxMessageBytes: number
  /** A line of its standard error. */
  onStderr: (line: string) => void
}

/** How long a server has to end by itself once its input is closed; then to heed SIGTERM. */
const END_MS = 300
const TERM_MS = 2000
/** What a server wrote before it ended is still read for so long, though a process of its own may hold the pipe open. */
const DRAIN_MS = 200

/**
 * MCP over the standard input and output of a process that leads a group of its own, so that whatever it starts ends with it. The
 * client's own transport knows no groups, and waits for ever to write to a process that has ended.
 */
export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  /** Why it ended by itself. */
  ended: string | undefined
  readonly #options: StdioOptions
  readonly #lines: LineBuffer
  #reading: Promise<void> = Promise.resolve()
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined
  #closing: Promise<void> | undefined

  constructor (options: StdioOptions) {
    this.#options = options
    this.#lines = new LineBuffer(options.maxMessageBytes)
  }

  // The client tells a process from a remote server by these two.
  get pid (): number | null { return this.#child?.pid ?? null }
  get stderr (): Readable | null { return this.#child?.stderr ?? null }

  async start (): Promise<void> {
    const { command, args, env, cwd, onStderr } = this.#options
    const child = spawn(command, args, {
      env, detached: true, windowsHide: true, stdio: ['pipe', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd })
    })
    this.#child = child
    child.on('error', (error) => this.onerror?.(error))
    child.stdin.on('error', (error) => this.onerror?.(error))
    child.stdout.on('error', (error) => this.onerror?.(error)).on('data', (chunk: Buffer) => this.#read(chunk))
    child.stderr.on('error', (error) => this.onerror?.(error)).on('data', createLineReader(onStderr))
    child.once('exit', (code, signal) => {
      const how = code === null ? `it was ended by ${signal}` : `it exited with code ${code}`
      this.#exited(child, how).catch((error: unknown) => this.onerror?.(error as Error))
    })
    await once(child, 'spawn')
  }

  async send (message: JSONRPCMessage): Promise<void> {
    const child = this.#child
    if (!child || this.#closing || this.ended !== undefined) throw new Error('the process has ended')
    await new Promise<void>((resolve, reject) => {
      child.stdin.write(serializeMessage(message), (error) => { if (error) reject(error); else resolve() })
    })
  }

  close (): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close (): Promise<void> {
    const child = this.#child
    if (child?.pid !== undefined) {
      child.stdin.end()
      await ended(child, END_MS)
      await endGroup(child.pid, TERM_MS)
      await ended(child, TERM_MS)
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
    }
    this.onclose?.()
  }

  #read (chunk: Buffer): void {
    const lines = this.#lines.take(chunk)
    if (lines) {
      this.#reading = this.#reading.then(() => this.#deliver(lines))
      return
    }
    this.ended ??= 'it sent a message that is too large'
    this.close().catch((error: unknown) => this.onerror?.(error as Error))
  }

  /** The client handles a notification a moment later than an answer; what came first must be handled first. */
  async #deliver (lines: readonly string[]): Promise<void> {
    for (const line of lines) {
      try {
        this.onmessage?.(deserializeMessage(line))
      } catch (error) {
        // A line that is no message is passed over; the next one may be.
        this.onerror?.(error as Error)
      }
      await Promise.resolve()
      await Promise.resolve()
    }
  }

  async #exited (child: ChildProcessByStdio<Writable, Readable, Readable>, how: string): Promise<void> {
    if (!child.stdout.closed) await Promise.race([once(child.stdout, 'close'), delay(DRAIN_MS, undefined, { ref: false })])
    await this.#reading
    this.ended ??= how
    await this.close()
  }
}

async function ended (child: ChildProcessByStdio<Writable, Readable, Readable>, ms: number): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const waiting = new AbortController()
  try {
    await Promise.race([once(child, 'exit', { signal: waiting.signal }), delay(ms, undefined, { signal: waiting.signal })])
  } finally {
    waiting.abort()
  }
}
