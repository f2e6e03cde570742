import { isObject } from '../core/json.ts'
import type { ModelMessage } from '../core/fold.ts'
import type { ModelReply } from '../core/model.ts'
import { errorObjectFault, modelFault, UpstreamFault } from './faults.ts'
import { count, createCallIds, ReplyParts, string, type Draft, type ReplyDecoder, type Stop } from './reply-parts.ts'

type CallDraft = Extract<Draft, { kind: 'tool-arguments' }>

/** Reads a chat completion, streamed or whole, and what compatible servers make of it. */
export class OpenAiChatDecoder implements ReplyDecoder {
  readonly parts: ReplyParts
  readonly #callId: (given: unknown) => string
  readonly #calls: { index: number | undefined, id: string, draft: CallDraft }[] = []
  #finish: string | undefined
  #refused = false
  #usage: ModelReply['usage'] = usageOf(undefined)

  constructor (messages: readonly ModelMessage[], maxBytes: number) {
    this.parts = new ReplyParts(maxBytes)
    this.#callId = createCallIds(messages)
  }

  get ended (): boolean { return this.#finish !== undefined }

  take (event: unknown): void {
    if (!isObject(event)) throw modelFault('sent an event that is not an object', true)
    if (isObject(event.usage)) this.#usage = usageOf(event.usage)
    const choice = firstChoice(event.choices)
    if (!choice) return
    const delta = choice.delta ?? choice.message
    if (isObject(delta)) this.#message(delta)
    if (string(choice.finish_reason) !== '') this.#finish = string(choice.finish_reason)
  }

  takeWhole (body: unknown): void {
    if (isObject(body) && body.error !== undefined && body.error !== null) throw new UpstreamFault(errorObjectFault(body))
    if (!isObject(body) || !Array.isArray(body.choices)) throw modelFault('sent JSON that is not a chat completion', false)
    this.take(body)
    const choice = firstChoice(body.choices)
    if (choice && isObject(choice.message)) this.#finish ??= 'stop'
  }

  reply (): Omit<ModelReply, 'model'> {
    if (this.#finish === undefined) {
      throw modelFault(this.parts.empty ? 'sent an empty answer' : 'failed: the stream ended early', true)
    }
    const stop = this.#stop()
    return { content: this.parts.finish(stop), usage: this.#usage, stop }
  }

  #stop (): Stop {
    if (this.#refused || this.#finish === 'content_filter') return 'refusal'
    if (this.#finish === 'length') return 'max-tokens'
    return this.#calls.length > 0 ? 'tool-calls' : 'end'
  }

  #message (delta: Record<string, unknown>): void {
    this.parts.write('reasoning', string(delta.reasoning_content) || string(delta.reasoning))
    this.#content(delta.content)
    if (string(delta.refusal) !== '') {
      this.#refused = true
      this.parts.writeOne('text', string(delta.refusal))
    }
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) if (isObject(call)) this.#call(call)
  }

  /** A text, or the list of parts that some servers send. */
  #content (content: unknown): void {
    if (!Array.isArray(content)) return this.parts.writeOne('text', string(content))
    for (const part of content) {
      if (!isObject(part)) continue
      if (part.type === 'text') this.parts.writeOne('text', string(part.text))
      if (part.type === 'thinking' && Array.isArray(part.thinking)) {
        for (const thought of part.thinking) if (isObject(thought)) this.parts.write('reasoning', string(thought.text))
      }
    }
  }

  #call (call: Record<string, unknown>): void {
    const said = isObject(call.function) ? call.function : {}
    const draft = this.#draftOf(call, said)
    if (draft.name === '') draft.name = string(said.name)
    this.parts.append(draft, typeof said.arguments === 'object' && said.arguments !== null
      ? JSON.stringify(said.arguments)
      : string(said.arguments))
  }

  /** Goes by the index. Without one, or where a server gives all calls the same, a new id opens a new call. */
  #draftOf (call: Record<string, unknown>, said: Record<string, unknown>): CallDraft {
    const id = string(call.id)
    const index = typeof call.index === 'number' ? call.index : undefined
    const known = index === undefined ? this.#calls.at(-1) : this.#calls.findLast((open) => open.index === index)
    const name = string(said.name)
    // Servers that number every call alike and give no ids still name each.
    const renamed = id === '' && name !== '' && known !== undefined && known.draft.name !== '' && known.draft.name !== name
    const opens = id !== '' ? id !== known?.id && name !== '' : index === undefined && name !== ''
    if (known && !renamed && !(opens && (known.id !== '' || index === undefined))) return known.draft
    const draft: CallDraft = { kind: 'tool-arguments', text: '', toolCallId: this.#callId(id), name: string(said.name) }
    this.parts.open(draft)
    this.#calls.push({ index, id, draft })
    return draft
  }
}

function firstChoice (choices: unknown): Record<string, unknown> | undefined {
  const objects = Array.isArray(choices) ? choices.filter(isObject) : []
  return objects.find((choice) => choice.index === 0 || choice.index === undefined)
}

function usageOf (usage: unknown): ModelReply['usage'] {
  const given = isObject(usage) ? usage : {}
  const input = isObject(given.prompt_tokens_details) ? given.prompt_tokens_details : {}
  const output = isObject(given.completion_tokens_details) ? given.completion_tokens_details : {}
  return {
    inputTokens: count(given.prompt_tokens),
    cachedInputTokens: count(input.cached_tokens ?? given.prompt_cache_hit_tokens),
    cacheWriteTokens: count(input.cache_write_tokens),
    outputTokens: count(given.completion_tokens),
    reasoningTokens: count(output.reasoning_tokens)
  }
}
