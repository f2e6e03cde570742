import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from '../../core/errors.ts'
import { endGroup } from '../../processes/group.ts'
import { createLineReader } from '../../processes/lines.ts'
import { startTimeIn, statOf } from '../../processes/stat.ts'

export interface CliOptions {
  command: string
  args: readonly string[]
  cwd: string
  /** The whole environment of the process (D8). */
  env: Readonly<Record<string, string>>
  /** A line of its standard error. */
  onStderr: (line: string) => void
}

export interface CliExit { code: number | null, signal: NodeJS.Signals | null }

export interface CliProcess {
  readonly pid: number
  /** What tells this process from a later one of the same id: field 22 of its `stat`; `null` where there is no /proc. */
  readonly startTime: string | null
  /** Its standard output, not read faster than it is taken. Taken once, to its end. */
  readonly output: AsyncIterable<Uint8Array>
  /** Writes one line; a text as it stands. After the end of the process, or of its input, it does nothing. */
  write (frame: object | string): void
  closeInput (): void
  /** Resolves once little of what was written waits to be read by it, or never will be. */
  drained (): Promise<void>
  /** Resolves once it has ended, nothing is left of its group, and whoever takes the output has all of it. Never rejects. */
  readonly exited: Promise<CliExit>
  /** SIGTERM to the group, SIGKILL to what is left after `graceMs`. Resolves when it is gone; a second call may hurry it. */
  end (graceMs: number): Promise<void>
  /** The last 4 KiB of its standard error. */
  stderrTail (): string
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>

const TAIL_BYTES = 4096
const MOST_UNREAD = 1024 * 1024
/** How long what the leader left behind has to heed SIGTERM. */
const LEFT_MS = 1000
/** Output is read for so long after the last of it, where a process that left the group holds the pipe open. */
const DRAIN_MS = 200

/**
 * Starts the operator's own CLI as the leader of a process group of its own, so that whatever it starts ends with it (D8).
 * Rejects where it cannot be started.
 */
export async function startCli ({ command, args, cwd, env, onStderr }: CliOptions): Promise<CliProcess> {
  try {
    const child: Child = spawn(command, args, { cwd, env, detached: true, windowsHide: true, stdio: ['pipe', 'pipe', 'pipe'] })
    // Read at once: until the next turn of the event loop the entry stays, even if the process does not.
    const startTime = startTimeIn(statOf(child.pid ?? 0) ?? '') ?? null
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on('error', ignore)
    // Without a reader Node lets the output of an ended process flow away; a listener of this event counts as one.
    child.stdout.on('readable', ignore)
    await once(child, 'spawn')
    child.on('error', ignore)
    return superviseCli(child, child.pid as number, startTime, onStderr)
  } catch (error) {
    throw new Error(`cannot start "${command}": ${startFault(error, cwd)}`, { cause: error })
  }
}

/** What a stream of an ended process throws is told by its end; a CLI that does not read is told by its exit. */
const ignore = (): void => {}

function superviseCli (child: Child, pid: number, startTime: string | null, onStderr: (line: string) => void): CliProcess {
  const taken = Promise.withResolvers<void>()
  const ended = new Promise<CliExit>((resolve) => { child.once('exit', (code, signal) => resolve({ code, signal })) })
  const stderrTail = keepTail(child.stderr, onStderr)
  let isGone = false
  const exited = ended.then(async (exit) => {
    // At once, while the id cannot be anybody else's.
    await endGroup(pid, LEFT_MS)
    isGone = true
    await Promise.all([taken.promise, cutOff(child.stdout)])
    for (const stream of [child.stdin, child.stderr]) stream.destroy()
    return exit
  })
  return {
    pid, startTime, exited, stderrTail, output: deliver(child.stdout, taken.resolve),
    write (frame) {
      if (child.stdin.writable) child.stdin.write(`${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n`)
    },
    closeInput () {
      child.stdin.end()
    },
    drained: async () => await drained(child.stdin, ended),
    async end (graceMs) {
      if (!isGone) await endGroup(pid, graceMs)
    }
  }
}

function drained (stdin: Writable, ended: Promise<unknown>): Promise<void> {
  if (stdin.writableLength <= MOST_UNREAD || stdin.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const stop = (): void => {
      stdin.off('drain', stop).off('close', stop)
      resolve()
    }
    stdin.on('drain', stop).on('close', stop)
    void ended.then(stop)
  })
}

async function * deliver (stdout: Readable, onTaken: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield * stdout
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  } finally {
    onTaken()
  }
}

/** Lets an output end whose pipe is held open by a process beyond the group: once it is read to the last, and nothing comes. */
async function cutOff (stdout: Readable): Promise<void> {
  while (!stdout.closed) {
    const before = bytesOf(stdout)
    await Promise.race([once(stdout, 'close'), delay(DRAIN_MS)])
    if (stdout.readableLength === 0 && bytesOf(stdout) === before) stdout.destroy()
  }
}
const bytesOf = (stream: Readable): unknown => (stream as { bytesRead?: number }).bytesRead

function keepTail (stderr: Readable, onLine: (line: string) => void): () => string {
  const readLines = createLineReader(onLine)
  let tail = Buffer.alloc(0)
  stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES)
    readLines(chunk)
  })
  // It may begin within a character.
  return () => tail.toString('utf8').replace(/^\uFFFD+/, '')
}

function startFault (error: unknown, cwd: string): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT': return `there is no such command, or no directory "${cwd}"`
    case 'EACCES': return `it is not executable, or the directory "${cwd}" may not be entered`
    case 'E2BIG': return 'its arguments and its environment are larger than the system takes'
    default: return messageOf(error)
  }
}
