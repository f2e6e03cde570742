import { expect, test } from 'vitest'
import fc from 'fast-check'
import type { AssistantPart, Block } from '../../src/core/events.ts'
import type { ModelMessage } from '../../src/core/fold.ts'
import type { ModelRequest } from '../../src/core/model.ts'
import { encodeAnthropic } from '../../src/models/anthropic-request.ts'
import { encodeOpenAiChat } from '../../src/models/openai-chat-request.ts'
import { request, user } from './model-call.ts'

/** What both encoders promise. */

const ENCODERS = [
  ['openai-chat', (of: ModelRequest) => encodeOpenAiChat(of, { model: 'm', official: false })],
  ['anthropic', (of: ModelRequest) => encodeAnthropic(of, 'm')]
] as const

const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('', ' ', '\n', '\ud800'))
const blocks: fc.Arbitrary<Block[]> = fc.array(fc.oneof(
  text.map((value) => ({ type: 'text' as const, text: value })),
  fc.constant({ type: 'image' as const, data: 'AAAA', mimeType: 'image/png' })
), { maxLength: 3 })
const part: fc.Arbitrary<AssistantPart> = fc.oneof(
  text.map((value) => ({ type: 'text' as const, text: value })),
  fc.record({ type: fc.constant('reasoning' as const), text, signature: fc.string() }),
  text.map((value) => ({ type: 'reasoning' as const, text: value })),
  fc.record({
    type: fc.constant('tool-call' as const),
    toolCallId: fc.string(),
    name: fc.string(),
    arguments: fc.oneof(fc.constantFrom('', '{"a', '[]', '{"2":1,"1":12345678901234567890}'), fc.json())
  })
)
const wire = fc.constantFrom('openai-chat', 'anthropic').chain((format) =>
  fc.constantFrom('', '{"x":1}', '{"2":1, "1":2},{"y":1e400}')
  .map((json) => ({ format: format as 'openai-chat' | 'anthropic', json })))
const wired = <M extends object>(message: fc.Arbitrary<M>): fc.Arbitrary<M> => fc.oneof(
  { weight: 4, arbitrary: message }, { weight: 1, arbitrary: fc.tuple(message, wire).map(([m, w]) => ({ ...m, wire: w })) }
)
const message: fc.Arbitrary<ModelMessage> = fc.oneof(
  wired(blocks.map((content) => ({ role: 'user' as const, content }))),
  wired(fc.array(part, { maxLength: 4 }).map((content) => ({ role: 'assistant' as const, content }))),
  wired(fc.record({ role: fc.constant('tool' as const), toolCallId: fc.string(), name: fc.string(), content: blocks,
    isError: fc.boolean() }))
)
/** Whole steps: a conversation never stops between the results of one step. */
const messages = fc.array(message, { maxLength: 12 })

const textOfMessages = (body: string): string => {
  const from = body.indexOf('"messages":[') + '"messages":['.length
  let depth = 0
  for (let i = from; ; i++) {
    if (body[i] === '"') { while (body[++i] !== '"') if (body[i] === '\\') i++ }
    if (body[i] === '[' || body[i] === '{') depth++
    if ((body[i] === ']' || body[i] === '}') && depth-- === 0) return body.slice(from, i)
  }
}

for (const [name, encode] of ENCODERS) {
  test(`${name}: 2.6 the same request gives the same bytes, and they are JSON`, () => {
    fc.assert(fc.property(messages, (list) => {
      const body = encode(request({ messages: list }))
      expect(encode(request({ messages: structuredClone(list) }))).toBe(body)
      JSON.parse(body)
    }))
  })

  test(`${name}: 2.6 a longer conversation only adds at the end`, () => {
    fc.assert(fc.property(messages, messages, (before, after) => {
      fc.pre(before.at(-1)?.role !== 'tool' || after[0]?.role !== 'tool')
      const short = textOfMessages(encode(request({ messages: before })))
      const long = textOfMessages(encode(request({ messages: [...before, ...after] })))
      expect(long.startsWith(short)).toBe(true)
    }))
  })

  test(`${name}: 4.2 wire texts of this format go out verbatim, and an empty one stands for nothing`, () => {
    const json = '{"role":"user" , "10":1,"2":12345678901234567890,"content":"\\u00e9"},{"z":1}'
    const of = (texts: string[]): string => textOfMessages(encode(request({
      messages: texts.map((own) => ({ ...user('the neutral text'), wire: { format: name, json: own } }))
    })))
    expect(of([json, '', '{"next":1}'])).toBe(`${json},{"next":1}`)
    expect(of([''])).toBe('')
  })

  test(`${name}: 4.2 wire texts of the other format give way to the neutral content`, () => {
    const other = name === 'anthropic' ? 'openai-chat' : 'anthropic'
    const body = encode(request({
      system: [{ text: 'neutral system', wire: { format: other, json: '"foreign"' } }],
      messages: [{ ...user('neutral'), wire: { format: other, json: '{"foreign":1}' } }],
      tools: [{ name: 't', description: 'd', inputSchema: {}, wire: { format: other, json: '{"foreign":2}' } }]
    }))
    expect(body).not.toContain('foreign')
    expect(body).toContain('neutral system')
  })

  test(`${name}: a host's own tools go out verbatim, beside ours`, () => {
    const own = '{"name":"host", "cache_control":{"type":"ephemeral"},"9":1,"1":2}'
    const body = encode(request({ tools: [
      { name: 'host', description: '', inputSchema: {}, wire: { format: name, json: own } },
      { name: 'ours', description: 'd', inputSchema: { type: 'object' } }
    ] }))
    expect(body).toContain(`"tools":[${own},{`)
  })

  test(`${name}: 8.2 without tools there is no tools field`, () => {
    expect(encode(request())).not.toContain('tools')
  })

  test(`${name}: sections of the system prompt are joined with blank lines`, () => {
    const body = encode(request({ system: [{ text: 'one' }, { text: '' }, { text: 'two' }] }))
    expect(body).toContain('"one\\n\\ntwo"')
    expect(encode(request({ system: [{ text: '' }] }))).not.toContain('system')
  })

  test(`${name}: providerOptions joins the request verbatim and wins over what we set, except model, messages and stream`, () => {
    const body = encode(request({
      temperature: 0.5,
      maxTokens: 7,
      providerOptions: '{ "temperature": 0.10, "seed":12345678901234567890, "stream":false,"model":"other",' +
        '"messages":[], "z":{"2":1,"1":2} }'
    }))
    expect(body.endsWith('"temperature": 0.10,"seed":12345678901234567890,"z":{"2":1,"1":2}}')).toBe(true)
    expect(body.match(/"temperature"/g)).toHaveLength(1)
    expect(JSON.parse(body)).toMatchObject({ model: 'm', stream: true, messages: [{ role: 'user' }] })
  })

  test(`${name}: providerOptions that is no object is refused before anything is sent`, () => {
    for (const providerOptions of ['', '[]', '{', 'null']) {
      expect(() => encode(request({ providerOptions })), providerOptions).toThrow(expect.objectContaining({
        fault: { code: 'MODEL_ERROR', retryable: false, reason: 'was not called: providerOptions is not a JSON object' }
      }))
    }
  })
}
