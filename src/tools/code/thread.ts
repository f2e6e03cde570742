import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { messageOf } from '../../core/errors.ts'
import type { Json } from '../../core/json.ts'
import { ABORTED, CLOSED, OUT_OF_MEMORY, overTime, STOP, TICKS } from './messages.ts'
import type { Cut, Ending, Failure, FromThread, ProgramLimits, ThreadSetup, ToThread, Unawaited } from './messages.ts'

/** What a call gave: the JSON of its value, or why it failed. */
export interface CallAnswer { ok: boolean, text: string }

export interface ProgramRequest {
  /** The body of an async function. */
  code: string
  names: readonly string[]
  /** Makes a tool call, the n-th of the program. Never rejects. */
  call (n: number, name: string, input: Json): Promise<CallAnswer>
  signal: AbortSignal
}
export interface ProgramEnd extends Unawaited { ending: Ending, console: Cut }

export interface ThreadOptions {
  module: WebAssembly.Module
  memoryBytes: number
  limits: ProgramLimits
  /** A program that cannot be interrupted is killed this long after its time is over. */
  graceMs: number
  /** Told when the thread became free, began to wait or went on. */
  onChange: () => void
  onGone: (thread: Thread) => void
}

interface Job {
  id: number
  request: ProgramRequest
  resolve: (end: ProgramEnd) => void
  told: boolean
  console: Cut
  answers: number
  executing: boolean
  cpuMs: number
  detach: () => void
}

const STACK_MB = 32
const HEAP_MB = 128
/** How long a stopped program may take to notice. */
const STOP_MS = 250

/** The service's side of one sandbox thread. */
export class Thread {
  readonly gone: Promise<void>
  readonly #options: ThreadOptions
  readonly #worker: Worker
  readonly #control = new Int32Array(new SharedArrayBuffer(8))
  #job: Job | undefined
  #jobs = 0
  #isGone = false
  #watch: NodeJS.Timeout | undefined

  constructor (options: ThreadOptions) {
    const { module, memoryBytes, limits } = options
    this.#options = options
    const workerData: ThreadSetup = { module, memoryBytes, limits, control: this.#control.buffer as SharedArrayBuffer }
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), {
      workerData, env: cacheEnv(), execArgv: ['--disable-warning=ExperimentalWarning'],
      resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: 8 }
    })
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#onMessage(message))
    this.#worker.on('error', (error) => this.#onError(error))
    this.gone = new Promise((resolve) => this.#worker.once('exit', () => {
      this.#onExit()
      resolve()
    }))
  }

  get isFree (): boolean { return this.#job === undefined && !this.#isGone }
  /** Whether a program computes here; one that waits for its tools does not. */
  get isExecuting (): boolean { return this.#job?.executing ?? false }

  /** Runs a program on this free thread. Resolves when it ended, and at once when the signal aborts: the thread is free a little later. */
  run (request: ProgramRequest): Promise<ProgramEnd> {
    const { signal } = request
    return new Promise((resolve) => {
      const onAbort = (): void => this.#abort()
      signal.addEventListener('abort', onAbort, { once: true })
      const id = ++this.#jobs
      this.#job = {
        id, request, resolve, told: false, console: { text: '', missing: 0 }, answers: 0, executing: true, cpuMs: 0,
        detach: () => signal.removeEventListener('abort', onAbort)
      }
      this.#worker.ref()
      this.#post({ type: 'program', id, code: request.code, names: request.names })
      this.#options.onChange()
    })
  }

  /** Ends the thread, and what runs on it. */
  async kill (failure: Failure = CLOSED): Promise<void> {
    this.#tell({ failure })
    this.#isGone = true
    await this.#worker.terminate()
  }

  #post (message: ToThread): void { this.#worker.postMessage(message) }

  #onMessage (message: FromThread): void {
    const job = this.#job
    if (!job || job.id !== message.id || this.#isGone) return
    switch (message.type) {
      case 'begun': return this.#watchProgram(job)
      case 'call': return this.#makeCall(job, message.n, message.name, message.input)
      case 'print':
        job.console = { text: job.console.text + message.cut.text, missing: job.console.missing + message.cut.missing }
        return
      case 'waiting':
        job.cpuMs = message.cpuMs
        if (message.answered === job.answers && !job.told) this.#rest(job)
        return
      case 'end':
        this.#isGone ||= message.last
        this.#tell(message.ending, message)
        this.#rest(job)
        this.#job = undefined
        this.#worker.unref()
        this.#options.onChange()
        return
      default: message satisfies never
    }
  }

  #makeCall (job: Job, n: number, name: string, input: string): void {
    if (job.told) return
    void job.request.call(n, name, JSON.parse(input) as Json).then(({ ok, text }) => {
      if (job.told || this.#job !== job) return
      job.answers++
      this.#post({ type: 'answer', id: job.id, n, ok, text })
      if (job.executing) return
      job.executing = true
      this.#watchProgram(job)
      this.#options.onChange()
    })
  }

  /** The program computes from here on. */
  #watchProgram (job: Job): void {
    const { limits, graceMs } = this.#options
    if (!job.told) this.#watchFor(limits.cpuMs - job.cpuMs + graceMs, Atomics.load(this.#control, TICKS))
  }

  #rest (job: Job): void {
    clearTimeout(this.#watch)
    job.executing = false
    this.#options.onChange()
  }

  /** Kills the thread when its time is over and its program cannot be interrupted; one that can is stopped by its own clock. */
  #watchFor (ms: number, ticks: number): void {
    clearTimeout(this.#watch)
    this.#watch = setTimeout(() => {
      const now = Atomics.load(this.#control, TICKS)
      if (now !== ticks) return this.#watchFor(this.#options.graceMs, now)
      void this.kill(overTime(this.#options.limits.cpuMs))
    }, ms)
  }

  #abort (): void {
    const job = this.#job
    if (!job || job.told) return
    Atomics.store(this.#control, STOP, job.id)
    this.#post({ type: 'stop', id: job.id })
    this.#tell({ failure: ABORTED })
    clearTimeout(this.#watch)
    this.#watch = setTimeout(() => { void this.kill() }, STOP_MS)
  }

  #tell (ending: Ending, { unseen, unmade }: Unawaited = { unseen: [], unmade: 0 }): void {
    const job = this.#job
    if (!job || job.told) return
    job.told = true
    job.detach()
    job.resolve({ ending, console: job.console, unseen, unmade })
  }

  #onError (error: unknown): void {
    const isHeap = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    this.#tell({ failure: isHeap ? OUT_OF_MEMORY : { kind: 'internal', message: messageOf(error) } })
  }

  #onExit (): void {
    this.#isGone = true
    clearTimeout(this.#watch)
    this.#tell({ failure: { kind: 'internal', message: 'the sandbox ended' } })
    this.#job = undefined
    this.#options.onGone(this)
  }
}

/** All that a thread gets of an environment: where this process keeps compiled sources, so that none is compiled again. */
function cacheEnv (): Record<string, string> {
  const directory = getCompileCacheDir()
  return directory === undefined ? {} : { NODE_COMPILE_CACHE: dirname(directory) }
}
