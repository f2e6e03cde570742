import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { ABORTED, CLOSED, type Failure, type ProgramLimits } from './messages.ts'
import { Thread, type ProgramEnd, type ProgramRequest } from './thread.ts'

export interface SandboxOptions extends ProgramLimits {
  /** Memory of a program, of which the engine takes a little for itself. */
  memoryBytes: number
  /** Programs that may compute at the same time before others wait their turn; those that wait for tools do not count. */
  executing: number
  /** Threads at most: programs that compute and those that wait for their tools. */
  threads: number
  /** A thread without work ends after this. */
  idleMs: number
  /** How long a program waits for a thread. */
  queueMs: number
  graceMs: number
}

export const SANDBOX_DEFAULTS: Readonly<SandboxOptions> = Object.freeze({
  memoryBytes: 64 * 1024 * 1024, cpuMs: 10_000, outputBytes: 64 * 1024, inputChars: 1024 * 1024, calls: 10_000, parallel: 10,
  executing: Math.max(4, 2 * availableParallelism()), threads: 64, idleMs: 10_000, queueMs: 30_000, graceMs: 1000
})

/** Where programs run: threads that start when needed and end when idle, each with one program at a time (driver.md §10). */
export interface Sandbox {
  readonly limits: Readonly<SandboxOptions>
  /** Threads that exist now. */
  readonly size: number
  /** Runs a program. Never rejects for what a program does; rejects where the engine cannot be loaded. */
  run (request: TenantRequest): Promise<ProgramEnd>
  /** Stops every program as `aborted`; resolves when no thread is left. Idempotent. */
  close (): Promise<void>
}

/** `tenant`: between whom the threads are shared fairly. */
export type TenantRequest = ProgramRequest & { tenant: string }

export const createSandbox = (options: Partial<SandboxOptions> = {}): Sandbox => new Pool({ ...SANDBOX_DEFAULTS, ...options })

interface Queued { tenant: string, begin: (thread: Thread) => void }
interface Place { tenant?: string | undefined, idle?: NodeJS.Timeout | undefined }

class Pool implements Sandbox {
  readonly limits: Readonly<SandboxOptions>
  readonly #threads = new Map<Thread, Place>()
  readonly #queue = new Set<Queued>()
  readonly #closing = new AbortController()
  #engine: Promise<WebAssembly.Module> | undefined

  constructor (limits: SandboxOptions) { this.limits = limits }

  get size (): number { return this.#threads.size }

  async run (request: TenantRequest): Promise<ProgramEnd> {
    this.#engine ??= compileEngine()
    const module = await this.#engine
    return await new Promise((resolve) => this.#enqueue(module, request, resolve))
  }

  async close (): Promise<void> {
    this.#closing.abort()
    const left = [...this.#threads.keys()]
    await Promise.all(left.map((thread) => thread.kill()))
    await Promise.all(left.map((thread) => thread.gone))
  }

  #enqueue (module: WebAssembly.Module, request: TenantRequest, resolve: (end: ProgramEnd | Promise<ProgramEnd>) => void): void {
    const { tenant, signal } = request
    const { signal: closing } = this.#closing
    const leave = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      closing.removeEventListener('abort', onClose)
      this.#queue.delete(queued)
    }
    const refuse = (failure: Failure): void => {
      leave()
      resolve({ ending: { failure }, console: { text: '', missing: 0 }, unseen: [], unmade: 0 })
    }
    const queued: Queued = {
      tenant,
      begin: (thread) => {
        leave()
        resolve(thread.run(request))
      }
    }
    const { queueMs } = this.limits
    const onAbort = (): void => refuse(ABORTED)
    const onClose = (): void => refuse(CLOSED)
    const timer = setTimeout(() => refuse({ kind: 'busy', message: `no sandbox became free within ${queueMs} ms` }), queueMs)
    if (signal.aborted) return onAbort()
    if (closing.aborted) return onClose()
    signal.addEventListener('abort', onAbort)
    closing.addEventListener('abort', onClose)
    this.#queue.add(queued)
    this.#next(module)
  }

  /** Begins what is queued while there is room, and lets what is free go idle. */
  #next (module: WebAssembly.Module): void {
    while (this.#queue.size > 0 && !this.#closing.signal.aborted) {
      const threads = [...this.#threads.keys()]
      if (threads.filter((thread) => thread.isExecuting).length >= this.limits.executing) break
      const isRoom = threads.length < this.limits.threads
      const thread = threads.find(({ isFree }) => isFree) ?? (isRoom ? this.#start(module) : undefined)
      if (!thread) break
      const queued = this.#fairest()
      const place = this.#threads.get(thread) as Place
      clearTimeout(place.idle)
      this.#threads.set(thread, { tenant: queued.tenant })
      queued.begin(thread)
    }
    for (const [thread, place] of this.#threads) if (thread.isFree && !place.idle) this.#letIdle(thread)
  }

  /** The first in the queue of the tenant with the fewest programs. */
  #fairest (): Queued {
    const taken = new Map<string, number>()
    for (const { tenant } of this.#threads.values()) if (tenant !== undefined) taken.set(tenant, (taken.get(tenant) ?? 0) + 1)
    const count = ({ tenant }: Queued): number => taken.get(tenant) ?? 0
    return [...this.#queue].reduce((best, queued) => count(queued) < count(best) ? queued : best)
  }

  #start (module: WebAssembly.Module): Thread {
    const { memoryBytes, graceMs, ...limits } = this.limits
    const thread = new Thread({
      module, memoryBytes, limits, graceMs,
      onChange: () => this.#next(module),
      onGone: (gone) => {
        clearTimeout(this.#threads.get(gone)?.idle)
        this.#threads.delete(gone)
        this.#next(module)
      }
    })
    this.#threads.set(thread, {})
    return thread
  }

  #letIdle (thread: Thread): void {
    const idle = setTimeout(() => { void thread.kill() }, this.limits.idleMs)
    idle.unref()
    this.#threads.set(thread, { idle })
  }
}

/** Compiled once for all threads, off the service's thread. */
const compileEngine = async (): Promise<WebAssembly.Module> =>
  await WebAssembly.compile(await readFile(createRequire(import.meta.url).resolve('@jitl/quickjs-wasmfile-release-sync/wasm')))
