import { isObject } from '../core/json.ts'
import type { ModelMessage } from '../core/fold.ts'
import type { ModelReply } from '../core/model.ts'
import { errorObjectFault, modelFault, UpstreamFault } from './faults.ts'
import { count, createCallIds, ReplyParts, string, type Draft, type ReplyDecoder, type Stop } from './reply-parts.ts'

const COUNTED = [
  'input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens', 'output_tokens_details'
] as const

/** Reads a message of the messages API, streamed or whole. Blocks of the vendor's own server tools are passed over. */
export class AnthropicDecoder implements ReplyDecoder {
  readonly parts: ReplyParts
  readonly #callId: (given: unknown) => string
  readonly #blocks = new Map<unknown, { draft: Draft, input?: unknown }>()
  #calls = 0
  #stopReason: string | undefined
  readonly #usage: Partial<Record<(typeof COUNTED)[number], unknown>> = {}

  constructor (messages: readonly ModelMessage[], maxBytes: number) {
    this.parts = new ReplyParts(maxBytes)
    this.#callId = createCallIds(messages)
  }

  get ended (): boolean { return this.#stopReason !== undefined }

  take (event: unknown): void {
    if (!isObject(event)) throw modelFault('sent an event that is not an object', true)
    switch (event.type) {
      case 'message_start':
        if (isObject(event.message)) this.#count(event.message.usage)
        return
      case 'content_block_start':
        if (isObject(event.content_block)) this.#open(event.index, event.content_block)
        return
      case 'content_block_delta':
        if (isObject(event.delta)) this.#delta(event.index, event.delta)
        return
      case 'content_block_stop': return this.#close(event.index)
      case 'message_delta':
        this.#count(event.usage)
        if (isObject(event.delta) && string(event.delta.stop_reason) !== '') this.#stopReason = string(event.delta.stop_reason)
        return
      case 'error': throw new UpstreamFault(errorObjectFault(event))
      default:
    }
  }

  takeWhole (body: unknown): void {
    if (isObject(body) && (body.type === 'error' || isObject(body.error))) throw new UpstreamFault(errorObjectFault(body))
    if (!isObject(body) || !Array.isArray(body.content)) throw modelFault('sent JSON that is not a message', false)
    this.#count(body.usage)
    for (const [index, block] of body.content.entries()) {
      if (!isObject(block)) continue
      this.#open(index, block)
      this.#close(index)
    }
    this.#stopReason = string(body.stop_reason) || (body.content.length === 0 ? undefined : 'end_turn')
  }

  reply (): Omit<ModelReply, 'model'> {
    if (this.#stopReason === undefined) {
      throw modelFault(this.parts.empty ? 'sent an empty answer' : 'failed: the stream ended early', true)
    }
    if (this.#stopReason === 'pause_turn') {
      throw modelFault('paused its turn for a server tool (pause_turn), which cannot be continued here', false)
    }
    for (const index of this.#blocks.keys()) this.#close(index)
    const stop = this.#stop()
    return { content: this.parts.finish(stop), usage: this.#total(), stop }
  }

  #stop (): Stop {
    switch (this.#stopReason) {
      case 'refusal': return 'refusal'
      case 'max_tokens':
      case 'model_context_window_exceeded': return 'max-tokens'
      default: return this.#calls > 0 ? 'tool-calls' : 'end'
    }
  }

  #open (index: unknown, block: Record<string, unknown>): void {
    switch (block.type) {
      case 'text': return this.#begin(index, { kind: 'text', text: '' }, string(block.text))
      case 'thinking': {
        const signature = string(block.signature)
        const thought: Draft = { kind: 'reasoning', text: '', ...(signature === '' ? {} : { signature }) }
        return this.#begin(index, thought, string(block.thinking))
      }
      case 'redacted_thinking': return this.#begin(index, { kind: 'reasoning', text: '', redacted: string(block.data) }, '')
      case 'tool_use': {
        this.#calls++
        const call: Draft = { kind: 'tool-arguments', text: '', toolCallId: this.#callId(block.id), name: string(block.name) }
        return this.#begin(index, call, '', block.input)
      }
      default:
    }
  }

  #begin (index: unknown, draft: Draft, text: string, input?: unknown): void {
    this.#blocks.set(index, { draft: this.parts.open(draft), input })
    this.parts.append(draft, text)
  }

  #delta (index: unknown, delta: Record<string, unknown>): void {
    const draft = this.#blocks.get(index)?.draft
    if (!draft) return
    switch (delta.type) {
      case 'text_delta': return this.parts.append(draft, string(delta.text))
      case 'thinking_delta': return this.parts.append(draft, string(delta.thinking))
      case 'input_json_delta': return this.parts.append(draft, string(delta.partial_json))
      case 'signature_delta':
        if (draft.kind === 'reasoning') draft.signature = (draft.signature ?? '') + string(delta.signature)
        return
      default:
    }
  }

  /** The input that stood in the block itself counts where no text of it was streamed. */
  #close (index: unknown): void {
    const block = this.#blocks.get(index)
    if (!block) return
    this.#blocks.delete(index)
    const { draft, input } = block
    if (draft.kind !== 'tool-arguments' || draft.text !== '' || input === undefined || input === null) return
    const given = typeof input === 'string' ? input : JSON.stringify(input)
    if (given !== '{}') this.parts.append(draft, given)
  }

  #count (usage: unknown): void {
    if (!isObject(usage)) return
    for (const key of COUNTED) if (usage[key] !== undefined && usage[key] !== null) this.#usage[key] = usage[key]
  }

  #total (): ModelReply['usage'] {
    const cachedInputTokens = count(this.#usage.cache_read_input_tokens)
    const cacheWriteTokens = count(this.#usage.cache_creation_input_tokens)
    const details = isObject(this.#usage.output_tokens_details) ? this.#usage.output_tokens_details : {}
    return {
      inputTokens: count(this.#usage.input_tokens) + cachedInputTokens + cacheWriteTokens,
      cachedInputTokens,
      cacheWriteTokens,
      outputTokens: count(this.#usage.output_tokens),
      reasoningTokens: count(details.thinking_tokens)
    }
  }
}
