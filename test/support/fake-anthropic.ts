import { argumentsOf, cut, type FakeProtocol, type FakeReply } from './fake-answers.ts'

const frame = (data: { type: string }): string => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const stopReason = (reply: FakeReply): string => {
  if (reply.stop === 'max-tokens') return 'max_tokens'
  if (reply.stop === 'refusal') return 'refusal'
  return reply.calls?.length ? 'tool_use' : 'end_turn'
}

/** `input` counts the cached ones in, as ours do; this API counts them apart. */
const usageOf = ({ usage = {} }: FakeReply): object => ({
  input_tokens: (usage.input ?? 10) - (usage.cached ?? 0) - (usage.cacheWrite ?? 0),
  cache_read_input_tokens: usage.cached ?? 0,
  cache_creation_input_tokens: usage.cacheWrite ?? 0,
  output_tokens: usage.output ?? 5,
  output_tokens_details: { thinking_tokens: usage.reasoning ?? 0 }
})

const start = (model: string, n: number, reply: FakeReply): string => frame({
  type: 'message_start',
  message: {
    id: `msg_${n}`, type: 'message', role: 'assistant', model, content: [], stop_reason: null,
      usage: { ...usageOf(reply), output_tokens: 1 }
  }
} as { type: string })

const block = (index: number, content: object, deltas: object[]): string[] => [
  frame({ type: 'content_block_start', index, content_block: content } as { type: string }),
  ...deltas.map((delta) => frame({ type: 'content_block_delta', index, delta } as { type: string })),
  frame({ type: 'content_block_stop', index } as { type: string })
]

const callId = (reply: FakeReply, n: number, index: number): string => reply.calls?.[index]?.id ?? `toolu_up_${n}_${index}`

function blocks (reply: FakeReply, n: number): { content: object, deltas: object[] }[] {
  const all: { content: object, deltas: object[] }[] = []
  if (reply.reasoning !== undefined) {
    const thoughts = cut(reply.reasoning, 2).map((thinking) => ({ type: 'thinking_delta', thinking }))
    const deltas = [...thoughts, { type: 'signature_delta', signature: `sig-${n}` }]
    all.push({ content: { type: 'thinking', thinking: '', signature: '' }, deltas })
  }
  if (reply.text !== undefined) {
    const deltas = cut(reply.text, reply.pieces ?? 2).map((text) => ({ type: 'text_delta', text }))
    all.push({ content: { type: 'text', text: '' }, deltas })
  }
  for (const [index, call] of (reply.calls ?? []).entries()) {
    const deltas = cut(argumentsOf(call), 2).map((text) => ({ type: 'input_json_delta', partial_json: text }))
    all.push({ content: { type: 'tool_use', id: callId(reply, n, index), name: call.name, input: {} }, deltas })
  }
  return all
}

/** The messages API. */
export const anthropic: FakeProtocol = {
  contextError: { status: 400, message: 'prompt is too long: 213462 tokens > 200000 maximum' },

  frames: (reply, model, n) => [
    start(model, n, reply),
    frame({ type: 'ping' }),
    ...blocks(reply, n).flatMap(({ content, deltas }, index) => block(index, content, deltas)),
    frame({ type: 'message_delta', delta: { stop_reason: stopReason(reply), stop_sequence: null },
      usage: usageOf(reply) } as { type: string }),
    frame({ type: 'message_stop' })
  ],

  whole: (reply, model, n) => ({
    id: `msg_${n}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [
      ...(reply.reasoning === undefined ? [] : [{ type: 'thinking', thinking: reply.reasoning, signature: `sig-${n}` }]),
      ...(reply.text === undefined ? [] : [{ type: 'text', text: reply.text }]),
      ...(reply.calls ?? []).map((call, index) =>
        ({ type: 'tool_use', id: callId(reply, n, index), name: call.name, input: call.input ?? {} }))
    ],
    stop_reason: stopReason(reply),
    usage: usageOf(reply)
  }),

  opening: (text, model, n) => [
    start(model, n, { kind: 'reply' }),
    frame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as { type: string }),
    anthropic.delta(text)
  ],
  delta: (text) => frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } } as { type: string }),
  empty: () => [],
  errorFrame: (message) => frame({ type: 'error', error: { type: 'overloaded_error', message } } as { type: string }),
  errorBody: (type, message) => ({ type: 'error', error: { type, message } })
}
