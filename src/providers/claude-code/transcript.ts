import { outcome } from '../../core/errors.ts'
import { text, type AssistantPart, type Block, type ModelStop, type NewEvent, type Outcome } from '../../core/events.ts'
import type { DeltaKind } from '../../core/deltas.ts'
import {
  keyOf, modelError, modelStopOf, nameIn, NO_TOKENS, objectIn, partIn, partsIn, stringIn, tokensIn, usageOf,
  type Call, type CallResult, type Tokens
} from './frames.ts'
import type { ChildReason, Frame } from './vocabulary.ts'

/**
 * One log in the making, the chat's or a child's. The CLI tells a message in pieces and runs its calls before it has ended;
 * the log gets it whole: message, calls, results, and only then what was said meanwhile (driver.md 2.6).
 */
export interface Transcript {
  /** Turns so far; the last one is open where `open` says so. */
  readonly turn: number
  readonly open: boolean
  readonly step: number
  readonly message: Message | undefined
  /** Calls of the logged step without a result. */
  readonly calls: readonly Call[]
  readonly stepping: boolean
  /** User messages that wait for the step's results. */
  readonly waiting: readonly UserMessage[]
  /** Id of the last message that came as deltas: a late frame of it brings no text. */
  readonly streamed: string | undefined
  /** Keys of the last frames: one that comes twice counts once. */
  readonly seen: readonly string[]
  /** The last text said. */
  readonly said: string
}

export interface UserMessage { readonly content: Block[], readonly messageId?: string }

interface Message {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly parts: readonly AssistantPart[]
  readonly calls: readonly Call[]
  /** Results that came before the message had ended. */
  readonly results: readonly CallResult[]
  /** Where the text of a streamed block stands in `parts`, or which call it writes. */
  readonly blocks: ReadonlyMap<unknown, number | string>
  readonly streamed: boolean
  readonly tokens: Tokens
  readonly stop: string | undefined
  readonly error: string | undefined
}

/** Where a transcript says what became of it. */
export interface Out {
  log (event: NewEvent): void
  begun (step: number): void
  delta (kind: DeltaKind, text: string, toolCallId?: string): void
}

/** A message of more parts than any model writes is cut into several. */
const MOST_PARTS = 1000
const MOST_SEEN = 64

export const emptyTranscript = (turn = 0): Transcript =>
  ({ turn, open: false, step: 0, message: undefined, calls: [], stepping: false, waiting: [], streamed: undefined, seen: [], said: '' })

export function beginTurn (t: Transcript, out: Out, origin: 'task' | 'message' | 'service'): Transcript {
  out.log({ type: 'turn/start', data: { turn: t.turn + 1, origin } })
  return { ...t, turn: t.turn + 1, open: true, step: 0 }
}

/** Calls that have no result yet. */
export const openCalls = (t: Transcript): Call[] =>
  [...t.calls, ...(t.message?.calls.filter((call) => !t.message?.results.some((result) => result.toolCallId === call.toolCallId)) ?? [])]

/** Whether a frame came before; and the transcript that knows it did. */
export function see (t: Transcript, frame: Frame): [Transcript, again: boolean] {
  const key = keyOf(frame)
  if (key === undefined) return [t, false]
  if (t.seen.includes(key)) return [t, true]
  return [{ ...t, seen: [...t.seen.slice(1 - MOST_SEEN), key] }, false]
}

/** An assistant frame: its text where no deltas brought it (A4), its calls, tokens and error. Answers the calls that are new. */
export function takeAssistant (t: Transcript, out: Out, frame: Frame): [Transcript, Call[]] {
  const said = objectIn(frame, 'message')
  const id = nameIn(said, 'id')
  const local = said['model'] === '<synthetic>' || stringIn(frame, 'local_command_source') !== undefined
  const error = nameIn(frame, 'error')
  const { parts, calls } = partsIn(said)
  let log = t.message && (local || !isSame(t.message, id)) ? endMessage(t, out) : t
  const known = [...log.calls, ...log.message?.calls ?? []]
  const fresh = calls.filter((call, i) => !known.some((other) => other.toolCallId === call.toolCallId) &&
    calls.findIndex((other) => other.toolCallId === call.toolCallId) === i)
  const told = !local && (log.message?.streamed === true || (id !== undefined && id === log.streamed))
  const added = parts.filter((part) => part.type === 'tool-call' ? fresh.some((call) => call.toolCallId === part.toolCallId) : !told)
  if (added.length === 0 && log.message === undefined && error === undefined) return [log, []]
  const message = log.message ?? opened(log, out, id)
  for (const part of added) if (part.type !== 'tool-call') out.delta(part.type, part.text)
  log = {
    ...log,
    message: {
      ...message,
      id: message.id ?? id,
      model: nameIn(said, 'model') ?? message.model,
      parts: [...message.parts, ...added],
      calls: [...message.calls, ...fresh],
      tokens: tokensIn(said, message.tokens),
      stop: nameIn(said, 'stop_reason') ?? message.stop,
      error: error ?? message.error
    }
  }
  // A local command's reply waits: what the user typed may be told after it, and belongs before it.
  const whole = !local && !message.streamed && nameIn(said, 'stop_reason') !== undefined
  const ended = whole || (log.message?.parts.length ?? 0) > MOST_PARTS
  return [ended ? endMessage(log, out) : log, fresh]
}

const isSame = (message: Message, id: string | undefined): boolean =>
  message.id === undefined || id === undefined ? message.streamed : message.id === id

function opened (t: Transcript, out: Out, id: string | undefined, streamed = false): Message {
  out.begun(t.step + 1)
  return {
    id, model: undefined, parts: [], calls: [], results: [], blocks: new Map(), streamed, tokens: NO_TOKENS, stop: undefined, error: undefined
  }
}

/** An event of the model's own stream. */
export function takeStream (t: Transcript, out: Out, event: Frame): Transcript {
  switch (event['type']) {
    case 'message_start': {
      const said = objectIn(event, 'message')
      const log = endMessage(t, out)
      const message = opened(log, out, nameIn(said, 'id'), true)
      return { ...log, message: { ...message, model: nameIn(said, 'model'), tokens: tokensIn(said) } }
    }
    case 'content_block_start': {
      const block = objectIn(event, 'content_block')
      const id = block['type'] === 'tool_use' ? nameIn(block, 'id') : undefined
      if (id !== undefined) return streaming(t, out, (m) => ({ ...m, blocks: withBlock(m, event['index'], id) }))
      const part = partIn(block)
      if (!part || part.type === 'tool-call') return t
      if (part.text !== '') return grow(t, out, event['index'], part.type, part.text)
      return streaming(t, out, (m) => ({ ...m, parts: [...m.parts, part], blocks: withBlock(m, event['index'], m.parts.length) }))
    }
    case 'content_block_delta': return takeDelta(t, out, event['index'], objectIn(event, 'delta'))
    case 'message_delta': return t.message === undefined
      ? t
      : streaming(t, out, (m) => ({ ...m, tokens: tokensIn(event, m.tokens), stop: nameIn(objectIn(event, 'delta'), 'stop_reason') ?? m.stop }))
    case 'message_stop': return t.message?.streamed === true ? endMessage(t, out) : t
    default: return t
  }
}

function takeDelta (t: Transcript, out: Out, index: unknown, delta: Frame): Transcript {
  const written = (key: string): string => stringIn(delta, key) ?? ''
  switch (delta['type']) {
    case 'text_delta': return grow(t, out, index, 'text', written('text'))
    case 'thinking_delta': return grow(t, out, index, 'reasoning', written('thinking'))
    case 'signature_delta': {
      const at = t.message?.blocks.get(index)
      const part = typeof at === 'number' ? t.message?.parts[at] : undefined
      if (part?.type !== 'reasoning' || typeof at !== 'number') return t
      return streaming(t, out, (m) => ({ ...m, parts: m.parts.with(at, { ...part, signature: (part.signature ?? '') + written('signature') }) }))
    }
    case 'input_json_delta': {
      const id = t.message?.blocks.get(index)
      if (typeof id === 'string' && written('partial_json') !== '') out.delta('tool-arguments', written('partial_json'), id)
      return t
    }
    default: return t
  }
}

/** The text goes on in its own block; where that is unknown, in a new part. */
function grow (t: Transcript, out: Out, index: unknown, type: 'text' | 'reasoning', more: string): Transcript {
  if (more === '') return t
  const log = (t.message?.parts.length ?? 0) > MOST_PARTS ? endMessage(t, out) : t
  const grown = streaming(log, out, (m) => {
    const at = m.blocks.get(index)
    const part = typeof at === 'number' ? m.parts[at] : undefined
    if (typeof at === 'number' && part?.type === type) return { ...m, parts: m.parts.with(at, { ...part, text: part.text + more }) }
    return { ...m, parts: [...m.parts, { type, text: more }], blocks: withBlock(m, index, m.parts.length) }
  })
  out.delta(type, more)
  return grown
}

const withBlock = (m: Message, index: unknown, at: number | string): Message['blocks'] =>
  typeof index === 'number' || index === undefined ? new Map(m.blocks).set(index, at) : m.blocks

/** Deltas of a message whose start was lost begin one. A message that came whole is over when deltas come. */
function streaming (t: Transcript, out: Out, change: (message: Message) => Message): Transcript {
  const log = t.message && !t.message.streamed ? endMessage(t, out) : t
  return { ...log, message: change(log.message ?? opened(log, out, undefined, true)) }
}

/** Logs the message so far: a step with its calls, and what already answers them. */
export function endMessage (t: Transcript, out: Out, aborted = false): Transcript {
  const { message } = t
  if (!message) return t
  const rest = { ...t, message: undefined, streamed: message.streamed ? message.id : t.streamed }
  const parts = message.parts.filter((part) => part.type === 'tool-call' || part.text !== '' || (part.type === 'reasoning' && part.redacted !== undefined))
  if (parts.length === 0 && message.error === undefined && message.tokens.output === 0) return rest
  const log = closeStep(rest, out, 'Error: no result came before the next message')
  const step = log.step + 1
  const error = message.error === undefined ? undefined : modelError(message.error)
  const stop: ModelStop = error ? 'error' : aborted ? 'aborted' : modelStopOf(message.stop, message.calls.length > 0)
  out.log({ type: 'step/start', data: { turn: log.turn, step, attempt: 1 } })
  const usage = usageOf(message.tokens, 1)
  out.log({ type: 'assistant/message', data: { content: parts, usage, model: message.model ?? 'unknown', stop, ...(error ? { error } : {}) } })
  for (const { toolCallId, name, input } of message.calls) {
    out.log({ type: 'tool/call', data: { toolCallId, name, input, executor: 'service', idempotent: false } })
  }
  const said = parts.map((part) => part.type === 'text' ? part.text : '').join('') || log.said
  const stepped = { ...log, step, stepping: true, calls: message.calls, said }
  return message.results.reduce((next, result) => answer(next, out, result), message.calls.length === 0 ? closeStep(stepped, out, '') : stepped)
}

/** A call's result; `false` where no call waits for it. */
export function takeResult (t: Transcript, out: Out, result: CallResult): [Transcript, taken: boolean] {
  const { message } = t
  const waits = (call: Call): boolean => call.toolCallId === result.toolCallId
  if (message?.calls.some(waits)) {
    if (!message.streamed) return [answer(endMessage(t, out), out, result), true]
    if (message.results.some((other) => other.toolCallId === result.toolCallId)) return [t, false]
    return [{ ...t, message: { ...message, results: [...message.results, result] } }, true]
  }
  return t.calls.some(waits) ? [answer(t, out, result), true] : [t, false]
}

function answer (t: Transcript, out: Out, { toolCallId, content, isError }: CallResult): Transcript {
  const call = t.calls.find((other) => other.toolCallId === toolCallId)
  if (!call) return t
  out.log({ type: 'tool/result', data: { toolCallId, name: call.name, content, isError } })
  const calls = t.calls.filter((other) => other !== call)
  return calls.length === 0 ? closeStep({ ...t, calls }, out, '') : { ...t, calls }
}

/** Ends the step; a call without a result gets `unanswered` as its own. Then comes what was said meanwhile. */
function closeStep (t: Transcript, out: Out, unanswered: string): Transcript {
  if (!t.stepping) return t
  for (const { toolCallId, name } of t.calls) {
    out.log({ type: 'tool/result', data: { toolCallId, name, content: [text(unanswered)], isError: true } })
  }
  out.log({ type: 'step/end', data: { turn: t.turn, step: t.step } })
  for (const data of t.waiting) out.log({ type: 'user/message', data })
  return { ...t, calls: [], stepping: false, waiting: [] }
}

/**
 * A user's message: joins the log when the step under way has its results. `opening`: the turn's first; where nothing of the turn is
 * logged, it comes before what the turn is saying.
 */
export function takeUser (t: Transcript, out: Out, said: UserMessage, opening = false): Transcript {
  if (opening && t.step === 0 && t.waiting.length === 0) {
    out.log({ type: 'user/message', data: said })
    return t
  }
  const log = t.message?.calls.length === 0 ? endMessage(t, out) : t
  if (log.stepping || log.message) return { ...log, waiting: [...log.waiting, said] }
  out.log({ type: 'user/message', data: said })
  return log
}

/** Ends the open turn, balanced: no call stays without a result. */
export function endTurn (t: Transcript, out: Out, reason: ChildReason, error?: Outcome): Transcript {
  const log = closeStep(endMessage(t, out, reason === 'aborted'), out, 'Error: no result: the turn ended first')
  for (const data of log.waiting) out.log({ type: 'user/message', data })
  if (log.open) {
    const why = reason === 'error' ? error ?? outcome('MODEL_ERROR', 'the turn failed', false) : undefined
    out.log({ type: 'turn/end', data: { turn: log.turn, reason, ...(why ? { error: why } : {}) } })
  }
  return { ...log, open: false, step: 0, waiting: [], streamed: undefined }
}
