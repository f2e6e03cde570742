import type { Clock } from '../../core/clock.ts'
import { messageOf, outcome, refuse } from '../../core/errors.ts'
import type { Block, Outcome, OutcomeCode } from '../../core/events.ts'
import { SuspendReason, type CancelReason } from '../../core/live.ts'
import type { QueuedMessage } from '../../core/messages.ts'
import { tokensOf } from '../../core/usage.ts'
import type { ReservedSlot } from '../../driver/options.ts'
import { limitsOf, type ChatLimits } from './chat-limits.ts'
import { Chat, type ChatNews } from './chat.ts'
import type { ChatWriter } from './chat-writer.ts'
import { createChildStops, type ChildStops } from './child-stops.ts'
import { createCliInput, type CliInput } from './cli-input.ts'
import { readOutput } from './cli-output.ts'
import { interruptRequest, userLine } from './command.ts'
import { ExternalRun, type ExternalOptions, type ExternalRunInit } from './external-run.ts'
import { dueIn } from './normalizer.ts'
import { answerTo, offerFault } from './permission.ts'
import { checkNoCommand, type Permissions } from './policy.ts'
import type { CliExit, CliProcess } from './process.ts'
import { childOf, createState, priorityOf, standing } from './state.ts'
import type { ChildRef, Input } from './vocabulary.ts'

export interface DrivenChatInit extends Pick<ExternalRunInit, 'record' | 'spec' | 'header' | 'stored'> {
  options: ExternalOptions
  writer: ChatWriter
  slot: ReservedSlot
  clock: Clock
  permissions: Permissions
  graceMs: number
  startCli: () => Promise<CliProcess>
  /** Told how the CLI ended where it was not to. */
  onBadEnd: (exit: CliExit, stderr: string) => void
}

/** A chat whose CLI this service runs (claude-code.md §D): from its slot to the end of its process. */
export class DrivenChat {
  readonly run: ExternalRun
  readonly #init: DrivenChatInit
  readonly #chat: Chat
  readonly #stop = new AbortController()
  readonly #cli = Promise.withResolvers<CliProcess | undefined>()
  readonly #input: CliInput
  readonly #stops: ChildStops
  readonly #limits: ChatLimits
  /** Messages that wait for the open turn to be interrupted. */
  #held: { id: string, content: Block[] }[] = []
  #answered = false
  /** Its input has ended, because all is done. */
  #isOver = false
  #isStarted = false
  /** The service stopped before there was a process: the next start begins it. */
  #isLeft = false
  /** No message is taken any more: the process is ending, or told to. */
  #closing = false
  #ending: Promise<void> | undefined
  #fedAt: number
  /** Keeps timers from what they were set for. */
  #untick: () => void = () => {}
  #unlate: (() => void) | undefined

  constructor (init: DrivenChatInit) {
    const { options, clock, record, spec, header, stored, writer } = init
    this.#init = init
    this.#fedAt = clock.now()
    this.#input = createCliInput(this.#cli.promise, () => writer.written())
    this.run = new ExternalRun(options, {
      record, spec, header, writer, observed: false, ...(stored ? { stored } : {}),
      handlers: {
        abort: (reason) => this.#abort(reason),
        accept: (content) => this.#accept(content, false),
        acceptNow: (content) => this.#accept(content, true),
        forget: (id) => this.#chat.forget(id)
      }
    })
    this.#chat = new Chat({
      options, run: this.run, writer, state: createState('drive', stored?.turns), onStopChild: (child) => this.#stopChild(child)
    })
    this.#stops = createChildStops({
      clock, newId: options.newId,
      taskOf: (child) => childOf(this.#chat.state, child)?.task,
      post: (frame) => this.#input.post(frame),
      giveUp: (child) => this.#feed([{ input: { type: 'child/stop', child } }])
    })
    this.#limits = limitsOf(init, (reason) => this.#fail(reason))
  }

  /** Puts the task to the CLI once there is a slot. Never rejects: what goes wrong is the run's outcome. */
  begin ({ signal, messages = [] }: { signal?: AbortSignal, /** Taken by an earlier process, and never sent. */ messages?: readonly QueuedMessage[] }): void {
    this.run.announce()
    if (signal) this.run.follow(signal)
    this.#say(this.#init.options.newId(), this.run.spec.prompt, true)
    for (const { messageId, content } of messages) this.#say(messageId, content, false)
    void this.#drive()
  }

  async #drive (): Promise<void> {
    const { slot, options } = this.#init
    try {
      if (!slot.free) await slot.acquire(this.#stop.signal)
      const cli = await this.#start()
      if (cli) this.#feed([{ input: { type: 'exit', ...await this.#read(cli) } }])
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        options.onFault('a driven chat failed', error, { runId: this.run.id })
        this.#chat.failed ??= outcome('INTERNAL', 'internal error')
      }
      this.#cli.resolve(undefined)
      await this.#kill()
      const cli = await this.#cli.promise
      if (cli) this.#feed([{ input: { type: 'exit', ...await cli.exited } }])
    } finally {
      this.#cli.resolve(undefined)
      if (this.#isLeft) this.run.suspend()
      // Without a process its task was never sent (http-api.md 2.1).
      else if (!this.run.ending) this.#chat.settle()
      this.#untick()
      this.#unlate?.()
      this.#limits.clear()
      this.#stops.clear()
      slot.release()
    }
  }

  /** The process, or none where the run is to stop before, or it cannot be started. */
  async #start (): Promise<CliProcess | undefined> {
    const { startCli, options, writer } = this.#init
    if (this.#stop.signal.aborted) return undefined
    const refusal = await this.#limits.refusal()
    if (refusal) this.#fail(refusal)
    if (this.#stop.signal.aborted) return undefined
    this.#isStarted = true
    const { projection } = this.run
    projection.patch({ status: 'running', startedAt: projection.record.startedAt ?? options.now() })
    const cli = await startCli().catch((error: unknown) => {
      this.#chat.failed = outcome('SETUP_FAILED', messageOf(error))
      return undefined
    })
    if (!cli) return undefined
    // From here on the next start of the service knows whose process this is; before it the CLI was told nothing.
    projection.patch({ external: { ...projection.record.external, process: { pid: cli.pid, startTime: cli.startTime } } })
    this.run.flush()
    this.run.ready()
    try {
      await writer.written()
    } catch (error) {
      await cli.end(0)
      throw error
    }
    this.#cli.resolve(cli)
    if (this.#stop.signal.aborted) void this.#kill()
    return cli
  }

  async #read (cli: CliProcess): Promise<CliExit> {
    await readOutput(cli, this.#init.writer, (lines) => this.#feed(lines))
    // Nothing is heard of it any more.
    const unlate = this.#init.clock.after(this.#init.graceMs, () => {
      this.#chat.failed ??= outcome('INTERRUPTED', 'the CLI closed its output')
      void this.#kill()
    })
    const exit = await cli.exited
    unlate()
    if (exit.code !== 0 && !this.#closing) this.#init.onBadEnd(exit, cli.stderrTail())
    return exit
  }

  /** Hands on what happened, with the time that passed before it, and does what came of it. */
  #feed (inputs: readonly { input: Input, line?: string }[]): void {
    const { clock } = this.#init
    const now = clock.now()
    const waits = dueIn(this.#chat.state) !== undefined
    const tick: Input = { type: 'tick', ms: now - this.#fedAt }
    this.#fedAt = now
    for (const news of this.#chat.take(waits ? [{ input: tick }, ...inputs] : inputs)) this.#act(news)
    this.#untick()
    const due = dueIn(this.#chat.state)
    if (due !== undefined) this.#untick = clock.after(due, () => this.#feed([]))
    this.#finish()
  }

  #act (news: ChatNews): void {
    const { permissions } = this.#init
    const { toolFilter } = this.run.spec
    switch (news.type) {
      case 'approval/asked':
      case 'control/asked': this.#input.post(answerTo(permissions, toolFilter, news)); return
      case 'session/opened': this.#check(offerFault(toolFilter, news.tools)); return
      case 'turn/ended':
        this.#answered = true
        if (this.#stop.signal.aborted) void this.#kill()
        else for (const { id, content } of this.#held.splice(0)) this.#say(id, content, false)
        return
      case 'interrupt/unanswered':
        if (!this.#stop.signal.aborted) this.#chat.failed ??= outcome('INTERRUPTED', 'the CLI did not answer an interrupt')
        void this.#kill()
        return
      case 'control/answered': this.#stops.answered(news.requestId, news.ok); return
      case 'steer/confirmed':
      case 'line/dropped': return
      default: news satisfies never
    }
  }

  /** An interrupt would leave it time to use what it must not. */
  #check (fault: Outcome | undefined): void {
    if (!fault) return
    this.#chat.failed ??= fault
    void this.#kill()
  }

  /** A turn, its children and what was sent are done: unless it is kept open, so is the chat. */
  #finish (): void {
    const { state } = this.#chat
    const { turn, runningChildren, queued, openTools } = standing(state)
    const isIdle = !turn && runningChildren === 0 && queued === 0 && this.#held.length === 0
    const goesOn = state.log.message !== undefined || openTools > 0 || runningChildren > 0
    this.#limits.mark({ isIdle, goesOn, runningChildren, tokens: tokensOf(this.run.reading.usage) })
    if (this.#answered && isIdle && this.run.spec.external?.keepOpen !== true && !this.#closing) {
      this.#closing = true
      this.#isOver = true
      this.#input.close()
    }
    if (!this.#isOver) return
    // What it still says, of a child that ended last, is waited for; for nothing it is not.
    if (!isIdle) {
      this.#unlate?.()
      this.#unlate = undefined
    } else this.#unlate ??= this.#init.clock.after(this.#init.graceMs, () => { void this.#kill() })
  }

  #fail ({ code, message }: { code: OutcomeCode, message: string }): void {
    this.#chat.failed ??= outcome(code, message)
    this.#halt()
  }

  #abort (reason: CancelReason | SuspendReason): void {
    if (!(reason instanceof SuspendReason)) return this.#halt()
    const { turn, queued, runningChildren } = standing(this.#chat.state)
    const isBusy = turn || queued > 0 || runningChildren > 0
    this.#isLeft = !this.#isStarted
    if (this.#isStarted && isBusy) this.#chat.failed ??= outcome('INTERRUPTED', 'the service stopped while the CLI was at work')
    this.#stop.abort(reason)
    if (this.#isStarted) void this.#kill()
  }

  /** D5: an open turn is interrupted first, so that the CLI's own record of it ends well. */
  #halt (): void {
    if (this.#stop.signal.aborted) return
    this.#stop.abort(new Error('the chat was stopped'))
    this.#closing = true
    if (standing(this.#chat.state).turn) this.#interrupt()
    else void this.#kill()
  }

  #interrupt (): void {
    // A second one might meet the next turn.
    if (this.#chat.state.interrupt) return
    this.#feed([{ input: { type: 'interrupt' } }])
    this.#input.post(interruptRequest(this.#init.options.newId()))
  }

  /** Ends the process and all of its group; the rest follows from its exit. */
  async #kill (): Promise<void> {
    this.#closing = true
    this.#ending ??= (async () => {
      this.#feed([{ input: { type: 'stop' } }])
      this.#stop.abort(new Error('the chat was stopped'))
      const cli = await this.#cli.promise
      await cli?.end(this.#init.graceMs)
    })()
    await this.#ending
  }

  #accept (content: Block[], now: boolean): string {
    if (this.#closing || this.#stop.signal.aborted) throw refuse('RUN_SETTLED', { id: this.run.id })
    checkNoCommand(this.run.spec.toolFilter, content, '/content')
    const id = this.#init.options.newId()
    this.run.append('run/message', { messageId: id, content, from: 'host' })
    const interrupts = now && standing(this.#chat.state).turn
    // One that comes after a held one does not overtake it.
    if (interrupts || this.#held.length > 0) this.#held.push({ id, content })
    else this.#say(id, content, false)
    if (interrupts) this.#interrupt()
    return id
  }

  /** A user line; the first one is the task (D1, D2). */
  #say (uuid: string, content: Block[], first: boolean): void {
    const priority = first ? {} : { priority: priorityOf(this.#chat.state) }
    this.#feed([{ input: { type: 'sent', uuid, content } }])
    this.#input.post(userLine({ uuid, content, ...priority }))
  }

  /** D6. One that stops with its chat needs no word of its own. */
  #stopChild (child: ChildRef): void {
    queueMicrotask(() => { if (!this.#stop.signal.aborted) this.#stops.stop(child) })
  }
}
