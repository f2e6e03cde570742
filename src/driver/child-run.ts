import { messageOf, outcome, refuse } from '../core/errors.ts'
import { DeltaFeed } from '../core/deltas.ts'
import type { Block, NewEvent, Outcome, RunResult, SessionEvent, SessionHeader } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import { CancelReason, followSignal, SuspendReason, type LiveRun } from '../core/live.ts'
import { SessionLog } from '../core/log.ts'
import type { SubagentRun } from '../core/provider.ts'
import type { RunPatch, RunRecord, RunSpec } from '../core/run.ts'
import { LimitReason } from '../loop/agent.ts'
import { HostDesk } from '../loop/host-desk.ts'
import { runTurn } from '../loop/turn.ts'
import type { AgentSetup, RunHooks } from './agent.ts'
import { watchedSlot, type DriverOptions, type ReservedSlot } from './options.ts'
import { agentOf } from './loop-agent.ts'
import { createNews, type News } from './news.ts'
import { createProjection, type Projection } from './projection.ts'
import { readResult } from './result.ts'
import { closeFailedTurn, resumeEvents, waitsForHost } from './resume.ts'
import { readSeed } from './seed.ts'

export interface ChildRunInit {
  record: RunRecord
  spec: RunSpec
  /** The agent; of a run that is taken up again, how to build it, or what the run settles with because none can be. */
  setup: AgentSetup | ((signal: AbortSignal) => Promise<AgentSetup | { failed: Outcome | undefined }>)
  slot: ReservedSlot
  hooks: RunHooks
  header: SessionHeader
  /** Events of the session after its seed: earlier runs', and this one's where it is taken up again. */
  own?: SessionEvent[]
  resumed?: boolean
}

/** A published child, from its announcement to its release (driver.md §4–§5). Its `result` never rejects. */
export class ChildRun implements LiveRun, SubagentRun {
  readonly id: string
  readonly tenant: string
  readonly spec: RunSpec
  readonly log: SessionLog
  readonly deltas = new DeltaFeed()
  readonly hostCalls: HostDesk
  readonly projection: Projection
  readonly result: Promise<RunResult>
  readonly #options: DriverOptions
  readonly #init: ChildRunInit
  readonly #settled = Promise.withResolvers<RunResult>()
  readonly #underway = Promise.withResolvers<undefined>()
  readonly #stopped = Promise.withResolvers<undefined>()
  readonly #controller = new AbortController()
  readonly #news: News
  #detach: () => void = () => {}
  #deadline: NodeJS.Timeout | undefined
  /** From here on no cancellation changes anything: the result is read. */
  #ending = false
  /** The result stands in the log: there is no other. */
  #told = false

  constructor (options: DriverOptions, init: ChildRunInit) {
    const { record, spec } = init
    this.#options = options
    this.#init = init
    this.#news = createNews((message, error) => options.onFault(message, error, { runId: record.id }))
    this.id = record.id
    this.tenant = record.tenant
    this.spec = spec
    this.result = this.#settled.promise
    this.projection = createProjection(record)
    this.log = new SessionLog({
      header: init.header,
      laterSeed: { length: record.seed.events, turns: record.seed.turns },
      own: init.own ?? [],
      commit: (events) => this.#commit(events),
      now: options.now,
      onObserverFault: (error) => options.onFault('an observer of a log threw', error, { runId: record.id })
    })
    this.hostCalls = new HostDesk({
      log: this.log,
      now: options.now,
      timeoutMs: spec.limits.toolTimeoutMs ?? null,
      onChange: (pendingToolCalls) => this.projection.patch({
        pendingToolCalls, status: pendingToolCalls.length > 0 ? 'waiting' : init.slot.ready ? 'running' : 'queued'
      })
    })
  }

  get stopped (): Promise<unknown> { return this.#stopped.promise }
  get underway (): Promise<unknown> { return this.#underway.promise }

  /** The last look at the signal, then the live listener (the handoff of driver.md §4.5), then the task. */
  begin (signal: AbortSignal | undefined, loadedSeed?: readonly SessionEvent[]): void {
    if (signal) this.#detach = followSignal(signal, 'request', (reason) => this.abort(reason))
    this.#arm()
    void this.#drive(loadedSeed)
  }

  abort (reason: CancelReason | SuspendReason | LimitReason): void {
    if (this.#ending || this.#controller.signal.aborted) return
    if (reason instanceof CancelReason) {
      const cancel = { at: this.#options.now(), reason: reason.reason, by: reason.by }
      this.log.append('run/cancel', cancel)
      at('cancel/appended')
      this.projection.patch({ cancel })
    }
    this.#controller.abort(reason)
  }

  accept (content: Block[], from: 'host' | 'child'): string {
    if (!this.#open()) throw refuse('RUN_SETTLED', { id: this.id })
    const messageId = this.#options.newId()
    this.log.append('run/message', { messageId, content, from })
    return messageId
  }

  note (event: Extract<NewEvent, { type: 'subagent/start' | 'subagent/end' }>): void {
    if (this.#open()) this.log.appendAll([event])
  }
  /** Whether a step may still follow: the turn has not ended, and nothing ends it. */
  #open (): boolean {
    return !this.#ending && !this.#controller.signal.aborted && !this.#own().some((event) => event.type === 'turn/end')
  }

  onStatus (listener: () => void): () => void { return this.#news.watch(listener) }

  #disposed: Promise<void> | undefined
  dispose (): Promise<void> {
    this.#disposed ??= this.#dispose()
    return this.#disposed
  }

  async #dispose (): Promise<void> {
    this.#detach()
    this.abort(new CancelReason('dispose', null))
    await this.#stopped.promise
    if (this.#unreleased.length > 0) throw new AggregateError(this.#unreleased, `run ${this.id} could not be released`)
  }

  /** The time limit counts from publication, the time in the queue and before a restart included. */
  #arm (): void {
    const ms = this.spec.limits.timeoutMs
    if (ms === undefined) return
    const left = this.projection.record.createdAt + ms - this.#options.now()
    const expire = (): void => this.abort(new LimitReason('LIMIT_TIME', 'timeoutMs', ms))
    if (left <= 0) expire()
    else this.#deadline = setTimeout(expire, Math.min(left, 2 ** 31 - 1))
  }

  async #drive (loadedSeed: readonly SessionEvent[] | undefined): Promise<void> {
    try {
      const result = await this.#run(loadedSeed)
      await this.#options.endChildren?.(this)
      await this.#settle(result)
    } catch (error) {
      if (!(error instanceof SuspendReason)) await this.#fault(error)
    } finally {
      this.#release()
      this.#underway.resolve(undefined)
      this.#stopped.resolve(undefined)
    }
  }

  async #run (loadedSeed: readonly SessionEvent[] | undefined): Promise<RunResult> {
    const { slot, own } = this.#init
    const { signal } = this.#controller
    const resume = own && this.#init.resumed ? resumeEvents(this.#own()) : undefined
    if (resume) this.log.appendAll(resume.events)
    at('run/driven')
    if (resume?.cancelled) this.#controller.abort(resume.cancelled)
    if (this.#own().some((event) => event.type === 'turn/end')) return this.#read()
    const setup = typeof this.#init.setup === 'function' ? await this.#init.setup(signal) : this.#init.setup
    if ('failed' in setup) return this.#giveUp(setup.failed)
    if (resume?.settle) return this.#giveUp(resume.settle)
    // What had a place before a restart is queued for one now.
    if (!slot.ready && this.projection.record.status === 'running') this.#mark({ status: 'queued' })
    if (!slot.free && !waitsForHost(this.log.own)) await slot.acquire(signal).catch((error: unknown) => { if (!signal.aborted) throw error })
    const unsent = !this.#own().some((event) => event.type === 'turn/start')
    if (unsent && signal.aborted) return this.#read()
    this.#regained()
    const seed = loadedSeed ?? await readSeed(this.#options.store, this.projection.record, signal)
    if (unsent && signal.aborted) return this.#read()
    if (seed) this.log.attachSeed(seed)
    const origin = this.projection.record.continues === null ? 'task' : 'message'
    const turn = runTurn(agentOf(this.#options, this, { hooks: this.#init.hooks, slot: watchedSlot(slot, () => this.#regained()) }, setup), { origin, content: this.spec.prompt }, signal, (usage) => this.projection.patch({ usage }))
    this.#forgetStaleCalls()
    this.#underway.resolve(undefined)
    await turn
    return this.#read()
  }

  /** Ends the run with a failure from outside its turn, or its cancellation: what the turn left open is closed first. */
  #giveUp (failure: Outcome | undefined): RunResult {
    if (!(this.#controller.signal.reason instanceof SuspendReason)) this.log.appendAll(closeFailedTurn(this.log.own, failure))
    return this.#read(failure)
  }

  /** This run's own events; a session may hold earlier runs before them. */
  #own (): readonly SessionEvent[] { return this.log.own.slice(this.projection.record.firstSeq - this.log.seedLength) }

  /** Reads the result at the instant after which no cancellation counts. */
  #read (failure?: Outcome): RunResult {
    const { reason }: { reason?: unknown } = this.#controller.signal
    if (reason instanceof SuspendReason) throw reason
    this.#ending = true
    const failed = failure ?? (reason instanceof LimitReason ? outcome(reason.code, reason.message) : undefined)
    return readResult(this.#own(), {
      cancelled: reason instanceof CancelReason,
      structured: this.spec.outputSchema !== undefined,
      ...(failed ? { failed } : {})
    })
  }

  #regained (): void { if (this.projection.record.status === 'queued') this.#mark({ status: 'running', startedAt: this.projection.record.startedAt ?? this.#options.now() }) }

  #mark (changes: RunPatch): void {
    this.projection.patch(changes)
    const patch = this.projection.take()
    if (!patch) return
    this.#options.store.patchRun(this.tenant, this.id, patch).then(() => this.#news.tell(), (error: unknown) => {
      this.#options.onFault('a run\'s status could not be stored', error, { runId: this.id })
    })
  }

  /** What a program was asking its host before a restart is asked no more. */
  #forgetStaleCalls (): void {
    const pendingToolCalls = this.hostCalls.pending()
    const isStale = this.projection.record.pendingToolCalls.length > 0 && pendingToolCalls.length === 0
    if (isStale) this.projection.patch({ pendingToolCalls, status: 'running' })
  }

  async #settle (result: RunResult): Promise<void> {
    this.#ending = true
    const { status, pendingToolCalls } = this.projection.record
    const { stopReason, error, usage } = result
    const settledAt = this.#options.now()
    this.log.append('run/settled', { runId: this.id, result })
    this.#told = true
    at('settle/appended')
    this.projection.patch({
      status: 'settled', stopReason, error: error ?? null, usage, pendingToolCalls: [], result,
      settledAt, expiresAt: settledAt + this.#options.retentionMs
    })
    try {
      await this.log.durable()
    } catch (lost) {
      // Nobody is told of a settlement that the store does not hold.
      const open = { stopReason: null, error: null, result: null, settledAt: null, expiresAt: null }
      this.projection.patch({ ...open, status, pendingToolCalls })
      throw lost
    }
    at('settle/durable')
    this.#release()
    this.#settled.resolve(result)
    this.#news.contain('what watches for settled runs threw', () => this.#options.onSettled?.(this))
  }

  /** A bug or a lost store: the run is told to have failed; what is not stored is resumed at the next start. */
  async #fault (error: unknown): Promise<void> {
    this.#options.onFault('a run failed', error, { runId: this.id })
    if (this.#controller.signal.reason instanceof SuspendReason) return
    const failure = outcome('INTERNAL', 'internal error')
    const { usage } = this.projection.record
    const bare: RunResult = { output: [], stopReason: 'error', diagnostic: failure.message, error: failure, usage }
    try {
      if (!this.#told) return await this.#settle(this.#ending ? bare : this.#giveUp(failure))
    } catch (again) {
      this.#options.onFault(`a failed run could not be settled: ${messageOf(again)}`, again, { runId: this.id })
    }
    this.#release()
    this.#settled.resolve(bare)
  }

  async #commit (events: readonly SessionEvent[]): Promise<void> {
    const patch = this.projection.take()
    const { segment } = this.projection.record
    await this.#options.store.append({ segment, events, ...(patch ? { run: { tenant: this.tenant, id: this.id, patch } } : {}) })
    if (patch?.status) this.#news.tell()
  }

  #released = false
  /** What could not be released; `dispose` tells (driver.md 5.3). */
  #unreleased: unknown[] = []
  #release (): void {
    if (this.#released) return
    this.#released = true
    clearTimeout(this.#deadline)
    this.#detach()
    const parts = [() => this.#init.slot.release(), () => this.#options.retire(this)]
    this.#unreleased = parts.flatMap((release) => this.#news.contain('a run could not be released', release))
  }
}
