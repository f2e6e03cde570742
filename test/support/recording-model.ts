import { outcome } from '../../src/core/errors.ts'
import type { AssistantPart, OutcomeCode } from '../../src/core/events.ts'
import type { Model, ModelReply, ModelRequest, Models, ModelStreamEvent } from '../../src/core/model.ts'

/** What the model does at one call; gets what it was asked and the signal that it is to obey. */
export type Act = (request: ModelRequest, signal: AbortSignal) => Iterable<ModelStreamEvent> | AsyncIterable<ModelStreamEvent>

export interface Call { id?: string, name: string, /** The text as the model writes it. */ arguments?: string, input?: unknown }
type Tokens = Partial<ModelReply['usage']>

const NO_TOKENS = { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0 }

const reply = (content: AssistantPart[], stop: ModelReply['stop'], tokens: Tokens = {}): ModelStreamEvent =>
  ({ type: 'reply', reply: { content, stop, model: 'recording/one', usage: { ...NO_TOKENS, ...tokens } } })
const textParts = (text: string): AssistantPart[] => text === '' ? [] : [{ type: 'text', text }]
const textDeltas = (text: string): ModelStreamEvent[] => text === '' ? [] : [{ type: 'delta', kind: 'text', text }]

export const says = (text: string, more: { stop?: ModelReply['stop'], tokens?: Tokens } = {}): Act => () =>
  [...textDeltas(text), reply(textParts(text), more.stop ?? 'end', more.tokens)]

export const callsAll = (all: readonly Call[], more: { text?: string, tokens?: Tokens } = {}): Act => (request) => {
  const parts = all.map((call, i): AssistantPart => ({
    type: 'tool-call',
    toolCallId: call.id ?? `call_${request.call}_${i}`,
    name: call.name,
    arguments: call.arguments ?? JSON.stringify(call.input ?? {})
  }))
  return [...textDeltas(more.text ?? ''), reply([...textParts(more.text ?? ''), ...parts], 'tool-calls', more.tokens)]
}
export const calls = (name: string, input: unknown = {}): Act => callsAll([{ name, input }])

export const failure = (code: OutcomeCode, more: { retryable?: boolean, retryAfterMs?: number } = {}): ModelStreamEvent => ({
  type: 'failure',
  failure: {
    outcome: outcome(code, `the model failed: ${code}`, more.retryable),
    ...(more.retryAfterMs === undefined ? {} : { retryAfterMs: more.retryAfterMs })
  }
})
/** Fails, after `text` where one is given. */
export const fails = (code: OutcomeCode, more: { text?: string, retryable?: boolean, retryAfterMs?: number } = {}): Act => () =>
  [...textDeltas(more.text ?? ''), failure(code, more)]

/** Streams what is given, then nothing more until the call is aborted. */
export const hangs = (...before: ModelStreamEvent[]): Act => async function * (_, signal) {
  yield * before
  await aborted(signal)
  yield failure('MODEL_ERROR', { retryable: false })
}
export const delta = (text: string): ModelStreamEvent => ({ type: 'delta', kind: 'text', text })
export const argumentsDelta = (text: string): ModelStreamEvent => ({ type: 'delta', kind: 'tool-arguments', toolCallId: 'half', text })

const aborted = (signal: AbortSignal): Promise<void> => new Promise((resolve) => {
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => resolve(), { once: true })
})

export interface RecordingModels extends Models {
  /** In the order in which they came. */
  readonly requests: ModelRequest[]
  readonly signals: AbortSignal[]
  /** Resolves with request `n`, from 0, once all that the act streams before it hangs was read. */
  received (n: number): Promise<ModelRequest>
  /** Calls that are open now. */
  readonly open: number
  enqueue (...acts: Act[]): void
}

/** Models in process that do what they are told, call by call, and keep what they were asked. A call too many fails. */
export function createRecordingModels (...acts: Act[]): RecordingModels {
  const queue = [...acts]
  const requests: ModelRequest[] = []
  const signals: AbortSignal[] = []
  const waiting: { n: number, resolve: (request: ModelRequest) => void }[] = []
  const state = { open: 0 }

  async function * stream (request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelStreamEvent> {
    const n = requests.push({ ...request, messages: [...request.messages] }) - 1
    signals.push(signal)
    const act = queue.shift()
    state.open++
    try {
      for (const waiter of waiting) if (waiter.n === n) waiter.resolve(request)
      if (!act) yield failure('MODEL_ERROR', { retryable: false })
      else yield * act(request, signal)
    } finally {
      state.open--
    }
  }

  const model = (id: string): Model => ({ id, kind: 'scripted', stream })
  return {
    requests,
    signals,
    get open () { return state.open },
    enqueue: (...more) => { queue.push(...more) },
    received: (n) => new Promise((resolve) => {
      const request = requests[n]
      if (request) resolve(request)
      else waiting.push({ n, resolve })
    }),
    resolve: (name) => model(name.includes('/') ? name : `recording/${name}`),
    defaultModel: 'recording/one',
    list: () => [{ id: 'recording/one', endpoint: 'recording', kind: 'scripted', default: true }],
    close: () => Promise.resolve()
  }
}
