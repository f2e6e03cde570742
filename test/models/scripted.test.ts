import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import fc from 'fast-check'
import type { Json } from '../../src/core/json.ts'
import type { ModelRequest } from '../../src/core/model.ts'
import { createScripted } from '../../src/models/scripted.ts'
import { sampleValue } from '../../src/models/sample-value.ts'
import { validateScript, type Script } from '../../src/models/scripted-steps.ts'
import { play, request, user, type Played } from './model-call.ts'

const demo = createScripted('demo')
const playStep = (step: Script[number], more: Partial<ModelRequest> = {}, signal?: AbortSignal): Promise<Played> => {
  const script = [step] as Script
  expect(validateScript(script)).toEqual([])
  return play(demo, request({ script: script as unknown as Json, ...more }), signal)
}
const joined = ({ deltas }: Played): string => deltas.filter(({ kind }) => kind === 'text').map(({ text }) => text).join('')

test('without a script the answer is made of the task, the same each time, in a few pieces', async () => {
  const asked = request({ messages: [user('first'), { role: 'assistant', content: [{ type: 'text', text: 'x' }] },
    user('count the files in src please')] })
  const played = await play(demo, asked)
  expect(played.reply).toEqual({
    content: [{ type: 'text', text: 'Scripted answer to: count the files in src please' }],
    usage: { inputTokens: 9, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 13, reasoningTokens: 0 },
    model: 'scripted/demo',
    stop: 'end'
  })
  expect(await play(demo, asked)).toEqual(played)
  expect(played.deltas.length).toBeGreaterThan(2)
  expect(joined(played)).toBe('Scripted answer to: count the files in src please')
})

test('a megabyte of a task is answered shortly', async () => {
  for (const task of [' '.repeat(1e6), 'x'.repeat(1e6), 'a '.repeat(5e5), '😀'.repeat(5e5)]) {
    const text = joined(await play(demo, request({ messages: [user(task)] })))
    expect(text.length).toBeLessThan(2100)
    expect(text.isWellFormed()).toBe(true)
  }
})

test('step N answers call N, and past the last step the task is answered', async () => {
  const script = [{ say: 'one' }, { say: 'two' }]
  const texts = await Promise.all([0, 1, 2].map(async (call) => joined(await play(demo, request({ script, call })))))
  expect(texts).toEqual(['one', 'two', 'Scripted answer to: do it'])
})

test('a failed call takes its step: the next call gets the next one', async () => {
  const script = [{ fail: { status: 503 } }, { say: 'ok' }]
  expect((await play(demo, request({ script, call: 0 }))).failure?.outcome.retryable).toBe(true)
  expect(joined(await play(demo, request({ script, call: 1 })))).toBe('ok')
})

test('say streams its words', async () => {
  const played = await playStep({ say: ' one two  three\n', reasoning: 'hm', usage: { inputTokens: 7 } })
  expect(played.deltas.map(({ kind, text }) =>
    [kind, text])).toEqual([['reasoning', 'hm'], ['text', ' '], ['text', 'one '], ['text', 'two  '], ['text', 'three\n']])
  expect(played.reply).toMatchObject({
    stop: 'end', content: [{ type: 'reasoning', text: 'hm' }, { type: 'text', text: ' one two  three\n' }],
      usage: { inputTokens: 7, reasoningTokens: 1 }
  })
})

test('call and calls ask for tools, with text before them', async () => {
  expect((await playStep({ call: { name: 'read', input: { path: 'x' } } })).reply).toMatchObject({
    stop: 'tool-calls', content: [{ type: 'tool-call', toolCallId: 'call_1_0', name: 'read', arguments: '{"path":"x"}' }]
  })
  const played = await playStep({ say: 'I look.', calls: [{ name: 'a', id: 'mine' }, { name: 'b', arguments: '{"broken' }] })
  expect(played.reply?.content).toEqual([
    { type: 'text', text: 'I look.' },
    { type: 'tool-call', toolCallId: 'mine', name: 'a', arguments: '{}' },
    { type: 'tool-call', toolCallId: 'call_1_1', name: 'b', arguments: '{"broken' }
  ])
  expect(played.deltas.at(-1)).toEqual({ type: 'delta', kind: 'tool-arguments', text: '{"broken', toolCallId: 'call_1_1' })
})

test('hang says what it has to say and then waits for the abort', async () => {
  const abort = new AbortController()
  const texts: string[] = []
  for await (const event of demo.stream(request({ script: [{ hang: true, say: 'so far' }] }), abort.signal)) {
    texts.push(event.type === 'delta' ? event.text : event.type)
    if (texts.length === 2) setImmediate(() => abort.abort())
  }
  expect(texts).toEqual(['so ', 'far', 'failure'])
})

test('an abort ends a delay and a slow answer, and no listener stays', async () => {
  for (const step of [{ say: 'x', delayMs: 3_600_000 }, { slow: { text: 'a b', delayMs: 3_600_000 } }, { hang: true as const }]) {
    const abort = new AbortController()
    setImmediate(() => abort.abort())
    expect((await playStep(step, {}, abort.signal)).failure?.outcome.message).toMatch(/aborted/)
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  }
  const { signal } = new AbortController()
  await playStep({ slow: { text: 'a b c', delayMs: 1 } }, {}, signal)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('fail is the failure that such a model server gives, before any delta', async () => {
  const failed = async (fail: object): Promise<unknown> => {
    const { deltas, failure } = await playStep({ fail })
    expect(deltas).toEqual([])
    return failure
  }
  const of = (code: string, message: string, retryable: boolean): object =>
    ({ code, message: `model endpoint "scripted" ${message}`, retryable })
  expect(await failed({})).toEqual({ outcome: of('MODEL_ERROR', 'answered 503', true), status: 503 })
  expect(await failed({ status: 429, message: 'slow down', retryAfterMs: 5 }))
    .toEqual({ outcome: of('MODEL_RATE_LIMITED', 'answered 429 (rate limited): slow down', true), status: 429, retryAfterMs: 5 })
  expect(await failed({ status: 401 })).toEqual({ outcome: of('MODEL_AUTH', 'answered 401 (not authorized)', false),
    status: 401 })
  expect(await failed({ code: 'CONTEXT_TOO_LONG' })).toEqual({ outcome: of('CONTEXT_TOO_LONG', 'answered 400', false),
    status: 400 })
  expect(await failed({ code: 'MODEL_ERROR', retryable: false })).toEqual({ outcome: of('MODEL_ERROR', 'answered 503', false),
    status: 503 })
})

test('reset fails in the middle of its text', async () => {
  const played = await playStep({ reset: { after: 'half a' } })
  expect(joined(played)).toBe('half a')
  expect(played.failure?.outcome).toEqual({ code: 'MODEL_ERROR', message: 'model endpoint "scripted" reset the connection',
    retryable: true })
})

test('slow streams its text in the pieces it is told', async () => {
  const pieces = async (text: string, deltas?: number): Promise<string[]> =>
    (await playStep({ slow: { text, delayMs: 0, ...(deltas === undefined ? {} : { deltas }) } })).deltas.map((delta) =>
      delta.text)
  expect(await pieces('a b c')).toEqual(['a ', 'b ', 'c'])
  expect(await pieces('a b c', 2)).toHaveLength(2)
  expect(await pieces('abcdef', 3)).toEqual(['ab', 'cd', 'ef'])
  expect(await pieces('', 3)).toEqual([])
  await fc.assert(fc.asyncProperty(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 20 }), async (text, n) => {
    const got = await pieces(text, n)
    expect(got.join('')).toBe(text)
    expect(got.length).toBeLessThanOrEqual(n)
    expect(got).not.toContain('')
  }))
})

test('refuse and maxTokens stop as such', async () => {
  expect((await playStep({ refuse: 'no' })).reply).toMatchObject({ stop: 'refusal', content: [{ text: 'no' }] })
  expect((await playStep({ maxTokens: 'half a' })).reply).toMatchObject({ stop: 'max-tokens', content: [{ text: 'half a' }] })
})

test('each violation of a script is told with its place', () => {
  expect(validateScript([{ say: 'x' }, { say: 1 }, {}, { say: 'a', refuse: 'b' }, { call: { input: 1 } },
    { 'a/b': 1, hang: true }, 'x', { hang: false }])).toEqual([
    '/1/say: must be a string',
    '/4/call/name: is missing',
    '/5/a~1b: is not known',
    '/6: must be an object',
    '/7/hang: must be true',
    '/2: must have exactly one of say, call, calls, hang, fail, reset, slow, refuse, maxTokens; has none',
    '/3: must have exactly one of say, call, calls, hang, fail, reset, slow, refuse, maxTokens; has say, refuse'
  ])
  expect(validateScript({})).toEqual(['(root): must be an array'])
  expect(validateScript(null)).toEqual(['(root): must be an array'])
  expect(validateScript([{ fail: { code: 'X' } }])).toEqual([
    '/0/fail/code: must be one of MODEL_ERROR, MODEL_RATE_LIMITED, MODEL_AUTH, CONTEXT_TOO_LONG'])
  expect(validateScript([{ slow: { text: 'x', delayMs: -1 } }])).toEqual([
    '/0/slow/delayMs: must be an integer from 0 to 3600000'])
})

test('a script that cannot be played fails the call, not the service', async () => {
  expect((await play(demo, request({ script: [{ nope: 1 }] }))).failure?.outcome)
    .toMatchObject({ code: 'MODEL_ERROR', retryable: false, message: expect.stringContaining('/0/nope: is not known') as string })
  expect((await play(demo, request({ script: 'x' }))).failure).toBeDefined()
})

const structured = (schema: Json): Partial<ModelRequest> =>
  ({ tools: [{ name: 'structured_output', description: '', inputSchema: schema }] })

test('where a structured result is wanted the smallest valid one is reported', async () => {
  const schema = { type: 'object', properties: { title: { type: 'string' }, size: { type: 'integer' },
    more: { type: 'array', items: {} } }, required: ['title', 'size'] }
  expect((await play(demo, request(structured(schema)))).reply).toMatchObject({
    stop: 'tool-calls', content: [{ type: 'tool-call', name: 'structured_output', arguments: '{"title":"text","size":0}' }]
  })
})

test('a structured result that was rejected is not tried for ever', async () => {
  const rejected = { role: 'tool' as const, toolCallId: 'a', name: 'structured_output', content: [], isError: true }
  expect((await play(demo, request({ ...structured({ type: 'object' }),
    messages: [user('do it'), rejected] }))).reply?.stop).toBe('end')
})

test('sample values keep to each part of the supported schema subset', () => {
  expect(sampleValue({ type: 'object', properties: { a: { const: 3 }, b: { type: 'string', enum: ['x', 'y'] },
    c: { type: 'null' }, d: { type: 'boolean' } }, required: ['a', 'b', 'c', 'd'], additionalProperties: false }))
    .toEqual({ a: 3, b: 'x', c: null, d: true })
  expect(sampleValue({ oneOf: [{ type: 'integer' }, { type: 'number' }] })).toBe(0.5)
  expect(sampleValue({ type: 'array', items: { type: 'string' } })).toEqual([])
  expect(sampleValue({ type: 'object', properties: { __proto__: { type: 'string' } }, required: [] })).toEqual({})
  expect(sampleValue({ type: 'string', enum: [1, 'a'] })).toBe('a')
  expect(sampleValue({ oneOf: [{ type: 'string' }, { type: 'string' }] })).toBeUndefined()
})
