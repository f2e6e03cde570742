import type { AssistantPart } from '../core/events.ts'
import type { ModelMessage } from '../core/fold.ts'
import type { ModelReply, ModelStreamEvent } from '../core/model.ts'
import { modelFault } from './faults.ts'
import { isObjectText } from './json-text.ts'

export type DeltaEvent = Extract<ModelStreamEvent, { type: 'delta' }>
export type Stop = ModelReply['stop']

/** A part of the message while it is being written. */
export type Draft =
  | { kind: 'text', text: string }
  | { kind: 'reasoning', text: string, signature?: string, redacted?: string }
  | { kind: 'tool-arguments', text: string, toolCallId: string, name: string }

/** Reads one answer of a model server. `take` and `reply` throw an `UpstreamFault` for what is no answer. */
export interface ReplyDecoder {
  readonly parts: ReplyParts
  /** One event of a stream. */
  take (event: unknown): void
  /** The whole answer of a server that does not stream. */
  takeWhole (body: unknown): void
  /** The event came after which nothing of the message follows. */
  readonly ended: boolean
  reply (): Omit<ModelReply, 'model'>
}

/** The parts of one answer, in the order in which they began, and the deltas that tell of them. Bounded by `maxBytes`. */
export class ReplyParts {
  readonly #drafts: Draft[] = []
  readonly #maxBytes: number
  #bytes = 0
  #deltas: DeltaEvent[] = []

  constructor (maxBytes: number) { this.#maxBytes = maxBytes }

  get last (): Draft | undefined { return this.#drafts.at(-1) }

  open (draft: Draft): Draft {
    this.#drafts.push(draft)
    return draft
  }

  /** Throws an `UpstreamFault` past the cap. */
  append (draft: Draft, text: string): void {
    if (text === '') return
    this.#bytes += Buffer.byteLength(text)
    if (this.#bytes > this.#maxBytes) throw modelFault(`sent an answer larger than ${this.#maxBytes} bytes`, false)
    draft.text += text
    this.#deltas.push(draft.kind === 'tool-arguments'
      ? { type: 'delta', kind: draft.kind, text, toolCallId: draft.toolCallId }
      : { type: 'delta', kind: draft.kind, text })
  }

  /** Appends to the last part if it is of this kind, else to a new one. */
  write (kind: 'text' | 'reasoning', text: string): void {
    if (text === '') return
    this.append(this.last?.kind === kind ? this.last : this.open({ kind, text: '' }), text)
  }

  /** Appends to the first part of this kind: of an API whose message has one text, thoughts between its pieces or not. */
  writeOne (kind: 'text' | 'reasoning', text: string): void {
    if (text === '') return
    this.append(this.#drafts.find((draft) => draft.kind === kind) ?? this.open({ kind, text: '' }), text)
  }

  /** The deltas since the last call. */
  drain (): DeltaEvent[] {
    const deltas = this.#deltas
    if (deltas.length > 0) this.#deltas = []
    return deltas
  }

  get empty (): boolean { return this.#drafts.length === 0 }

  /**
   * The finished message. Calls without arguments get `{}`. Of an answer that was cut off, calls that were half written are
   * dropped; of a refused one, all.
   */
  finish (stop: Stop): AssistantPart[] {
    return this.#drafts.flatMap((draft): AssistantPart[] => {
      const { text } = draft
      switch (draft.kind) {
        case 'text': return text === '' ? [] : [{ type: 'text', text }]
        case 'reasoning': {
          const { signature, redacted } = draft
          const proof = { ...(signature === undefined ? {} : { signature }), ...(redacted === undefined ? {} : { redacted }) }
          return text === '' && Object.keys(proof).length === 0 ? [] : [{ type: 'reasoning', text, ...proof }]
        }
        case 'tool-arguments':
          if (stop === 'refusal' || (stop === 'max-tokens' && !isObjectText(text))) return []
          return [{ type: 'tool-call', toolCallId: draft.toolCallId, name: draft.name, arguments: text === '' ? '{}' : text }]
        default: return draft satisfies never
      }
    })
  }
}

/**
 * Names tool calls: the upstream's id where it is given and new to the conversation, else one made from the place of the
 * call in it, so that ids are unique (http-api.md 7.1) and the same answer gets the same ids.
 */
export function createCallIds (messages: readonly ModelMessage[]): (given: unknown) => string {
  let used: Set<string> | undefined
  let minted = 0
  return (given) => {
    used ??= idsOf(messages)
    let id = typeof given === 'string' ? given : ''
    while (id === '' || used.has(id)) id = `call_${messages.length}_${minted++}`
    used.add(id)
    return id
  }
}

function idsOf (messages: readonly ModelMessage[]): Set<string> {
  const ids = new Set<string>()
  for (const message of messages) {
    if (message.role !== 'assistant') continue
    for (const part of message.content) if (part.type === 'tool-call') ids.add(part.toolCallId)
  }
  return ids
}

export const count = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
export const string = (value: unknown): string => typeof value === 'string' ? value : ''
