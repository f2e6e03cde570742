import { expect, test } from 'vitest'
import type { SystemSection } from '../../src/core/events.ts'
import type { ModelMessage } from '../../src/core/fold.ts'
import type { ModelRequest } from '../../src/core/model.ts'
import { encodeAnthropic } from '../../src/models/anthropic-request.ts'
import { request, user } from './model-call.ts'

const encode = (of: Partial<ModelRequest>): Record<string, unknown> =>
  JSON.parse(encodeAnthropic(request(of), 'm')) as Record<string, unknown>
const result = (toolCallId: string, text: string, isError = false): ModelMessage =>
  ({ role: 'tool', toolCallId, name: 'f', content: [{ type: 'text', text }], isError })
const call = (toolCallId: string, args: string): ModelMessage =>
  ({ role: 'assistant', content: [{ type: 'tool-call', toolCallId, name: 'f', arguments: args }] })

test('the smallest request carries the token cap that the API wants', () => {
  expect(encodeAnthropic(request(), 'm')).toBe(
    '{"model":"m","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"do it"}]}],"stream":true}')
  expect(encode({ maxTokens: 5 })).toMatchObject({ max_tokens: 5 })
})

test('the results of one step are one user message of their own, apart from what the user says next', () => {
  expect(encode({ messages: [user('go'), call('a', '{}'), result('a', 'x'), result('b', 'no', true),
    user('and then?')] }).messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant' },
    { role: 'user', content: [
      { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x' }] },
      { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: 'no' }], is_error: true }
    ] },
    { role: 'user', content: [{ type: 'text', text: 'and then?' }] }
  ])
})

test('arguments go out as the verbatim text of the input object; empty is {}, and what is no object is wrapped', () => {
  const of = (args: string): string => encodeAnthropic(request({ messages: [call('a', args)] }), 'm')
  expect(of(' { "2":1,"1": 12345678901234567890 }')).toContain('"input":{ "2":1,"1": 12345678901234567890 }}')
  expect(of('')).toContain('"input":{}}')
  expect(of('{"path": "a')).toContain('"input":{"invalid_arguments":"{\\"path\\": \\"a"}}')
  expect(of('[1]')).toContain('"input":{"invalid_arguments":"[1]"}}')
})

test('signed reasoning and redacted reasoning go back as they came; unsigned reasoning does not go', () => {
  expect(encode({ messages: [{ role: 'assistant', content: [
    { type: 'reasoning', text: 'signed', signature: 'sig' },
    { type: 'reasoning', text: '', redacted: 'secret' },
    { type: 'reasoning', text: 'unsigned' },
    { type: 'text', text: 'said' }
  ] }] }).messages).toEqual([{ role: 'assistant', content: [
    { type: 'thinking', thinking: 'signed', signature: 'sig' },
    { type: 'redacted_thinking', data: 'secret' },
    { type: 'text', text: 'said' }
  ] }])
})

test('blocks without a visible character are not sent, and no message is left empty', () => {
  expect(encode({ messages: [
    { role: 'user', content: [{ type: 'text', text: ' \n' }] },
    { role: 'assistant', content: [{ type: 'text', text: '' }] },
    { role: 'tool', toolCallId: 'a', name: 'f', content: [{ type: 'text', text: '' }], isError: false }
  ] }).messages).toEqual([
    { role: 'user', content: [{ type: 'text', text: '(empty message)' }] },
    { role: 'assistant', content: [{ type: 'text', text: '(no answer)' }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] }
  ])
})

test('images go as base64 sources, in results too', () => {
  const image = { type: 'image' as const, data: 'AA==', mimeType: 'image/png' }
  const source = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }
  expect(encode({ messages: [
    { role: 'user', content: [image] }, { role: 'tool', toolCallId: 'a', name: 'f', content: [image], isError: false }
  ] }).messages).toMatchObject([{ content: [source] }, { content: [{ type: 'tool_result', content: [source] }] }])
})

test('ids of another API are made to fit, call and result alike', () => {
  const [use, answer, other] = encode({ messages: [call('functions.f:0', '{}'), result('functions.f:0', 'x'), call('functions:f.0', '{}')] })
    .messages as { content: { id?: string, tool_use_id?: string }[] }[]
  expect(use?.content[0]?.id).toMatch(/^functions_f_0_[0-9a-f]{8}$/)
  expect(answer?.content[0]?.tool_use_id).toBe(use?.content[0]?.id)
  expect(other?.content[0]?.id).not.toBe(use?.content[0]?.id)
})

test('the host\'s own system prompt is verbatim when alone, the head of an array beside ours', () => {
  const of = (...system: SystemSection[]): string => encodeAnthropic(request({ system }), 'm')
  const own = (json: string): SystemSection => ({ text: 'own', wire: { format: 'anthropic', json } })
  const blocks = '[ {"type":"text","text":"a","cache_control":{"type":"ephemeral"},"2":1,"1":2} ]'
  expect(of(own('"\\u00e9 own"'))).toContain('"system":"\\u00e9 own",')
  expect(of(own(blocks))).toContain(`"system":${blocks},`)
  expect(of(own('"own"'), { text: 'ours' })).toContain('"system":[{"type":"text","text":"own"},{"type":"text","text":"ours"}],')
  expect(of(own(blocks), { text: 'ours' }, { text: 'two' }))
    .toContain(`"system":[${blocks.slice(1, -1).trim()},{"type":"text","text":"ours\\n\\ntwo"}],`)
  expect(of(own('[]'), { text: 'ours' })).toContain('"system":[{"type":"text","text":"ours"}],')
  expect(of(own('""'), { text: 'ours' })).toContain('"system":[{"type":"text","text":"ours"}],')
})

test('host results in one wire message are not joined by ours', () => {
  const wire = (json: string) => ({ format: 'anthropic' as const, json })
  const messages: ModelMessage[] = [
    { ...result('a', 'x'), wire: wire('{"role":"user","content":[1,2]}') }, { ...result('b', 'y'), wire: wire('') },
      result('c', 'z')
  ]
  expect(encode({ messages }).messages).toEqual([
    { role: 'user', content: [1, 2] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'z' }] }] }
  ])
})
