import { DeltaFeed } from '../../core/deltas.ts'
import { refuse } from '../../core/errors.ts'
import type { Block, EventMap, EventType, RunResult, SessionEvent, SessionHeader } from '../../core/events.ts'
import { CancelReason, followSignal, type SuspendReason, type FrameIntake, type HostCalls, type LiveRun } from '../../core/live.ts'
import { SessionLog, type StoredEvents } from '../../core/log.ts'
import type { SubagentRun } from '../../core/provider.ts'
import type { RunRecord, RunSpec } from '../../core/run.ts'
import type { Publication } from '../../core/store.ts'
import { createNews, type News } from '../../driver/news.ts'
import type { DriverOptions } from '../../driver/options.ts'
import { createProjection, type Projection } from '../../driver/projection.ts'
import type { ChatWriter } from './chat-writer.ts'
import { createReading, type Reading } from './reading.ts'
import type { Transcript } from './transcript.ts'

/** What external runs need of the service. */
export type ExternalOptions = Pick<DriverOptions, 'store' | 'now' | 'newId' | 'retentionMs' | 'announce' | 'retire' | 'onFault' | 'onSettled' | 'reserve' | 'maxDepth'>

/** What a run's owner does when somebody asks something of it. */
export interface Handlers {
  abort (reason: CancelReason | SuspendReason): void
  /** Throws a `Refusal` where it takes no messages. */
  accept (content: Block[]): string
  acceptNow?: (content: Block[]) => string
  frames?: FrameIntake
  forget?: (id: string) => Promise<unknown>
}

export interface ExternalRunInit {
  record: Omit<RunRecord, 'segment' | 'firstSeq'> & Partial<Pick<RunRecord, 'segment' | 'firstSeq'>>
  spec: RunSpec
  header: SessionHeader
  writer: ChatWriter
  handlers: Handlers
  /** Not written yet: it goes with the first event. */
  publication?: Publication
  /** Events of the session that the store holds already. */
  stored?: StoredEvents
  /** What those events say. */
  reading?: Reading
  /** Nothing of its work is done here. */
  observed: boolean
}

/** Own events kept in memory: readers that are up to date are served from them. */
const KEPT = 256

const NO_CALLS: HostCalls = {
  pending: () => [],
  answer: ([first]) => { throw refuse('TOOL_CALL_NOT_PENDING', { toolCallId: first?.toolCallId ?? '', reason: 'unknown' }) }
}

/** A run that an external CLI does: a chat, or a child that was seen in one. Its log is written from outside. */
export class ExternalRun implements LiveRun, SubagentRun {
  readonly id: string
  readonly tenant: string
  readonly spec: RunSpec
  readonly log: SessionLog
  readonly deltas = new DeltaFeed()
  readonly hostCalls = NO_CALLS
  readonly projection: Projection
  readonly reading: Reading
  readonly observed: boolean
  readonly result: Promise<RunResult>
  readonly acceptNow?: (content: Block[]) => string
  readonly frames?: FrameIntake
  readonly forget?: (id: string) => Promise<unknown>
  readonly #options: ExternalOptions
  readonly #init: ExternalRunInit
  readonly #news: News
  readonly #settled = Promise.withResolvers<RunResult>()
  readonly #stopped = Promise.withResolvers<undefined>()
  readonly #underway = Promise.withResolvers<undefined>()
  #publication: Publication | undefined
  #announced = false
  #ending = false
  #cancelled: CancelReason | undefined
  #unfollow: () => void = () => {}

  constructor (options: ExternalOptions, init: ExternalRunInit) {
    const { record, handlers } = init
    this.#options = options
    this.#init = init
    this.#publication = init.publication
    this.#news = createNews((message, error) => options.onFault(message, error, { runId: record.id }))
    this.id = record.id
    this.tenant = record.tenant
    this.spec = init.spec
    this.observed = init.observed
    this.reading = init.reading ?? createReading()
    this.result = this.#settled.promise
    if (record.cancel) this.#cancelled = new CancelReason(record.cancel.by, record.cancel.reason)
    this.projection = createProjection({ segment: 0, firstSeq: 0, ...record })
    if (handlers.acceptNow) this.acceptNow = handlers.acceptNow
    if (handlers.frames) this.frames = handlers.frames
    if (handlers.forget) this.forget = handlers.forget
    this.log = new SessionLog({
      header: init.header,
      laterSeed: { length: record.seed.events, turns: record.seed.turns },
      keep: KEPT,
      ...(init.stored ? { stored: init.stored } : {}),
      commit: (events) => this.#commit(events),
      now: options.now,
      onObserverFault: (error) => options.onFault('an observer of a log threw', error, { runId: record.id })
    })
  }

  get stopped (): Promise<unknown> { return this.#stopped.promise }
  get underway (): Promise<unknown> { return this.#underway.promise }
  /** Nothing is logged any more but what has been. */
  get ending (): boolean { return this.#ending }
  get cancelled (): CancelReason | undefined { return this.#cancelled }

  /** Stops with the signal that its start came with. */
  follow (signal: AbortSignal): void { this.#unfollow = followSignal(signal, 'request', (reason) => this.abort(reason)) }

  /** Adds an event to the log, in the chat's order. */
  append<T extends EventType> (type: T, data: EventMap[T]): void {
    const event = this.log.append(type, data)
    this.#init.writer.note(this.id)
    this.reading.take(event)
    if (type === 'assistant/message') this.deltas.end()
  }

  /** The CLI's model begins a message. */
  beginMessage (step: number): void { this.deltas.begin(step, 1, this.log.length - 1) }

  /** What an earlier process saw of a message that is still being written. */
  goOn (transcript: Transcript | undefined): void {
    if (!transcript?.message) return
    this.beginMessage(transcript.step + 1)
    for (const part of transcript.message.parts) if (part.type !== 'tool-call') this.deltas.push(part.type, part.text)
  }

  /** Makes the run visible. A new one is announced by itself once the store has it. */
  announce (): void {
    if (this.#announced) return
    this.#announced = true
    this.#news.contain('a run could not be announced', () => this.#options.announce(this))
  }

  ready (): void { this.#underway.resolve(undefined) }

  /** Writes what changed in the row, where no event carries it. */
  flush (): void {
    const patch = this.projection.take()
    if (patch) this.#hand([], patch).catch(() => {})
  }

  abort (reason: CancelReason | SuspendReason): void {
    if (this.#ending || this.#cancelled) return
    if (reason instanceof CancelReason) {
      this.#cancelled = reason
      const cancel = { at: this.#options.now(), reason: reason.reason, by: reason.by }
      this.append('run/cancel', cancel)
      this.projection.patch({ cancel })
    }
    this.#init.handlers.abort(reason)
  }

  accept (content: Block[]): string {
    if (this.#ending || this.#cancelled) throw refuse('RUN_SETTLED', { id: this.id })
    return this.#init.handlers.accept(content)
  }

  /** No child of a delegation tool is under an external run. */
  note (): void {}

  onStatus (listener: () => void): () => void { return this.#news.watch(listener) }

  #disposed: Promise<void> | undefined
  dispose (): Promise<void> {
    this.#disposed ??= (async () => {
      this.abort(new CancelReason('dispose', null))
      await this.#stopped.promise
    })()
    return this.#disposed
  }

  /** The one terminal write. */
  settle (result: RunResult): void {
    if (this.#ending) return
    this.#ending = true
    const settledAt = this.#options.now()
    const { stopReason, error, usage } = result
    this.append('run/settled', { runId: this.id, result })
    this.projection.patch({
      status: 'settled', stopReason, error: error ?? null, usage, result, settledAt, expiresAt: settledAt + this.#options.retentionMs
    })
    this.log.durable().then(() => {
      this.#release()
      this.#settled.resolve(result)
      this.#news.contain('what watches for settled runs threw', () => this.#options.onSettled?.(this))
    }, (error: unknown) => {
      this.#options.onFault('a run could not be settled', error, { runId: this.id })
      this.#release()
    })
  }

  /** The process ends: the run is left as it is, for the next start. */
  suspend (): void {
    if (this.#ending) return
    this.#ending = true
    const release = (): void => this.#release()
    this.log.durable().then(release, release)
  }

  #release (): void {
    this.#unfollow()
    if (this.#announced) this.#news.contain('a run could not be released', () => this.#options.retire(this))
    this.#underway.resolve(undefined)
    this.#stopped.resolve(undefined)
  }

  async #commit (events: readonly SessionEvent[]): Promise<void> {
    await this.#hand(events, this.projection.take())
  }

  async #hand (events: readonly SessionEvent[], patch: ReturnType<Projection['take']>): Promise<void> {
    const publication = this.#publication
    this.#publication = undefined
    const places = await this.#init.writer.hand({ id: this.id, events, patch, publication })
    const place = places.get(this.id)
    if (place) Object.assign(this.projection.record, place)
    if (publication) this.announce()
    if (patch?.status) this.#news.tell()
  }
}
