import { expect, test } from 'vitest'
import type { ModelReply } from '../../src/core/model.ts'
import { calls, callsAll, raw, says, type FakeAnswer } from '../support/fake-answers.ts'
import { KINDS, play, request, startModel, user, type Finish, type Kind, type Played } from './model-call.ts'

const answer = async (finish: Finish, kind: Kind, of: FakeAnswer, asked = request()): Promise<Played> => {
  const { model } = await startModel(finish, kind, [of])
  return play(model, asked)
}

for (const kind of KINDS) {
  for (const whole of [false, true]) {
    test(`${kind}: reasoning, text and calls come in their order, with usage (${whole ? 'whole' : 'streamed'})`,
      async ({ onTestFinished }) => {
      const played = await answer(onTestFinished, kind, callsAll([
        { id: 'a', name: 'read', input: { path: 'x' } }, { id: 'b', name: 'list', input: {} }
      ], { reasoning: 'let me see', text: 'I look.',
        usage: { input: 100, cached: 60, cacheWrite: 10, output: 20, reasoning: 5 }, whole }))
      const signature = kind === 'anthropic' ? { signature: 'sig-0' } : {}
      expect(played.reply).toEqual({
        content: [
          { type: 'reasoning', text: 'let me see', ...signature },
          { type: 'text', text: 'I look.' },
          { type: 'tool-call', toolCallId: 'a', name: 'read', arguments: '{"path":"x"}' },
          { type: 'tool-call', toolCallId: 'b', name: 'list', arguments: '{}' }
        ],
        stop: 'tool-calls',
        usage: { inputTokens: 100, cachedInputTokens: 60, cacheWriteTokens: 10, outputTokens: 20, reasoningTokens: 5 },
        model: 'up/m'
      } satisfies ModelReply)
      const joined = (wanted: string, id?: string): string =>
        played.deltas.filter((delta) => delta.kind === wanted && delta.toolCallId === id).map((delta) => delta.text).join('')
      expect(joined('reasoning')).toBe('let me see')
      expect(joined('text')).toBe('I look.')
      expect(joined('tool-arguments', 'a')).toBe('{"path":"x"}')
    })
  }

  test(`${kind}: the text arrives while it is written`, async ({ onTestFinished }) => {
    const { deltas } = await answer(onTestFinished, kind, says('one two three', { pieces: 3 }))
    expect(deltas.map((delta) => delta.text)).toHaveLength(3)
  })

  test(`${kind}: at the token cap a half written call is dropped, a whole one stays`, async ({ onTestFinished }) => {
    const { reply } = await answer(onTestFinished, kind, callsAll(
      [{ id: 'a', name: 'f', input: { x: 1 } }, { id: 'b', name: 'f', arguments: '{"x": "ha' },
        { id: 'c', name: 'f', arguments: '' }], { text: 'so', stop: 'max-tokens' }))
    expect(reply).toMatchObject({ stop: 'max-tokens',
      content: [{ type: 'text', text: 'so' }, { type: 'tool-call', toolCallId: 'a' }] })
    expect(reply?.content).toHaveLength(2)
  })

  test(`${kind}: a refusal keeps its text and runs nothing`, async ({ onTestFinished }) => {
    const { reply } = await answer(onTestFinished, kind, calls('f', {}, { text: 'I will not.', stop: 'refusal' }))
    expect(reply).toMatchObject({ stop: 'refusal', content: [{ type: 'text', text: 'I will not.' }] })
  })

  test(`${kind}: 7.1 call ids are unique in a conversation, and the same answer gets the same ones`,
    async ({ onTestFinished }) => {
    const asked = request({ messages: [
      user('go'), { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'same', name: 'f', arguments: '{}' }] },
      { role: 'tool', toolCallId: 'same', name: 'f', content: [], isError: false }
    ] })
    const again = callsAll([{ id: 'same', name: 'f' }, { id: 'new', name: 'f' }, { id: 'new', name: 'f' }])
    const ids = async (): Promise<unknown> => (await answer(onTestFinished, kind, again, asked)).reply?.content.map((part) =>
      part.type === 'tool-call' && part.toolCallId)
    expect(await ids()).toEqual(['call_3_0', 'new', 'call_3_1'])
    expect(await ids()).toEqual(['call_3_0', 'new', 'call_3_1'])
  })

  test(`${kind}: hostile keys in an answer change nothing`, async ({ onTestFinished }) => {
    const hostile = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    const { reply } = await answer(onTestFinished, kind, callsAll([{ id: 'a', name: '__proto__', arguments: hostile }]))
    expect(reply?.content).toEqual([{ type: 'tool-call', toolCallId: 'a', name: '__proto__', arguments: hostile }])
    expect({}).not.toHaveProperty('polluted')
  })
}

const sse = (...events: unknown[]): FakeAnswer =>
  raw([...events.map((event) => `data: ${JSON.stringify(event)}\n\n`), 'data: [DONE]\n\n'].join(''))
const chunk = (delta: unknown, finish: string | null = null): unknown =>
  ({ choices: [{ index: 0, delta, finish_reason: finish }] })
const callChunk = (...entries: unknown[]): unknown => chunk({ tool_calls: entries })
const openaiCalls = async (finish: Finish, ...events: unknown[]): Promise<unknown> => {
  const { reply } = await answer(finish, 'openai-chat', sse(...events))
  return reply && { stop: reply.stop, calls: reply.content.map((part) =>
    part.type === 'tool-call' ? [part.toolCallId, part.name, part.arguments] : part) }
}

test('openai-chat: a call with finish_reason stop is still a call', async ({ onTestFinished }) => {
  expect(await openaiCalls(onTestFinished, callChunk({ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }),
    chunk({}, 'stop')))
    .toEqual({ stop: 'tool-calls', calls: [['a', 'f', '{}']] })
})

test('openai-chat: calls without an index', async ({ onTestFinished }) => {
  expect(await openaiCalls(onTestFinished,
    callChunk({ id: 'a', function: { name: 'f', arguments: '{"x":' } }), callChunk({ function: { arguments: '1}' } }),
    callChunk({ id: 'b', function: { name: 'g', arguments: '{}' } }), chunk({}, 'tool_calls'))
  ).toEqual({ stop: 'tool-calls', calls: [['a', 'f', '{"x":1}'], ['b', 'g', '{}']] })
})

test('openai-chat: several whole calls under one index', async ({ onTestFinished }) => {
  expect(await openaiCalls(onTestFinished,
    callChunk({ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }),
      callChunk({ index: 0, id: 'b', function: { name: 'f', arguments: '{"y":2}' } }),
    chunk({}, 'tool_calls'))
  ).toEqual({ stop: 'tool-calls', calls: [['a', 'f', '{}'], ['b', 'f', '{"y":2}']] })
})

test('openai-chat: a server that repeats id and name in each piece', async ({ onTestFinished }) => {
  const piece = (args: string): unknown => callChunk({ index: 0, id: 'a', function: { name: 'f', arguments: args } })
  expect(await openaiCalls(onTestFinished, piece('{"x"'), piece(':1}'),
    chunk({}, 'tool_calls'))).toEqual({ stop: 'tool-calls', calls: [['a', 'f', '{"x":1}']] })
})

test('openai-chat: calls without an id, and arguments sent as an object', async ({ onTestFinished }) => {
  expect(await openaiCalls(onTestFinished,
    callChunk({ index: 0, function: { name: 'f', arguments: { x: 1 } } }, { index: 1, function: { name: 'g' } }),
      chunk({}, 'tool_calls'))
  ).toEqual({ stop: 'tool-calls', calls: [['call_1_0', 'f', '{"x":1}'], ['call_1_1', 'g', '{}']] })
})

test('openai-chat: calls that are woven into each other', async ({ onTestFinished }) => {
  const piece = (index: number, args: string): unknown => callChunk({ index, function: { arguments: args } })
  expect(await openaiCalls(onTestFinished,
    callChunk({ index: 0, id: 'a', function: { name: 'f' } }, { index: 1, id: 'b', function: { name: 'g' } }),
    piece(1, '{"b"'), piece(0, '{"a"'), piece(1, ':2}'), piece(0, ':1}'), chunk({}, 'tool_calls'))
  ).toEqual({ stop: 'tool-calls', calls: [['a', 'f', '{"a":1}'], ['b', 'g', '{"b":2}']] })
})

test('openai-chat: the reasoning fields and content lists of compatible servers', async ({ onTestFinished }) => {
  const { reply } = await answer(onTestFinished, 'openai-chat', sse(
    chunk({ reasoning: 'a' }), chunk({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'b' }] },
      { type: 'text', text: 'c' }] }), chunk({ content: 'd' }, 'stop')))
  expect(reply?.content).toEqual([{ type: 'reasoning', text: 'ab' }, { type: 'text', text: 'cd' }])
})

test('openai-chat: the refusal field is a refusal with its text', async ({ onTestFinished }) => {
  const { reply } = await answer(onTestFinished, 'openai-chat',
    sse(chunk({ refusal: 'I can' }), chunk({ refusal: 'not.' }), chunk({}, 'stop')))
  expect(reply).toMatchObject({ stop: 'refusal', content: [{ type: 'text', text: 'I cannot.' }] })
})

test('openai-chat: other choices than the first are passed over, and usage may stand on any event',
  async ({ onTestFinished }) => {
  const { reply } = await answer(onTestFinished, 'openai-chat', sse(
    { choices: [{ index: 1, delta: { content: 'other' } }, { index: 0, delta: { content: 'mine' } }],
      usage: { prompt_tokens: 3, completion_tokens: -1 } },
    { ...(chunk({}, 'stop') as object), usage: null }))
  expect(reply).toMatchObject({ content: [{ text: 'mine' }], usage: { inputTokens: 3, outputTokens: 0 } })
})

test('an answer without content that did stop is a reply without content', async ({ onTestFinished }) => {
  for (const kind of KINDS) {
    const { reply } = await answer(onTestFinished, kind, { kind: 'reply' })
    expect(reply, kind).toMatchObject({ content: [], stop: 'end' })
  }
})

const events = (...all: { type: string }[]): FakeAnswer =>
  raw(all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''))
const started = (index: number, content_block: object): { type: string } =>
  ({ type: 'content_block_start', index, content_block } as { type: string })
const stopped = (stop_reason: string): { type: string } =>
  ({ type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 1 } } as { type: string })

test('anthropic: redacted thinking is kept as it came', async ({ onTestFinished }) => {
  const { reply } = await answer(onTestFinished, 'anthropic',
    events(started(0, { type: 'redacted_thinking', data: 'xyz' }), stopped('end_turn')))
  expect(reply?.content).toEqual([{ type: 'reasoning', text: '', redacted: 'xyz' }])
})

test('anthropic: text blocks stay apart, and blocks of server tools are passed over', async ({ onTestFinished }) => {
  const { reply } = await answer(onTestFinished, 'anthropic', events(
    started(0, { type: 'text', text: 'a' }), started(1, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
    started(2, { type: 'text', text: 'b' }), stopped('stop_sequence')))
  expect(reply).toMatchObject({ stop: 'end', content: [{ text: 'a' }, { text: 'b' }] })
})

test('anthropic: input that stands in the block itself counts', async ({ onTestFinished }) => {
  const { reply, deltas } = await answer(onTestFinished, 'anthropic', events(
    started(0, { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } }), stopped('tool_use')))
  expect(reply).toMatchObject({ stop: 'tool-calls', content: [{ toolCallId: 'a', arguments: '{"x":1}' }] })
  expect(deltas).toEqual([{ type: 'delta', kind: 'tool-arguments', text: '{"x":1}', toolCallId: 'a' }])
})

test('anthropic: stops of its own', async ({ onTestFinished }) => {
  const stop = async (reason: string): Promise<unknown> => {
    const { reply, failure } = await answer(onTestFinished, 'anthropic',
      events(started(0, { type: 'text', text: 'a' }), stopped(reason)))
    return reply?.stop ?? failure?.outcome
  }
  expect(await stop('model_context_window_exceeded')).toBe('max-tokens')
  expect(await stop('something_new')).toBe('end')
  expect(await stop('pause_turn')).toMatchObject({ code: 'MODEL_ERROR', retryable: false,
    message: expect.stringMatching(/pause_turn/) as string })
})

const piece = (delta: object, finish: unknown = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`

test('openai-chat: an empty finish reason is none: a stream that ends so was cut off', async ({ onTestFinished }) => {
  const { failure } = await answer(onTestFinished, 'openai-chat', raw(piece({ content: 'half' }, '') + piece({}, '')))
  expect(failure).toMatchObject({ outcome: { code: 'MODEL_ERROR', message: expect.stringContaining('ended early') } })
})

test('openai-chat: a text with thoughts between its pieces is one text', async ({ onTestFinished }) => {
  const stream = piece({ content: 'Hel' }) + piece({ reasoning_content: 'hm' }) + piece({ content: 'lo' }, 'stop')
  const { reply } = await answer(onTestFinished, 'openai-chat', raw(`${stream}data: [DONE]\n\n`))
  expect(reply?.content.filter(({ type }) => type === 'text')).toEqual([{ type: 'text', text: 'Hello' }])
})

test('openai-chat: calls without ids that share an index are told apart by their names; usage of -0 is 0', async ({ onTestFinished }) => {
  const call = (name: string, given: string): object => ({ tool_calls: [{ index: 0, id: '', type: 'function', function: { name, arguments: given } }] })
  const usage = 'data: {"choices":[],"usage":{"prompt_tokens":-0,"completion_tokens":2}}\n\n'
  const { reply } = await answer(onTestFinished, 'openai-chat', raw(piece(call('a', '{}')) + piece(call('b', '{}'), 'tool_calls') + usage))
  expect(reply?.content).toMatchObject([{ name: 'a', arguments: '{}' }, { name: 'b', arguments: '{}' }])
  expect(Object.is(reply?.usage.inputTokens, 0)).toBe(true)
})
