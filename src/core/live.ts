import type { DeltaFeed } from './deltas.ts'
import type { Block, CancelledBy, NewEvent, RunResult } from './events.ts'
import type { SessionLog } from './log.ts'
import type { PendingToolCall, RunPatch, RunRecord, RunSpec } from './run.ts'

/** The reason on a run's signal when somebody asked it to stop. Its message is what a start that it ends is refused with. */
export class CancelReason extends Error {
  override readonly name = 'CancelReason'
  readonly by: CancelledBy
  readonly reason: string | null
  constructor (by: CancelledBy, reason: string | null) {
    super(reason ?? 'subagent run was cancelled')
    this.by = by
    this.reason = reason
  }
}

/** The process ends: the run stops where it is, nothing more is logged, the next start resumes it (driver.md 2.8). */
export class SuspendReason extends Error {
  override readonly name = 'SuspendReason'
  constructor () { super('the service is shutting down') }
}

/** Passes on why a signal aborts: a cancellation and a suspension as they are, anything else as a cancellation `by`. Answers the way to stop. */
export function followSignal (signal: AbortSignal, by: CancelledBy, abort: (reason: CancelReason | SuspendReason) => void): () => void {
  const onAbort = (): void => {
    const { reason }: { reason?: unknown } = signal
    if (reason instanceof CancelReason || reason instanceof SuspendReason) abort(reason)
    else abort(new CancelReason(by, reason instanceof Error ? reason.message : null))
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  return () => signal.removeEventListener('abort', onAbort)
}

/** A row of the store as it will be once what is appended is committed; changes ride on the next commit of the log. */
export interface RunProjection {
  readonly record: Readonly<RunRecord>
  patch (changes: RunPatch): void
}

/** Takes the output of a CLI that its host runs (claude-code.md, ingest). */
export interface FrameIntake {
  /** A way in for lines from number `from` on. Rejects with `FRAME_GAP` where some are missing before it. */
  open (from: number): Promise<FrameSink>
}
export interface FrameSink {
  /** Takes a piece of NDJSON. Resolves when more may come; rejects with a `Refusal`: what was accepted before it stays. */
  push (piece: Uint8Array): Promise<void>
  /** The body came to its end. `last`: so did the CLI's output. Resolves with how many lines are durable. */
  end (last: boolean): Promise<number>
}

export interface HostAnswer { toolCallId: string, content: Block[], isError: boolean }

/** Calls that wait for the host (http-api.md §7). */
export interface HostCalls {
  pending (): PendingToolCall[]
  /** Throws `TOOL_CALL_NOT_PENDING`, and then nothing changed. */
  answer (answers: readonly HostAnswer[]): void
}

/** A run that this process executes, from its announcement to its release. */
export interface LiveRun {
  readonly id: string
  readonly tenant: string
  readonly projection: RunProjection
  readonly spec: RunSpec
  readonly log: SessionLog
  readonly deltas: DeltaFeed
  readonly hostCalls: HostCalls
  /** Its work is not done here: it was only seen in an external chat, or is ingested from one. */
  readonly observed?: boolean
  readonly frames?: FrameIntake
  /** A settled run under it is about to be deleted: once this resolves, nothing goes on with it any more. */
  forget? (id: string): Promise<unknown>
  /** Resolves once the turn is under way: what a restart left waiting for the host waits again. */
  readonly underway: Promise<unknown>
  /** Resolves when the run has settled, or was suspended with the process. */
  readonly stopped: Promise<unknown>
  /** Resolves when the run has settled durably and is released. Never rejects. */
  readonly result: Promise<RunResult>
  /** Aborts with a `CancelReason` or `SuspendReason`; the first reason wins, after settlement nothing changes. */
  abort (reason: CancelReason | SuspendReason): void
  /** Takes a message into the open turn; throws `RUN_SETTLED` once no step follows (http-api.md 7.3). Answers its id. */
  accept (content: Block[], from: 'host' | 'child'): string
  /** As `accept`, and interrupts the open turn first. Absent: this kind of run has no interrupt. */
  acceptNow? (content: Block[]): string
  /** Logs what became of a child, while the run's turn can still hold it. */
  note (event: Extract<NewEvent, { type: 'subagent/start' | 'subagent/end' }>): void
  /** Told at each change of status, once it is durable. */
  onStatus (listener: () => void): () => void
  dispose (): Promise<void>
}
