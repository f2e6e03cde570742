import type { RunResult, SessionEvent, SessionEventOf } from '../core/events.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import {
  agentAttributes, chatAttributes, FINISH_REASON, modelName, toolAttributes, usageAttributes, type Attributes, type ModelTarget
} from './gen-ai.ts'
import { spanIdOf, type SpanPlace } from './trace-context.ts'

/** A span that is over. Times are epoch ms. No prompt, output, argument or message of an error is in it. */
export interface FinishedSpan {
  name: string
  kind: 'internal' | 'client'
  spanId: string
  /** In the same trace; absent for a root. */
  parent?: { spanId: string, remote: boolean }
  start: number
  end: number
  attributes: Attributes
  failed: boolean
  links: readonly SpanPlace[]
}

export interface TracedRun {
  /** The run's own span. */
  place: SpanPlace
  parent?: { spanId: string, remote: boolean }
  /** Other traces that had to do with it. */
  links: readonly SpanPlace[]
  spec: RunSpec
  record: () => RunRecord
  target: (model: string) => ModelTarget
}

/** The span of a run, and of a call of a tool in it: known before it is over, and in any process. */
export const runSpanId = (tenant: string, id: string): string => spanIdOf('run', tenant, id)
export const toolSpanId = (tenant: string, runId: string, toolCallId: string): string => spanIdOf('tool', tenant, runId, toolCallId)

interface Step { step: number, turn: number, attempt: number, start: number, spanId: string }
interface Chat { attempt: number, step: Step, start: number, /** The step ended without an answer. */ end?: number }

/** What a tool is called in a span that the model made up, or that nobody can tell from that. */
const UNKNOWN = 'unknown'
/** A name or an id, rather than any text. */
const NAME = /^[\w.:-]{1,128}$/

/** Reads a run's spans off its log, event by event. Each is emitted once, when it is over. */
export class RunSpans {
  readonly #run: TracedRun
  readonly #emit: (span: FinishedSpan) => void
  readonly #calls = new Map<string, SessionEventOf<'tool/call'>>()
  /** Of the tools that the model was told of last. */
  #tools: ReadonlySet<string> = new Set()
  #step: Step | undefined
  #chat: Chat | undefined

  constructor (run: TracedRun, emit: (span: FinishedSpan) => void) {
    this.#run = run
    this.#emit = emit
  }

  note (event: SessionEvent): void {
    switch (event.type) {
      case 'step/start': return this.#begin(event)
      case 'run/retry':
        this.#endChat(event.time, { error: event.data.code })
        if (this.#step) this.#chat = { attempt: event.data.attempt + 1, step: this.#step, start: event.time + event.data.delayMs }
        return
      case 'assistant/message': return this.#answered(event)
      case 'request/header':
        this.#tools = new Set(event.data.tools.map(({ name }) => name))
        return
      case 'tool/call': return void this.#calls.set(event.data.toolCallId, event)
      case 'tool/result': return this.#toolEnded(event)
      case 'step/end': return this.#endStep(event.time)
      case 'turn/end': return this.#unanswered(event.data.error?.code)
      case 'run/settled': return this.#settled(event.time, event.data.result)
      default:
    }
  }

  #begin ({ time, data: { turn, step, attempt } }: SessionEventOf<'step/start'>): void {
    // A restart came between: nobody knows how the call ended.
    this.#unanswered('INTERRUPTED')
    const { tenant, id } = this.#run.record()
    this.#step = { turn, step, attempt, start: time, spanId: spanIdOf('step', tenant, id, turn, step, attempt) }
    this.#chat = { attempt, step: this.#step, start: time }
  }

  #answered ({ time, data: { usage, model, stop, error } }: SessionEventOf<'assistant/message'>): void {
    const cut = stop === 'error' || stop === 'aborted'
    const answer = cut ? {} : { 'gen_ai.response.model': modelName(model), ...usageAttributes(usage) }
    this.#endChat(time, {
      attributes: { ...answer, 'gen_ai.response.finish_reasons': [FINISH_REASON[stop]] },
      ...stop === 'error' ? { error: error?.code ?? 'MODEL_ERROR' } : {}
    })
  }

  #endStep (time: number): void {
    if (this.#chat) this.#chat.end = time
    const step = this.#step
    this.#step = undefined
    if (!step) return
    const { place } = this.#run
    this.#tell({
      name: `step ${step.step}`, spanId: step.spanId, parent: place.spanId, start: step.start, end: time,
      attributes: {
        'subagentd.step.number': step.step, 'subagentd.step.attempt': step.attempt, 'subagentd.step.turn': step.turn
      }
    })
  }

  /** What became of a call that no message answers is known when its turn ends. */
  #unanswered (error: string | undefined): void {
    const end = this.#chat?.end
    if (end !== undefined) this.#endChat(end, { error })
  }

  #endChat (time: number, { attributes, error }: { attributes?: Attributes, error?: string | undefined }): void {
    const chat = this.#chat
    this.#chat = undefined
    // A retry that was planned and never made.
    if (!chat || chat.start > time) return
    const { record, spec, target } = this.#run
    const { tenant, id, model } = record()
    this.#tell({
      name: `chat ${modelName(model)}`, kind: 'client', parent: chat.step.spanId, start: chat.start, end: time, error,
      spanId: spanIdOf('chat', tenant, id, chat.step.turn, chat.step.step, chat.attempt),
      attributes: {
        ...chatAttributes(model, spec, target(model)), 'gen_ai.response.finish_reasons': ['error'],
        'subagentd.step.attempt': chat.attempt, ...attributes
      }
    })
  }

  /** A call that was refused has a result and no beginning. */
  #toolEnded ({ time, data: { toolCallId, name, isError, ended, parent } }: SessionEventOf<'tool/result'>): void {
    const call = this.#calls.get(toolCallId)
    this.#calls.delete(toolCallId)
    const { tenant, id } = this.#run.record()
    // Here no call begins of a tool that there is not; what an external CLI calls is known from its calls alone.
    const known = (call !== undefined || this.#tools.has(name)) && NAME.test(name) ? name : UNKNOWN
    this.#tell({
      name: `execute_tool ${known}`, spanId: toolSpanId(tenant, id, toolCallId), start: call?.time ?? time, end: time,
      parent: parent === undefined ? this.#step?.spanId ?? this.#run.place.spanId : toolSpanId(tenant, id, parent),
      attributes: toolAttributes(known, NAME.test(toolCallId) ? toolCallId : undefined, call?.data.executor),
      error: isError ? ended ?? 'tool_error' : undefined
    })
  }

  #settled (time: number, { stopReason, error, usage }: RunResult): void {
    this.#unanswered(error?.code)
    const { record, target, place, parent, links } = this.#run
    const run = record()
    this.#emit({
      name: `invoke_agent ${run.provider}`, kind: 'internal', spanId: place.spanId, ...parent ? { parent } : {}, links,
      start: run.createdAt, end: time, failed: error !== undefined,
      attributes: {
        ...agentAttributes(run, target(run.model)), ...usageAttributes(usage), 'subagentd.run.stop_reason': stopReason,
        'subagentd.run.steps': usage.steps, ...error ? { 'error.type': error.code } : {}
      }
    })
  }

  #tell ({ parent, error, attributes, kind = 'internal', ...span }: {
    name: string, spanId: string, parent: string, start: number, end: number, attributes: Attributes
    kind?: FinishedSpan['kind'], error?: string | undefined
  }): void {
    this.#emit({
      ...span, kind, parent: { spanId: parent, remote: false }, links: [], failed: error !== undefined,
      attributes: { ...attributes, ...error === undefined ? {} : { 'error.type': error } }
    })
  }
}
