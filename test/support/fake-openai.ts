import { argumentsOf, cut, type FakeProtocol, type FakeReply } from './fake-answers.ts'

const frame = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
const DONE = 'data: [DONE]\n\n'

const finishReason = (reply: FakeReply): string => {
  if (reply.stop === 'max-tokens') return 'length'
  if (reply.stop === 'refusal') return 'content_filter'
  return reply.calls?.length ? 'tool_calls' : 'stop'
}

const usageOf = ({ usage = {} }: FakeReply): object => ({
  prompt_tokens: usage.input ?? 10,
  completion_tokens: usage.output ?? 5,
  total_tokens: (usage.input ?? 10) + (usage.output ?? 5),
  prompt_tokens_details: { cached_tokens: usage.cached ?? 0, cache_write_tokens: usage.cacheWrite ?? 0 },
  completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 }
})

const chunk = (model: string, n: number, delta: object, finish: string | null = null): object => ({
  id: `chatcmpl-${n}`, object: 'chat.completion.chunk', created: 0, model, choices: [{ index: 0, delta, finish_reason: finish }]
})

/** The chat completions API. */
export const openai: FakeProtocol = {
  contextError: { status: 400, code: 'context_length_exceeded', message: 'This model\'s maximum context length is 8192 tokens.' },

  frames (reply, model, n) {
    const deltas: object[] = [{ role: 'assistant', content: '' }]
    if (reply.reasoning) deltas.push(...cut(reply.reasoning, 2).map((text) => ({ reasoning_content: text })))
    if (reply.text) deltas.push(...cut(reply.text, reply.pieces ?? 2).map((text) => ({ content: text })))
    for (const [index, call] of (reply.calls ?? []).entries()) {
      const id = call.id ?? `call_up_${n}_${index}`
      deltas.push({ tool_calls: [{ index, id, type: 'function', function: { name: call.name, arguments: '' } }] })
      deltas.push(...cut(argumentsOf(call), 2).map((text) => ({ tool_calls: [{ index, function: { arguments: text } }] })))
    }
    return [
      ...deltas.map((delta) => frame(chunk(model, n, delta))),
      frame(chunk(model, n, {}, finishReason(reply))),
      frame({ id: `chatcmpl-${n}`, object: 'chat.completion.chunk', created: 0, model, choices: [], usage: usageOf(reply) }),
      DONE
    ]
  },

  whole: (reply, model, n) => ({
    id: `chatcmpl-${n}`,
    object: 'chat.completion',
    created: 0,
    model,
    choices: [{
      index: 0,
      message: {
        role: 'assistant',
        content: reply.text ?? null,
        ...(reply.reasoning === undefined ? {} : { reasoning_content: reply.reasoning }),
        ...(reply.calls === undefined ? {} : {
          tool_calls: reply.calls.map((call, index) => ({
            id: call.id ?? `call_up_${n}_${index}`, type: 'function', function: { name: call.name, arguments: argumentsOf(call) }
          }))
        })
      },
      finish_reason: finishReason(reply)
    }],
    usage: usageOf(reply)
  }),

  opening: (text, model, n) => [frame(chunk(model, n, { role: 'assistant', content: '' })),
    frame(chunk(model, n, { content: text }))],
  delta: (text) => frame(chunk('m', 0, { content: text })),
  empty: () => [DONE],
  errorFrame: (message) => frame({ error: { message, type: 'server_error', code: 'overloaded' } }),
  errorBody: (type, message, code) => ({ error: { message, type, param: null, code: code ?? null } })
}
