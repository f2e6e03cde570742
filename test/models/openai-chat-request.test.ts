import { expect, test } from 'vitest'
import type { ModelRequest } from '../../src/core/model.ts'
import { encodeOpenAiChat } from '../../src/models/openai-chat-request.ts'
import { request, user } from './model-call.ts'

const encode = (of: Partial<ModelRequest>, official = false): Record<string, unknown> =>
  JSON.parse(encodeOpenAiChat(request(of), { model: 'm', official })) as Record<string, unknown>

test('the smallest request is the model, the task and the wish to stream with usage', () => {
  expect(encodeOpenAiChat(request(), { model: 'm', official: false })).toBe(
    '{"model":"m","messages":[{"role":"user","content":"do it"}],"stream":true,"stream_options":{"include_usage":true}}')
})

test('calls and results: arguments verbatim, one tool message a result, images left out of results', () => {
  expect(encode({ messages: [
    user('go'),
    { role: 'assistant', content: [
      { type: 'reasoning', text: 'hm', signature: 's' },
      { type: 'text', text: 'I look.' },
      { type: 'tool-call', toolCallId: 'a', name: 'read', arguments: '{ "2":1,"1": 1e400 }' },
      { type: 'tool-call', toolCallId: 'b', name: 'read', arguments: '{"broken' }
    ] },
    { role: 'tool', toolCallId: 'a', name: 'read',
      content: [{ type: 'text', text: 'x' }, { type: 'image', data: 'AA', mimeType: 'image/png' }], isError: false },
    { role: 'tool', toolCallId: 'b', name: 'read', content: [{ type: 'text', text: 'Error: no' }], isError: true }
  ] }).messages).toEqual([
    { role: 'user', content: 'go' },
    { role: 'assistant', content: 'I look.', tool_calls: [
      { id: 'a', type: 'function', function: { name: 'read', arguments: '{ "2":1,"1": 1e400 }' } },
      { id: 'b', type: 'function', function: { name: 'read', arguments: '{"broken' } }
    ] },
    { role: 'tool', tool_call_id: 'a', content: 'x\n[image omitted]' },
    { role: 'tool', tool_call_id: 'b', content: 'Error: no' }
  ])
})

test('an assistant message of calls alone has null content', () => {
  expect(encode({ messages: [{ role: 'assistant',
    content: [{ type: 'tool-call', toolCallId: 'a', name: 'f', arguments: '{}' }] }] }).messages)
    .toMatchObject([{ role: 'assistant', content: null }])
})

test('a lone text is a string; images are data URLs beside text parts', () => {
  expect(encode({ messages: [{ role: 'user', content: [{ type: 'text', text: 'see' },
    { type: 'image', data: 'AA==', mimeType: 'image/png' }] }] }).messages)
    .toEqual([{ role: 'user', content: [{ type: 'text', text: 'see' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }])
})

test('the host\'s own system messages come first, further sections follow as one more', () => {
  const wire = { format: 'openai-chat' as const, json: '{"role":"developer","content":"own"},{"role":"system","content":"more"}' }
  expect(encode({ system: [{ text: 'one' }, { text: 'own more', wire }, { text: 'two' }] }).messages).toEqual([
    { role: 'developer', content: 'own' },
    { role: 'system', content: 'more' },
    { role: 'system', content: 'one\n\ntwo' },
    { role: 'user', content: 'do it' }
  ])
})

test('the token cap has the name that the server reads', () => {
  expect(encode({ maxTokens: 9 })).toMatchObject({ max_tokens: 9 })
  expect(encode({ maxTokens: 9 }, true)).toMatchObject({ max_completion_tokens: 9 })
  const both = encode({ maxTokens: 9, providerOptions: '{"max_completion_tokens":5}' })
  expect(both).toMatchObject({ max_completion_tokens: 5 })
  expect(both).not.toHaveProperty('max_tokens')
})

test('a schema without a type is given one, as the API wants an object', () => {
  expect(encode({ tools: [{ name: 't', description: 'd', inputSchema: {} },
    { name: 'u', description: '', inputSchema: true }] }).tools).toEqual([
    { type: 'function', function: { name: 't', description: 'd', parameters: { type: 'object', properties: {} } } },
    { type: 'function', function: { name: 'u', description: '', parameters: { type: 'object', properties: {} } } }
  ])
})
