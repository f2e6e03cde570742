/** What crosses between the service's thread and a sandbox thread. Values of a program cross as JSON texts alone. */

/**
 * Why a program gave no result. `syntax`: it does not parse, nothing ran. `runtime`: it threw, or waits for what never comes.
 * `memory`, `timeout`: it reached that limit. `output`: what it returned is not JSON. `aborted`: the call was cancelled.
 * `busy`: no sandbox became free in time. `internal`: the sandbox itself broke.
 */
export type FailureKind = 'syntax' | 'runtime' | 'memory' | 'timeout' | 'output' | 'aborted' | 'busy' | 'internal'
export interface Failure { kind: FailureKind, message: string }

export const ABORTED: Failure = { kind: 'aborted', message: 'the call was cancelled' }
export const CLOSED: Failure = { kind: 'aborted', message: 'the sandbox was closed' }
export const OUT_OF_MEMORY: Failure = { kind: 'memory', message: 'the program used up its memory' }
export const overTime = (ms: number): Failure => ({ kind: 'timeout', message: `the program used up its ${ms} ms of CPU time` })

/** The beginning of a text, and how many characters of it are left out. */
export interface Cut { text: string, missing: number }

/** `result` is JSON; absent where the program returned nothing. */
export type Ending = { result?: Cut } | { failure: Failure }

/** What a program left behind: the calls it made and did not see answered, and how many it had yet to make. */
export interface Unawaited { unseen: number[], unmade: number }

export interface ProgramLimits {
  /** CPU time of a program; waiting for its tools is not counted. */
  cpuMs: number
  /** Bytes of UTF-8 of a result, and of what is printed. */
  outputBytes: number
  /** Characters of the JSON of one call's input. */
  inputChars: number
  /** Tool calls of one program, and of those under way at the same time. */
  calls: number
  parallel: number
}

export interface ThreadSetup { module: WebAssembly.Module, memoryBytes: number, limits: ProgramLimits, control: SharedArrayBuffer }
/** Places in `control`: the number of the program that must stop, and a count that rises while a program can be interrupted. */
export const STOP = 0
export const TICKS = 1

export type ToThread =
  | { type: 'program', id: number, code: string, names: readonly string[] }
  /** The answer to a call: the JSON of its value, or why it failed. */
  | { type: 'answer', id: number, n: number, ok: boolean, text: string }
  | { type: 'stop', id: number }

export type FromThread =
  | { type: 'begun', id: number }
  | { type: 'call', id: number, n: number, name: string, input: string }
  | { type: 'print', id: number, cut: Cut }
  /** All that could run has run; `answered` answers were seen. */
  | { type: 'waiting', id: number, answered: number, cpuMs: number }
  /** `last`: the thread ends with its program. */
  | { type: 'end', id: number, ending: Ending, last: boolean } & Unawaited
