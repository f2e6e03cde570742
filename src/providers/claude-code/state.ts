import type { Block } from '../../core/events.ts'
import { emptyMap, find, noneRecent, type PersistentMap, type RecentMap } from './persistent-map.ts'
import { emptyTranscript, openCallCount, type Out, type Transcript } from './transcript.ts'
import type { ChildReason, ChildRef, Emitted, Scope, TurnEnded } from './vocabulary.ts'

/** A user line that the CLI has, or is about to get, and has not begun. */
export interface Line { readonly uuid: string | undefined, readonly content: Block[] | undefined }

export interface Turn {
  /** The user line that opened it. */
  readonly uuid: string | undefined
  /** Uuids of lines that began in it, whose text only the CLI's replay will tell. */
  readonly unsaid: readonly string[]
  /** Its first user message is in the log. */
  readonly asked: boolean
  /** What a line without a uuid said (`markOf`): its replay is bound to it. */
  readonly words: string | undefined
  /** Content opened it, no line: a task's notification woke the CLI (A6). */
  readonly wake: boolean
  /** Our interrupt was answered while it was open (A6). */
  readonly interrupted: boolean
  /** The result came while a line was queued: the end is held until the line begins or is given up (C7, D4). */
  readonly held: Omit<TurnEnded, 'turn'> | undefined
}

export interface Child {
  readonly ref: ChildRef
  readonly externalId: string
  readonly label: string
  /** The tool ids whose tag is its own; a typed fork has none (C3). */
  readonly tags: readonly string[]
  readonly task: string | undefined
  readonly background: boolean
  readonly typed: boolean
  /** What its log opened with, as `markOf` has it: as its first user text an echo, dropped once (B11, C4). */
  readonly echo: string | undefined
  /** Steers it was given (`markOf`), whose echo is still to come (B4). */
  readonly steers: readonly string[]
  /** A status that does not settle it yet (C5, `task_updated`). */
  readonly kept: ChildReason | undefined
  readonly log: Transcript
}

/** What is remembered of a settled child, so that a resume finds it (B4). */
export type Settled = Pick<Child, 'ref' | 'externalId' | 'label' | 'tags' | 'task'> & { readonly turns: number }

export interface State {
  readonly mode: 'drive' | 'ingest'
  readonly lines: number
  readonly ended: boolean
  readonly stopping: boolean
  readonly opened: boolean
  /** The CLI's own id of the session. */
  readonly session: string | undefined
  readonly model: string | undefined
  readonly log: Transcript
  /** Turns of the session before this run. */
  readonly before: number
  readonly turn: Turn | undefined
  readonly pending: readonly Line[]
  /** The CLI tells when a line begins: content without that word is a wake turn's. */
  readonly lifecycle: boolean
  /** A task's notification came since the last turn ended: content may be a wake turn's. */
  readonly woken: boolean
  /** Uuids of lines that began. */
  readonly begun: readonly string[]
  /** The uuid of the last result. */
  readonly result: string | undefined
  /** Since the last frame. */
  readonly quietMs: number
  readonly interrupt: { readonly answered: boolean, readonly ms: number } | undefined
  /** The line of a turn that was ended without its result: that result is dropped (D5). */
  readonly abandoned: { readonly uuid: string | undefined } | undefined
  /** Until the next line begins, content is the abandoned turn's. */
  readonly muted: boolean
  readonly children: number
  readonly running: PersistentMap<Child>
  readonly settled: RecentMap<Settled>
  readonly tags: PersistentMap<ChildRef>
  readonly tasks: PersistentMap<ChildRef>
  readonly shells: RecentMap<true>
  /** What the children are called, so that no two share an `externalId`. */
  readonly named: RecentMap<true>
  /** Open `Skill` calls of the chat: id → name (B2). */
  readonly skills: PersistentMap<string>
  readonly fork: ChildRef | undefined
}

/** `before`: the turns that the session holds already. */
export const createState = (mode: State['mode'], before = 0): State => ({
  mode, lines: 0, ended: false, stopping: false, opened: false, session: undefined, model: undefined, log: emptyTranscript(before), before, turn: undefined, pending: [],
  lifecycle: false, woken: false, begun: [], result: undefined, quietMs: 0, interrupt: undefined, abandoned: undefined, muted: false, children: 0,
  running: emptyMap(), settled: noneRecent(), tags: emptyMap(), tasks: emptyMap(), shells: noneRecent(), named: noneRecent(), skills: emptyMap(), fork: undefined
})

/** One step of the machine: the state as it becomes, and what it emits. Lives for one call of `normalize`. */
export interface Draft { state: { -readonly [K in keyof State]: State[K] }, readonly events: Emitted[], fed: Scope | null }

export const outOf = (d: Draft, scope: Scope): Out => ({
  log: (event) => { d.events.push({ type: 'log', scope, event }) },
  begun: (step) => { d.events.push({ type: 'message/begun', scope, step }) },
  delta: (kind, said, toolCallId) => {
    if (said !== '') d.events.push({ type: 'delta', scope, kind, text: said, ...(toolCallId === undefined ? {} : { toolCallId }) })
  }
})

export const childOf = (state: State, ref: ChildRef | undefined): Child | undefined =>
  ref === undefined ? undefined : find(state.running, String(ref))

/** What a driver and a row need to know (D2, http-api.md `runningChildren`). */
export interface Standing { turn: boolean, runningChildren: number, openTools: number, queued: number }
export const standing = (state: State): Standing => ({
  turn: state.turn !== undefined,
  runningChildren: state.running.size,
  openTools: openCallCount(state.log) + (state.fork === undefined ? 0 : 1),
  queued: state.pending.length
})

/** D2: a message waits for an open tool, a pending fork included; else it goes in at once. */
export const priorityOf = (state: State): 'next' | 'now' => standing(state).openTools > 0 ? 'next' : 'now'

