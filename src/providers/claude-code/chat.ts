import { refuse } from '../../core/errors.ts'
import { noUsage, type NewEvent, type Outcome, type RunResult, type SessionHeader } from '../../core/events.ts'
import { derivedId } from '../../core/ids.ts'
import type { StoredEvents } from '../../core/log.ts'
import { CancelReason } from '../../core/live.ts'
import type { RunRecord, RunSpec } from '../../core/run.ts'
import { headerOf } from '../../driver/publication.ts'
import type { ChatWriter } from './chat-writer.ts'
import { ExternalRun, type ExternalOptions, type ExternalRunInit } from './external-run.ts'
import { normalize } from './normalizer.ts'
import { find } from './persistent-map.ts'
import { childOf, standing, type State } from './state.ts'
import type { ChildRef, Emitted, Input, Scope } from './vocabulary.ts'

/** What a driver has to act on, or to know. */
export type ChatNews = Extract<Emitted, {
  type: 'turn/ended' | 'steer/confirmed' | 'line/dropped' | 'approval/asked' | 'control/asked' | 'control/answered' | 'interrupt/unanswered' | 'session/opened'
}>
/** An input, with the line it is of where it came as one. */
export interface Taken { input: Input, line?: string }

/** Where the log of a child that has settled ends: a resume goes on from there (B4). */
export interface EndedChild { id: string, sessionId: string, stored: StoredEvents }

/** A child that an earlier process saw begin. */
export type FoundChild = Pick<ExternalRunInit, 'record' | 'spec' | 'header' | 'reading' | 'stored'>

export interface ChatInit {
  options: ExternalOptions
  run: ExternalRun
  writer: ChatWriter
  state: State
  /** Children of a chat that is taken up again: those that still run, and those that a resume may go on with. */
  running?: ReadonlyMap<ChildRef, FoundChild>
  ended?: ReadonlyMap<ChildRef, EndedChild>
  /** Somebody asked a child of it to stop. */
  onStopChild: (child: ChildRef) => void
}

export const PROVIDER = 'claude-code'
/** The model of a chat, as long as the CLI has not told it. */
export const modelName = (model: string | undefined): string => `${PROVIDER}/${model ?? 'default'}`

/** One chat with the CLI: what the normalizer emits becomes its runs, their logs and their rows. The same for both ways in. */
export class Chat {
  readonly run: ExternalRun
  readonly #init: ChatInit
  readonly #running = new Map<ChildRef, ExternalRun>()
  /** The turn of its session that each of them has: the one that it was resumed from may have been deleted. */
  readonly #turns = new Map<ChildRef, number>()
  /** Those whose rows may have to follow. */
  readonly #changed = new Set<ChildRef>()
  readonly #ended: Map<ChildRef, EndedChild>
  #state: State

  constructor (init: ChatInit) {
    this.#init = init
    this.run = init.run
    this.#state = init.state
    this.#ended = new Map(init.ended)
    this.run.goOn(init.state.log)
    for (const [ref, found] of init.running ?? []) {
      const child = this.#openChild(ref, found)
      child.announce()
      child.goOn(childOf(init.state, ref)?.log)
    }
  }

  get state (): State { return this.#state }

  /**
   * Takes what happened, in order: as one write, with the lines it came in. Answers what a driver has to act on. Throws only for a fault
   * of ours; then the lines so far are taken, and the chat has to end.
   */
  take (inputs: readonly Taken[]): ChatNews[] {
    if (this.run.ending) return []
    const news: ChatNews[] = []
    const lines: string[] = []
    try {
      for (const { input, line } of inputs) {
        const [state, emitted] = normalize(this.#state, input)
        this.#state = state
        if (line !== undefined) lines.push(line)
        for (const event of emitted) {
          const told = this.#apply(event)
          if (told) news.push(told)
        }
      }
    } finally {
      this.#show()
      this.#init.writer.journal(lines)
    }
    return news
  }

  /** Why it is being stopped, where nobody asked for it: then that is what it came to. */
  failed: Outcome | undefined

  /** Ends the chat's run with what it came to. What still runs in it was settled by the normalizer before. */
  settle (): void {
    const { reading, cancelled } = this.run
    this.run.settle(reading.result({ cancelled: cancelled !== undefined, failed: this.failed }))
  }

  /** A child that has settled is about to be deleted: a resume of it begins anew, from nothing. */
  async forget (id: string): Promise<void> {
    for (const [ref, child] of this.#ended) if (child.id === id) this.#ended.delete(ref)
    await this.#init.writer.written()
  }

  /** Leaves everything as it is for the next start of the service. */
  suspend (): void {
    for (const child of this.#running.values()) child.suspend()
    this.run.suspend()
  }

  #apply (event: Emitted): ChatNews | undefined {
    switch (event.type) {
      case 'journal': return undefined
      case 'log':
        this.#log(event)
        return undefined
      case 'message/begun':
        this.#of(event.scope)?.beginMessage(event.step)
        return undefined
      case 'delta':
        this.#of(event.scope)?.deltas.push(event.kind, event.text, event.toolCallId)
        return undefined
      case 'child/started':
        this.#startChild(event)
        return undefined
      case 'child/settled':
        this.#settleChild(event)
        return undefined
      case 'fault':
        this.#init.options.onFault('a line of a chat could not be used', event.error, { runId: this.run.id, line: event.line })
        return undefined
      case 'session/named':
        this.#nameSession(event.sessionId)
        return undefined
      case 'session/opened':
        if (event.sessionId !== null) this.#nameSession(event.sessionId)
        if (event.model !== null) this.run.projection.patch({ model: modelName(event.model) })
        return event
      case 'turn/ended':
        this.run.reading.judge(event.answers)
        if (event.answers && event.text !== undefined) this.run.reading.say(event.text)
        if (event.costUsd !== undefined) this.run.reading.spend(event.costUsd)
        return event
      default: return event
    }
  }

  #nameSession (id: string): void {
    const { projection } = this.run
    projection.patch({ external: { ...projection.record.external, id } })
  }

  #log ({ scope, event }: Extract<Emitted, { type: 'log' }>): void {
    if (scope === 'chat') {
      this.run.append(event.type, event.data as never)
      return
    }
    const child = this.#running.get(scope)
    if (!child) return
    this.#changed.add(scope)
    child.append(event.type, inTurn(event, this.#turns.get(scope) ?? 1) as never)
  }

  #of (scope: Scope): ExternalRun | undefined { return scope === 'chat' ? this.run : this.#running.get(scope) }

  /** The chat's row follows what is open in it, in the write of what changed it. */
  #show (): void {
    const { projection, reading, ending } = this.run
    if (ending) return
    if (this.#state.ended) {
      this.settle()
      return
    }
    const { turn, runningChildren, queued } = standing(this.#state)
    const { external } = this.run.spec
    // A driven chat that is not kept open, or is told to stop, ends after its turn: nobody is asked for more.
    const ends = external?.way === 'drive' && (external.keepOpen !== true || this.#state.stopping)
    const status = turn || runningChildren > 0 || queued > 0 || ends ? 'running' : 'idle'
    const { record } = projection
    if (record.status !== status && record.status !== 'queued') projection.patch({ status })
    if (record.usage !== reading.usage) projection.patch({ usage: reading.usage })
    const framesAccepted = this.#accepted()
    if (framesAccepted !== undefined && record.external?.framesAccepted !== framesAccepted) {
      projection.patch({ external: { ...record.external, framesAccepted } })
    }
    for (const ref of this.#changed) {
      const child = this.#running.get(ref)
      if (child && child.projection.record.usage !== child.reading.usage) child.projection.patch({ usage: child.reading.usage })
    }
    this.#changed.clear()
    this.run.flush()
  }

  #accepted (): number | undefined {
    return this.run.spec.external?.way === 'ingest' ? this.#state.lines : undefined
  }

  #startChild (event: Extract<Emitted, { type: 'child/started' }>): void {
    const { options } = this.#init
    const { record, spec } = childRun(this.run, event, event.continues === undefined ? undefined : this.#ended.get(event.continues), options.now())
    const header: SessionHeader = headerOf(record, spec)
    const before = record.continues === null || event.continues === undefined ? undefined : this.#ended.get(event.continues)
    const child = this.#openChild(event.child, {
      record, spec, header, publication: { run: record, spec, header, observed: true }, ...(before ? { stored: before.stored } : {})
    })
    this.run.append('subagent/start', { runId: child.id, toolCallId: event.toolCallId, label: event.label })
  }

  #openChild (ref: ChildRef, init: FoundChild & Pick<ExternalRunInit, 'publication'>): ExternalRun {
    const { options, writer, onStopChild } = this.#init
    const child = new ExternalRun(options, { ...init, writer, observed: true, handlers: childHandlers(() => onStopChild(ref)) })
    child.ready()
    this.#running.set(ref, child)
    this.#turns.set(ref, (init.stored?.turns ?? 0) + 1)
    return child
  }

  #settleChild (event: Extract<Emitted, { type: 'child/settled' }>): void {
    const child = this.#running.get(event.child)
    if (!child) return
    this.#running.delete(event.child)
    this.#turns.delete(event.child)
    if (event.summary !== undefined) child.reading.say(event.summary)
    const result: RunResult = child.reading.result({ cancelled: child.cancelled !== undefined, failed: event.error })
    child.settle(result)
    const { id, log, projection: { record: { sessionId } } } = child
    const stored = { length: log.length, completedLength: log.completedLength, turns: log.completedTurns }
    this.#ended.set(event.child, { id, sessionId, stored })
    this.#prune()
    this.run.append('subagent/end', { runId: id, toolCallId: event.toolCallId, stopReason: result.stopReason })
  }

  /** Only those that the normalizer remembers can go on. */
  #prune (): void {
    const { settled } = this.#state
    if (this.#ended.size <= 2 * settled.map.size + 64) return
    for (const ref of this.#ended.keys()) if (find(settled.map, String(ref)) === undefined) this.#ended.delete(ref)
  }
}

/** The event's data as of another turn, where it tells one. */
const inTurn = ({ data }: NewEvent, turn: number): object => 'turn' in data && data.turn !== turn ? { ...data, turn } : data

/** The id of a child run: whoever reads the chat's journal again comes to the same one. */
export const childIdOf = (chat: Pick<ExternalRun, 'spec' | 'id'>, child: ChildRef): string =>
  derivedId(chat.spec.external?.nonce ?? chat.id, String(child))

function childRun (
  chat: ExternalRun, { child, externalId, label, prompt, continues }: Extract<Emitted, { type: 'child/started' }>, before: EndedChild | undefined, createdAt: number
): { record: Omit<RunRecord, 'segment' | 'firstSeq'>, spec: RunSpec } {
  const { projection: { record: parent } } = chat
  const id = childIdOf(chat, child)
  const spec: RunSpec = {
    prompt: prompt === null ? [] : [{ type: 'text', text: prompt }], model: parent.model, agentOptions: {}, hostTools: [], codeMode: 'native',
    limits: {}, depth: parent.depth + 1, relay: {}, external: { way: 'child' }
  }
  const record: Omit<RunRecord, 'segment' | 'firstSeq'> = {
    id, tenant: parent.tenant, sessionId: before?.sessionId ?? id, continues: continues === undefined || !before ? null : before.id, provider: PROVIDER, label,
    status: 'running', stopReason: null, error: null, depth: spec.depth, parentRunId: parent.id, parentSessionId: parent.sessionId,
    rootId: parent.rootId, model: parent.model, seed: { turns: 0, events: 0 }, notices: [], createdAt, startedAt: createdAt, settledAt: null,
    expiresAt: null, cancel: null, usage: noUsage(), pendingToolCalls: [], metadata: {}, result: null, external: { id: externalId }
  }
  return { record, spec }
}

/** A child takes no messages from here: the CLI alone speaks to it. */
export const childHandlers = (stop: () => void) => ({
  abort: (reason: unknown) => { if (reason instanceof CancelReason) stop() },
  accept: () => { throw refuse('UNSUPPORTED_CAPABILITY', { name: PROVIDER, capability: 'messages to a child' }) }
})
