import { outcome } from '../../core/errors.ts'
import { text, type Block, type ModelStop, type NewEvent, type Outcome } from '../../core/events.ts'
import type { DeltaKind } from '../../core/deltas.ts'
import { MOST_SEEN, MOST_WAITING, MOST_WAITING_TEXT } from './bounds.ts'
import {
  idIn, keyOf, modelError, modelStopOf, nameIn, NO_TOKENS, objectIn, partIn, partSize, partsIn, sizeOf, stringIn, tokensIn, tokensSince, usageOf,
  type Call, type CallResult, type Tokens
} from './frames.ts'
import { blockAt, emptyMessage, isFull, signed, withBlock, withPart, withText, type Message } from './message.ts'
import { emptyMap, find, put, valuesOf, without, type PersistentMap } from './persistent-map.ts'
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
  /** Calls of the logged step without a result, by their ids. */
  readonly calls: PersistentMap<OpenCall>
  readonly stepping: boolean
  /** User messages that wait for the step's results. */
  readonly waiting: readonly UserMessage[]
  /** Characters of those. */
  readonly waitingSize: number
  /** Id of the last message that came as deltas: a late frame of it brings no text. */
  readonly streamed: string | undefined
  /** The last message in the log, and what of its tokens is counted: the CLI may go on with it. */
  readonly counted: { readonly id: string, readonly tokens: Tokens } | undefined
  /** Keys of the last frames: one that comes twice counts once. */
  readonly seen: readonly string[]
  /** The last text said. */
  readonly said: string
}

export interface UserMessage { readonly content: Block[], readonly messageId?: string }

/** `n`: its place among the calls of its step. */
interface OpenCall { readonly toolCallId: string, readonly name: string, readonly n: number }

/** Where a transcript says what became of it. */
export interface Out {
  log (event: NewEvent): void
  begun (step: number): void
  delta (kind: DeltaKind, text: string, toolCallId?: string): void
}

export const emptyTranscript = (turn = 0): Transcript => ({
  turn, open: false, step: 0, message: undefined, calls: emptyMap(), stepping: false, waiting: [], waitingSize: 0, streamed: undefined, counted: undefined,
  seen: [], said: ''
})

export function beginTurn (t: Transcript, out: Out, origin: 'task' | 'message' | 'service'): Transcript {
  out.log({ type: 'turn/start', data: { turn: t.turn + 1, origin } })
  return { ...t, turn: t.turn + 1, open: true, step: 0 }
}

/** Ids of the calls that have no result yet. */
export const openCalls = ({ calls, message }: Transcript): string[] => [...valuesOf(calls), ...message ? valuesOf(message.calls) : []]
  .flatMap(({ toolCallId }) => message && find(message.results, toolCallId) ? [] : [toolCallId])

/** How many those are. */
export const openCallCount = ({ calls, message }: Transcript): number => calls.size + (message ? message.calls.size - message.results.size : 0)

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
  const id = idIn(said, 'id')
  const local = said['model'] === '<synthetic>' || stringIn(frame, 'local_command_source') !== undefined
  const error = nameIn(frame, 'error')
  const { parts, calls } = partsIn(said)
  let log = t.message && (local || !isSame(t.message, id)) ? endMessage(t, out) : t
  const fresh = new Map<string, Call>()
  for (const call of calls) if (!isKnown(log, call.toolCallId) && !fresh.has(call.toolCallId)) fresh.set(call.toolCallId, call)
  const told = !local && (log.message?.streamed === true || (id !== undefined && id === log.streamed))
  const unsaid = new Set(fresh.keys())
  const added = parts.filter((part) => part.type === 'tool-call' ? unsaid.delete(part.toolCallId) : !told)
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
      calls: fresh.values().reduce((known, call) => put(known, call.toolCallId, call), message.calls),
      size: added.reduce((size, part) => size + partSize(part), message.size),
      tokens: tokensIn(said, message.tokens),
      stop: nameIn(said, 'stop_reason') ?? message.stop,
      error: error ?? message.error
    }
  }
  // A local command's reply waits: what the user typed may be told after it, and belongs before it.
  const whole = !local && !message.streamed && nameIn(said, 'stop_reason') !== undefined
  return [whole ? endMessage(log, out) : fitting(log, out), [...fresh.values()]]
}

const isKnown = ({ calls, message }: Transcript, id: string): boolean =>
  find(calls, id) !== undefined || (message !== undefined && find(message.calls, id) !== undefined)

/** A message that is too long is logged so far, and goes on in the next. */
function fitting (t: Transcript, out: Out): Transcript {
  const { message } = t
  if (!message || !isFull(message)) return t
  const log = endMessage(t, out)
  return message.streamed ? { ...log, message: { ...opened(log, out, message.id, true), model: message.model } } : log
}

const isSame = (message: Message, id: string | undefined): boolean =>
  message.id === undefined || id === undefined ? message.streamed : message.id === id

function opened (t: Transcript, out: Out, id: string | undefined, streamed = false): Message {
  out.begun(t.step + 1)
  return emptyMessage(id, streamed, id !== undefined && t.counted?.id === id ? t.counted.tokens : NO_TOKENS)
}

/** An event of the model's own stream. */
export function takeStream (t: Transcript, out: Out, event: Frame): Transcript {
  switch (event['type']) {
    case 'message_start': {
      const said = objectIn(event, 'message')
      const log = endMessage(t, out)
      const message = opened(log, out, idIn(said, 'id'), true)
      return { ...log, message: { ...message, model: nameIn(said, 'model'), tokens: tokensIn(said, message.tokens) } }
    }
    case 'content_block_start': {
      const block = objectIn(event, 'content_block')
      const id = block['type'] === 'tool_use' ? idIn(block, 'id') : undefined
      if (id !== undefined) return streaming(t, out, (m) => ({ ...m, blocks: withBlock(m, event['index'], id) }))
      const part = partIn(block)
      if (!part || part.type === 'tool-call') return t
      if (part.text !== '') return grow(t, out, event['index'], part.type, part.text)
      return streaming(t, out, (m) => withPart(m, event['index'], part))
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
    case 'signature_delta': return t.message === undefined ? t : streaming(t, out, (m) => signed(m, index, written('signature')))
    case 'input_json_delta': {
      const id = t.message && blockAt(t.message, index)
      if (typeof id === 'string' && written('partial_json') !== '') out.delta('tool-arguments', written('partial_json'), id)
      return t
    }
    default: return t
  }
}

function grow (t: Transcript, out: Out, index: unknown, type: 'text' | 'reasoning', more: string): Transcript {
  if (more === '') return t
  const grown = streaming(t, out, (m) => withText(m, index, type, more))
  out.delta(type, more)
  return grown
}

/** Deltas of a message whose start was lost begin one. A message that came whole is over when deltas come. */
function streaming (t: Transcript, out: Out, change: (message: Message) => Message): Transcript {
  const log = t.message && !t.message.streamed ? endMessage(t, out) : fitting(t, out)
  return { ...log, message: change(log.message ?? opened(log, out, undefined, true)) }
}

/** Logs the message so far: a step with its calls, and what already answers them. */
export function endMessage (t: Transcript, out: Out, aborted = false): Transcript {
  const { message } = t
  if (!message) return t
  const tokens = tokensSince(message.tokens, message.before)
  const rest = { ...t, message: undefined, streamed: message.streamed ? message.id : t.streamed }
  const parts = message.parts.filter((part) => part.type === 'tool-call' || part.text !== '' || (part.type === 'reasoning' && part.redacted !== undefined))
  if (parts.length === 0 && message.error === undefined && tokens.output === 0) return rest
  const log = closeStep(rest, out, 'Error: no result came before the next message')
  const step = log.step + 1
  const error = message.error === undefined ? undefined : modelError(message.error)
  const stop: ModelStop = error ? 'error' : aborted ? 'aborted' : modelStopOf(message.stop, message.calls.size > 0)
  out.log({ type: 'step/start', data: { turn: log.turn, step, attempt: 1 } })
  const usage = usageOf(tokens, 1)
  out.log({ type: 'assistant/message', data: { content: parts, usage, model: message.model ?? 'unknown', stop, ...(error ? { error } : {}) } })
  const made = parts.flatMap((part) => part.type === 'tool-call' ? find(message.calls, part.toolCallId) ?? [] : [])
  for (const { toolCallId, name, input } of made) {
    out.log({ type: 'tool/call', data: { toolCallId, name, input, executor: 'service', idempotent: false } })
  }
  const said = parts.map((part) => part.type === 'text' ? part.text : '').join('') || log.said
  const calls = made.reduce((open, { toolCallId, name }, n) => put(open, toolCallId, { toolCallId, name, n }), emptyMap<OpenCall>())
  const counted = message.id === undefined ? t.counted : { id: message.id, tokens: message.tokens }
  const stepped = { ...log, step, stepping: true, calls, said, counted }
  const results = made.flatMap(({ toolCallId }) => find(message.results, toolCallId) ?? [])
  return results.reduce((next, result) => answer(next, out, result), made.length === 0 ? closeStep(stepped, out, '') : stepped)
}

/** A call's result; `false` where no call waits for it. */
export function takeResult (t: Transcript, out: Out, result: CallResult): [Transcript, taken: boolean] {
  const { message } = t
  const { toolCallId } = result
  if (!message || find(message.calls, toolCallId) === undefined) return find(t.calls, toolCallId) ? [answer(t, out, result), true] : [t, false]
  if (!message.streamed) return [answer(endMessage(t, out), out, result), true]
  if (find(message.results, toolCallId)) return [t, false]
  const results = put(message.results, toolCallId, result)
  return [fitting({ ...t, message: { ...message, results, size: message.size + sizeOf(result.content) } }, out), true]
}

function answer (t: Transcript, out: Out, { toolCallId, content, isError }: CallResult): Transcript {
  const call = find(t.calls, toolCallId)
  if (!call) return t
  out.log({ type: 'tool/result', data: { toolCallId, name: call.name, content, isError } })
  const calls = without(t.calls, toolCallId)
  return calls.size === 0 ? closeStep({ ...t, calls }, out, '') : { ...t, calls }
}

/** Ends the step; a call without a result gets `unanswered` as its own. Then comes what was said meanwhile. */
function closeStep (t: Transcript, out: Out, unanswered: string): Transcript {
  if (!t.stepping) return t
  for (const { toolCallId, name } of valuesOf(t.calls).toSorted((a, b) => a.n - b.n)) {
    out.log({ type: 'tool/result', data: { toolCallId, name, content: [text(unanswered)], isError: true } })
  }
  out.log({ type: 'step/end', data: { turn: t.turn, step: t.step } })
  for (const data of t.waiting) out.log({ type: 'user/message', data })
  return { ...t, calls: emptyMap(), stepping: false, waiting: [], waitingSize: 0 }
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
  const log = t.message?.calls.size === 0 ? endMessage(t, out) : t
  if (log.stepping || log.message) {
    const waitingSize = log.waitingSize + sizeOf(said.content)
    if (log.waiting.length >= MOST_WAITING || waitingSize > MOST_WAITING_TEXT) return log
    return { ...log, waiting: [...log.waiting, said], waitingSize }
  }
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
  return { ...log, open: false, step: 0, waiting: [], waitingSize: 0, streamed: undefined }
}
