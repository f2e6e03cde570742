import type { QuickJSHandle } from 'quickjs-emscripten-core'
import { cutText } from './cut.ts'
import { ABORTED, OUT_OF_MEMORY, overTime, STOP, TICKS } from './messages.ts'
import type { Cut, Ending, Failure, FailureKind, FromThread, ProgramLimits } from './messages.ts'
import { PRELUDE } from './prelude.ts'
import type { Vm } from './vm.ts'

/** Jobs between two looks at the limits. */
const JOBS = 64
/** Output that a thread may lose when it is killed. */
const PRINT_MS = 50
const INTERRUPTIONS = 20
const FILE = 'program.js'
const OPENING = '(async function () {'

interface Entries { run: QuickJSHandle, answer: QuickJSHandle, reserve: QuickJSHandle }

export interface ProgramParts {
  id: number
  vm: Vm
  limits: ProgramLimits
  control: Int32Array
  post: (message: FromThread) => void
  /** Ends this thread at once, whatever it does. */
  exit: () => void
}

/**
 * One program in its machine, inside a sandbox thread. It runs when it is started and when an answer comes, each time to its end
 * or to where it waits.
 */
export class Program {
  readonly #parts: ProgramParts
  #entries: Entries | undefined
  /** CPU time of the earlier stretches, and the clock at the beginning of this one. */
  #used = 0
  #since = 0
  #answered = 0
  readonly #open = new Set<number>()
  #unmade = 0
  #stopped: Failure | undefined
  #interruptions = 0
  #last = false
  #ended = false
  #printed: Cut = { text: '', missing: 0 }
  #printedBytes = 0
  #printedAt = 0

  constructor (parts: ProgramParts) { this.#parts = parts }

  get ended (): boolean { return this.#ended }
  /** Whether its thread should end with it: it cannot be stopped otherwise, or holds much memory. */
  get last (): boolean { return this.#last }

  start (code: string, names: readonly string[]): void {
    this.#parts.post({ type: 'begun', id: this.#parts.id })
    this.#advance(() => {
      const { context } = this.#parts.vm
      context.runtime.setInterruptHandler(() => this.#interrupt())
      const entries = this.#prepare(names)
      const program = context.evalCode(`${OPENING}${code}\n})`, FILE)
      if (program.error) {
        const told = this.#read(program.error)
        return this.#end({ failure: this.#caught(told[0] === 'SyntaxError' ? 'syntax' : 'runtime', told) })
      }
      this.#call(entries.run, program.value)
    })
  }

  answer (n: number, ok: boolean, text: string): void {
    this.#answered++
    this.#open.delete(n)
    this.#advance(() => {
      const { context } = this.#parts.vm
      const { answer, reserve } = this.#entries as Entries
      // The library writes a text where no memory is left without looking: make sure there is room first.
      const room = context.newNumber(text.length * 4 + 4096)
      this.#call(reserve, room).dispose()
      const [number, value] = [context.newNumber(n), context.newString(text)]
      this.#call(answer, number, ok ? context.true : context.false, value).dispose()
      for (const handle of [room, number, value]) handle.dispose()
    })
  }

  stop (): void { this.#end({ failure: ABORTED }) }

  /** Runs a stretch and all that follows from it at once. */
  #advance (work: () => void): void {
    if (this.#ended) return
    this.#since = cpuMs()
    try {
      work()
      this.#runJobs()
    } catch (error) {
      this.#end({ failure: this.#broken(error) })
    }
    this.#used += cpuMs() - this.#since
    if (!this.#ended && this.#open.size === 0) {
      const message = 'the program waits for a promise that nothing will settle'
      this.#end({ failure: this.#parts.vm.isFull() ? OUT_OF_MEMORY : { kind: 'runtime', message } })
    }
    if (this.#ended) return
    this.#flush()
    this.#parts.post({ type: 'waiting', id: this.#parts.id, answered: this.#answered, cpuMs: this.#used })
  }

  #runJobs (): void {
    const { runtime } = this.#parts.vm.context
    while (!this.#ended && runtime.hasPendingJob()) {
      const ran = runtime.executePendingJobs(JOBS)
      if (ran.error) this.#end({ failure: this.#caught('runtime', this.#read(ran.error)) })
      else if (this.#tick()) this.#end({ failure: this.#stopped as Failure })
    }
  }

  /**
   * Called by the engine every few thousand operations: whether to interrupt. An interruption ends one async function only, and
   * its caller goes on; a program that outlives many of them is ended with its thread.
   */
  #interrupt (): boolean {
    if (!this.#tick()) return false
    if (++this.#interruptions > INTERRUPTIONS) {
      this.#last = true
      this.#end({ failure: this.#stopped as Failure })
      this.#parts.exit()
    }
    return true
  }

  /** Whether the program must stop here. */
  #tick (): boolean {
    const { id, control, limits } = this.#parts
    if (this.#stopped) return true
    Atomics.add(control, TICKS, 1)
    if (this.#printed.text !== '' && performance.now() - this.#printedAt > PRINT_MS) this.#flush()
    if (Atomics.load(control, STOP) === id) this.#stopped ??= ABORTED
    else if (this.#used + cpuMs() - this.#since > limits.cpuMs) this.#stopped ??= overTime(limits.cpuMs)
    return this.#stopped !== undefined
  }

  #prepare (names: readonly string[]): Entries {
    const { vm: { context }, limits: { calls, parallel, inputChars, outputBytes } } = this.#parts
    const send = context.newFunction('send', (n, name, input) => {
      const call = { n: context.getNumber(n), name: context.getString(name), input: context.getString(input) }
      this.#open.add(call.n)
      this.#flush()
      this.#parts.post({ type: 'call', id: this.#parts.id, ...call })
    })
    const print = context.newFunction('print', (line, length) => this.#print(context.getString(line), context.getNumber(length)))
    const done = context.newFunction('done', (unmade, json, length) => {
      this.#unmade = context.getNumber(unmade)
      if (json === undefined) return this.#end({})
      this.#end({ result: cutText(context.getString(json), context.getNumber(length), outputBytes) })
    })
    const failed = context.newFunction('failed', (kind, name, message, stack) => {
      const told: Told = [context.getString(name), context.getString(message), context.getString(stack)]
      this.#end({ failure: this.#caught(context.getString(kind) as FailureKind, told) })
    })
    const config = context.newString(JSON.stringify({ names, calls, parallel, inputChars, outputChars: outputBytes }))
    const made = this.#call(context.unwrapResult(context.evalCode(PRELUDE, 'prelude.js')), send, print, done, failed, config)
    this.#entries = { run: context.getProp(made, 'run'), answer: context.getProp(made, 'answer'), reserve: context.getProp(made, 'reserve') }
    return this.#entries
  }

  #call (callee: QuickJSHandle, ...given: QuickJSHandle[]): QuickJSHandle {
    const { context } = this.#parts.vm
    const result = context.callFunction(callee, context.undefined, ...given)
    if (result.error) throw new Thrown(this.#read(result.error))
    return result.value
  }

  /** Name, message and stack of an error in the machine. */
  #read (error: QuickJSHandle): Told {
    const { context } = this.#parts.vm
    const textOf = (name: string): string => {
      const value = context.getProp(error, name)
      return context.typeof(value) === 'string' ? context.getString(value).slice(0, 4096) : ''
    }
    if (context.typeof(error) !== 'object') return ['', context.getString(error).slice(0, 4096), '']
    return [textOf('name'), textOf('message'), textOf('stack')]
  }

  #caught (kind: FailureKind, [name, message, stack]: Told): Failure {
    if (this.#stopped) return this.#stopped
    if (name === 'InternalError' && message === 'out of memory') return OUT_OF_MEMORY
    // Where there is no memory for an error, null is thrown.
    if (name === '' && ['', 'thrown: null'].includes(message) && this.#parts.vm.isFull()) return OUT_OF_MEMORY
    const text = name === '' || name === 'Error' ? message : `${name}: ${message}`
    return { kind, message: `${text}${placeOf(stack)}` }
  }

  /** A failure that passed through the engine, or broke it. */
  #broken (error: unknown): Failure {
    if (this.#stopped) return this.#stopped
    if (error instanceof Thrown) return this.#caught('runtime', error.told)
    if (this.#parts.vm.isFull()) return OUT_OF_MEMORY
    if (error instanceof RangeError) return { kind: 'runtime', message: 'InternalError: stack overflow' }
    return { kind: 'internal', message: error instanceof Error ? error.message : String(error) }
  }

  #print (text: string, length: number): void {
    const cut = cutText(text, length, this.#parts.limits.outputBytes - this.#printedBytes)
    this.#printedBytes += Buffer.byteLength(cut.text)
    this.#printed = { text: this.#printed.text + cut.text, missing: this.#printed.missing + cut.missing }
  }

  #flush (): void {
    this.#printedAt = performance.now()
    if (this.#printed.text === '' && this.#printed.missing === 0) return
    this.#parts.post({ type: 'print', id: this.#parts.id, cut: this.#printed })
    this.#printed = { text: '', missing: 0 }
  }

  #end (ending: Ending): void {
    if (this.#ended) return
    this.#ended = true
    this.#stopped ??= ABORTED
    this.#flush()
    this.#last ||= this.#parts.vm.isLarge()
    this.#parts.post({ type: 'end', id: this.#parts.id, ending, last: this.#last, unseen: [...this.#open], unmade: this.#unmade })
  }
}

type Told = [name: string, message: string, stack: string]

class Thrown extends Error {
  readonly told: Told
  constructor (told: Told) {
    super(told[1])
    this.told = told
  }
}

/** CPU time of this thread, where the runtime can tell; else the time that passed. */
function cpuMs (): number {
  if (typeof process.threadCpuUsage !== 'function') return performance.now()
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Where in the program something was thrown, as far as its stack tells. */
function placeOf (stack: string): string {
  const [, line, column] = /program\.js:(\d+):(\d+)/.exec(stack) ?? []
  if (line === undefined) return ''
  return ` (line ${line}, column ${line === '1' ? Math.max(1, Number(column) - OPENING.length) : column})`
}
