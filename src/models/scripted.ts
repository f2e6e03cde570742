import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { outcome } from '../core/errors.ts'
import type { AssistantPart, Outcome, ToolCallPart } from '../core/events.ts'
import type { Model, ModelReply, ModelRequest, ModelStreamEvent } from '../core/model.ts'
import { failureOf, statusFault, type Fault } from './faults.ts'
import { clip } from './json-text.ts'
import { sampleValue } from './sample-value.ts'
import { validateScript, type FailCode, type ScriptedCall, type ScriptedFailure, type ScriptStep } from './scripted-steps.ts'

/** The endpoint that is always there. */
export const SCRIPTED = 'scripted'

/** The embedded model: plays `script`, and answers from the task alone where there is none, or no step is left. */
export function createScripted (model: string): Model {
  const id = `${SCRIPTED}/${model}`
  return { id, kind: 'scripted', stream: (request, signal) => play(id, request, signal) }
}

/** One answer, ready to be streamed. */
interface Answer {
  reasoning: string
  /** The text in the pieces in which it is streamed, each after `pieceMs`. */
  pieces: string[]
  pieceMs: number
  calls: ToolCallPart[]
  stop: ModelReply['stop']
  /** In place of the reply. */
  fault?: Fault
  hangs?: boolean
}

async function * play (model: string, request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelStreamEvent, void, void> {
  const failed = (fault: Fault): ModelStreamEvent => ({ type: 'failure', failure: failureOf(fault, SCRIPTED, []) })
  const { step, faults } = stepOf(request)
  if (faults.length > 0) {
    return yield failed({ code: 'MODEL_ERROR', reason: `cannot play its script: ${faults.join('; ')}`, retryable: false })
  }
  const answer = step === undefined ? unscripted(request) : scripted(step, request)
  try {
    if (step?.delayMs) await wait(step.delayMs, undefined, { signal })
    yield * deltas(answer, signal)
    if (answer.hangs) await aborted(signal)
    signal.throwIfAborted()
  } catch (error) {
    if (!signal.aborted) throw error
    return yield failed({ code: 'MODEL_ERROR', reason: 'was left: the call was aborted', retryable: false })
  }
  if (answer.fault) return yield failed(answer.fault)
  yield { type: 'reply', reply: { content: contentOf(answer), usage: usageOf(request, answer, step), model, stop: answer.stop } }
}

/** Step N answers call N of the run. A script was judged when the run started; what is about to be played is judged again. */
function stepOf ({ script, call }: ModelRequest): { step?: ScriptStep, faults: string[] } {
  if (script === undefined) return { faults: [] }
  const faults = validateScript(Array.isArray(script) ? script.slice(call, call + 1) : script)
  const step = Array.isArray(script) && faults.length === 0 ? script[call] as ScriptStep | undefined : undefined
  return { faults, ...(step === undefined ? {} : { step }) }
}

/** Pieces that come in one go; then others have their turn. */
const BURST = 64

async function * deltas (answer: Answer, signal: AbortSignal): AsyncGenerator<ModelStreamEvent, void, void> {
  if (answer.reasoning !== '') yield { type: 'delta', kind: 'reasoning', text: answer.reasoning }
  for (const [index, text] of answer.pieces.entries()) {
    if (answer.pieceMs > 0) await wait(answer.pieceMs, undefined, { signal })
    else if (index % BURST === BURST - 1) await turn()
    signal.throwIfAborted()
    yield { type: 'delta', kind: 'text', text }
  }
  for (const call of answer.calls) {
    signal.throwIfAborted()
    yield { type: 'delta', kind: 'tool-arguments', text: call.arguments, toolCallId: call.toolCallId }
  }
}

/** Resolves when `signal` aborts. */
const aborted = (signal: AbortSignal): Promise<void> => new Promise((resolve) => {
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => resolve(), { once: true })
})

function scripted (step: ScriptStep, request: ModelRequest): Answer {
  const says = (text: string, stop: ModelReply['stop'] = 'end'): Answer =>
    ({ reasoning: step.reasoning ?? '', pieces: words(text), pieceMs: 0, calls: [], stop })
  if ('call' in step || 'calls' in step) {
    const calls = 'calls' in step ? step.calls : [step.call]
    return { ...says(step.say ?? '', 'tool-calls'), calls: calls.map((call, i) => callPart(call, request, i)) }
  }
  if ('hang' in step) return { ...says(step.say ?? ''), hangs: true }
  if ('say' in step) return says(step.say)
  if ('fail' in step) return { ...says(''), reasoning: '', fault: faultOf(step.fail) }
  if ('reset' in step) return { ...says(step.reset.after), fault: RESET }
  if ('slow' in step) {
    const { text, delayMs, deltas: pieces } = step.slow
    return { ...says(''), pieces: pieces === undefined ? words(text) : cut(text, pieces), pieceMs: delayMs }
  }
  if ('refuse' in step) return says(step.refuse, 'refusal')
  return says(step.maxTokens, 'max-tokens')
}

const RESET: Fault = { code: 'MODEL_ERROR', reason: 'reset the connection', retryable: true }
const STATUS: Record<FailCode, number> = { MODEL_ERROR: 503, MODEL_RATE_LIMITED: 429, MODEL_AUTH: 401, CONTEXT_TOO_LONG: 400 }

/** As a model server that answers with this status would fail; the step's own words win. */
function faultOf ({ code, status = STATUS[code ?? 'MODEL_ERROR'], message, retryAfterMs, retryable }: ScriptedFailure): Fault {
  const fault = statusFault(status, new Headers(), message ?? '', 0)
  const wanted: Outcome = code === undefined ? outcome(fault.code, '', fault.retryable) : outcome(code, '')
  return {
    ...fault,
    code: wanted.code,
    retryable: retryable ?? wanted.retryable,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs })
  }
}

/** So much of the task is repeated. */
const MAX_TASK = 2000
const STRUCTURED = 'structured_output'

/** A short answer made of the task; where a structured result is wanted, the smallest valid one, unless that failed before. */
function unscripted (request: ModelRequest): Answer {
  const last = request.messages.at(-1)
  const tool = request.tools.find(({ name }) => name === STRUCTURED)
  const rejected = last?.role === 'tool' && last.name === STRUCTURED && last.isError
  const value = tool && !rejected ? sampleValue(tool.inputSchema) : undefined
  if (value !== undefined) {
    const call = callPart({ name: STRUCTURED, input: value }, request, 0)
    return { reasoning: '', pieces: [], pieceMs: 0, calls: [call], stop: 'tool-calls' }
  }
  const task = request.messages.findLast((message) => message.role === 'user')?.content ?? []
  const said = task.map((block) => block.type === 'text' ? block.text : '[image]').join(' ').trim()
  return { reasoning: '', pieces: cut(`Scripted answer to: ${clip(said, MAX_TASK)}`, 8), pieceMs: 0, calls: [], stop: 'end' }
}

const callPart = (call: ScriptedCall, { messages }: ModelRequest, index: number): ToolCallPart => ({
  type: 'tool-call',
  toolCallId: call.id ?? `call_${messages.length}_${index}`,
  name: call.name,
  arguments: call.arguments ?? JSON.stringify(call.input ?? {})
})

/** Each with the white space after it. */
const words = (text: string): string[] => text === '' ? [] : text.split(/(?<=\s)(?=\S)/)

/** The text in at most `pieces` pieces: of whole words, or of characters where there are fewer words. */
function cut (text: string, pieces: number): string[] {
  const all = words(text)
  const units = all.length < pieces ? Array.from(text) : all
  const size = units.length / Math.min(pieces, units.length || 1)
  return Array.from({ length: Math.min(pieces, units.length) }, (_, i) =>
    units.slice(Math.round(i * size), Math.round((i + 1) * size)).join(''))
}

function contentOf ({ reasoning, pieces, calls }: Answer): AssistantPart[] {
  const text = pieces.join('')
  return [
    ...(reasoning === '' ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...calls
  ]
}

const CHARS_PER_TOKEN = 4
const tokens = (chars: number): number => Math.ceil(chars / CHARS_PER_TOKEN)

function usageOf (request: ModelRequest, answer: Answer, step: ScriptStep | undefined): ModelReply['usage'] {
  const sum = (lengths: number[]): number => lengths.reduce((a, b) => a + b, 0)
  const reasoningTokens = tokens(answer.reasoning.length)
  const written = sum([...answer.pieces, ...answer.calls.map((call) => call.name + call.arguments)].map((text) => text.length))
  const read = sum(request.system.map((section) => section.text.length)) +
    sum(request.messages.map(({ content }) => sum(content.map(partLength))))
  return {
    inputTokens: tokens(read),
    cachedInputTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: tokens(written) + reasoningTokens,
    reasoningTokens,
    ...step?.usage
  }
}

const partLength = (part: ModelRequest['messages'][number]['content'][number]): number => {
  switch (part.type) {
    case 'tool-call': return part.name.length + part.arguments.length
    case 'image': return 0
    default: return part.text.length
  }
}
