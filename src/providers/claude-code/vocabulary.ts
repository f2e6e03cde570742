import type { Block, NewEvent, Outcome, Usage } from '../../core/events.ts'
import type { DeltaKind } from '../../core/deltas.ts'

/** One parsed line of the CLI's output. Nothing of it is trusted: every field is read by frames.ts. */
export type Frame = Readonly<Record<string, unknown>>

/** What the normalizer is told, in the order in which it happened. */
export type Input =
  /** `line`: what it was read of. */
  | { type: 'frame', frame: Frame, line?: string }
  /** A line that is no JSON object: blank, torn, too long. */
  | { type: 'unreadable', line: string }
  /** A user line, written or about to be. Without `uuid`: the task of a CLI that the host started itself. */
  | { type: 'sent', uuid?: string, content: Block[] }
  /** An interrupt request was written. */
  | { type: 'interrupt' }
  /** The process is being ended by us: what still runs at its end was aborted. */
  | { type: 'stop' }
  /** A child is given up by whoever watches: what still comes of it is the journal's (B9). */
  | { type: 'child/stop', child: ChildRef }
  /** `ms` have passed since the last tick. Only a driver has a clock. */
  | { type: 'tick', ms: number }
  | { type: 'exit', code?: number | null, signal?: string | null }
  /** The end of an ingested input. `error`: what ended it, where it was not its host. */
  | { type: 'end', error?: Outcome }

/** A child within its chat: counts from 1 in the order of their starts. */
export type ChildRef = number
export type Scope = 'chat' | ChildRef
export type ChildReason = 'completed' | 'error' | 'aborted'

export interface TurnEnded {
  turn: number
  reason: ChildReason
  error?: Outcome
  /** Whether this is the answer to a user's message; else a task's notification woke the CLI (A6). */
  answers: boolean
  /** What the CLI itself calls the result. */
  text?: string
  usage?: Usage
  /** Of the CLI's whole session so far. */
  costUsd?: number
}

/** What a request of the CLI is called: its answer bears the same. */
export type RequestId = string | number

/** What came of an input, in order. */
export type Emitted =
  /** Every line, once, before whatever it caused. `fed`: whose it was; `null` where it went nowhere else. */
  | { type: 'journal', line: number, frame: Frame | string, fed: Scope | null }
  /** A fault of ours: the line went to the journal alone. */
  | { type: 'fault', line: number, error: unknown }
  /** The CLI's own id of the session, where a frame tells it before `init` does. */
  | { type: 'session/named', sessionId: string }
  | { type: 'session/opened', sessionId: string | null, model: string | null, tools: string[], cwd: string | null }
  /** To be appended to the log of the chat, or of a child. */
  | { type: 'log', scope: Scope, event: NewEvent }
  /** A message begins, or goes on: live traffic. */
  | { type: 'message/begun', scope: Scope, step: number }
  | { type: 'delta', scope: Scope, kind: DeltaKind, text: string, toolCallId?: string }
  | { type: 'child/started', child: ChildRef, externalId: string, label: string, prompt: string | null, toolCallId: string, continues?: ChildRef }
  /** `summary`: what the CLI says came of it, for a child whose own words it does not forward. */
  | { type: 'child/settled', child: ChildRef, toolCallId: string, reason: ChildReason, error?: Outcome, summary?: string }
  | { type: 'steer/confirmed', uuid: string | null }
  /** A user line that the CLI will not run any more. */
  | { type: 'line/dropped', uuid: string | null }
  /** `input`: a JSON text, as it came. */
  | { type: 'approval/asked', requestId: RequestId, tool: string, input: string, toolCallId: string | null, agentId: string | null }
  /** Any other request of the CLI: it waits for an answer too. */
  | { type: 'control/asked', requestId: RequestId, subtype: string }
  | { type: 'control/answered', requestId: string, ok: boolean, error?: string }
  /** 3 s without an answer to our interrupt: what is left are signals (D5). */
  | { type: 'interrupt/unanswered' }
  | ({ type: 'turn/ended' } & TurnEnded)
