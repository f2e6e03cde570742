import { expect, test } from 'vitest'
import { call, imported, said, text } from './said.ts'

const result = (toolCallId: string, output: unknown) => ({ type: 'tool-result', toolCallId, toolName: 'f', output })

test('reads each kind of tool output', () => {
  const outputs = [
    { type: 'text', value: 'T' }, { type: 'json', value: { n: 1 } }, { type: 'error-text', value: 'E' },
    { type: 'error-json', value: [1] },
    { type: 'execution-denied', reason: 'not now' }, { type: 'execution-denied' },
    {
      type: 'content',
      value: [
        { type: 'text', text: 'C' }, { type: 'media', data: 'AAAA', mediaType: 'image/png' },
        { type: 'image-data', data: 'BBBB', mediaType: 'image/gif' }
      ]
    }
  ]
  const messages = said('ai-sdk',
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: outputs.map((_, i) => ({ type: 'tool-call', toolCallId: `c${i}`, toolName: 'f', input: { i } }))
    },
    { role: 'tool', content: outputs.map((output, i) => result(`c${i}`, output)) },
    { role: 'assistant', content: 'ok' }
  )
  expect(messages.slice(2, -1).map((message) => message.role === 'tool' && [message.isError, message.content])).toEqual([
    [false, [text('T')]], [false, [text('{"n":1}')]], [true, [text('E')]], [true, [text('[1]')]],
    [true, [text('not now')]], [true, [text('Tool execution denied.')]],
    [
      false,
      [
        text('C'), { type: 'image', data: 'AAAA', mimeType: 'image/png' },
        { type: 'image', data: 'BBBB', mimeType: 'image/gif' }
      ]
    ]
  ])
})

test('4.1 what the provider executed is not open, and is no call of the host', () => {
  const search = { type: 'tool-call', toolCallId: 's', toolName: 'web_search', input: {}, providerExecuted: true }
  const whole = [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: [search, result('s', { type: 'json', value: [] }), { type: 'text', text: 'ok' }] }
  ]
  expect(imported('ai-sdk', ...whole)).toMatchObject({ turns: 1, losses: ['server tool calls'] })
  expect(said('ai-sdk', ...whole)[1]).toEqual({ role: 'assistant', content: [text('ok')] })
})

test('an approval that is asked for and given leaves the call open until its result', () => {
  const asked = [
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: [
        { type: 'tool-call', toolCallId: 'a', toolName: 'f', input: {} },
        { type: 'tool-approval-request', approvalId: 'q', toolCallId: 'a' }
      ]
    },
    { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: 'q', approved: true }] }
  ]
  expect(imported('ai-sdk', ...asked).turns).toBe(0)
  const done = [
    ...asked, { role: 'tool', content: [result('a', { type: 'text', value: 'r' })] }, { role: 'assistant', content: 'ok' }
  ]
  expect(imported('ai-sdk', ...done)).toMatchObject({ turns: 1, losses: [] })
})

test('reads images as data, data URLs and links, typed or not; the rest is named', () => {
  const content = [
    { type: 'image', image: '/9j/AA' }, { type: 'image', image: 'data:image/webp;base64,UklG', mediaType: 'image/webp' },
    {
      type: 'file', data: { type: 'data', data: 'AAAA' }, mediaType: 'image/png'
    }, { type: 'image', image: 'https://example.org/a.png' },
    { type: 'image', image: { 0: 137, 1: 80 } }, { type: 'file', data: 'JVBE', mediaType: 'application/pdf' }
  ]
  const whole = [
    { role: 'user', content }, { role: 'assistant', content: [{ type: 'reasoning', text: 'hm' }, { type: 'text', text: 'ok' }] }
  ]
  expect(said('ai-sdk', ...whole)[0]).toEqual({ role: 'user', content: [
    { type: 'image', data: '/9j/AA', mimeType: 'image/jpeg' }, { type: 'image', data: 'UklG', mimeType: 'image/webp' },
    { type: 'image', data: 'AAAA', mimeType: 'image/png' }
  ] })
  expect(imported('ai-sdk', ...whole).losses).toEqual(['image URLs', 'images', 'files', 'reasoning'])
})

test('reads version 4 as well: args and result', () => {
  expect(said('ai-sdk', { role: 'user', content: 'go' },
    { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'f', args: { n: 1 } }] },
    { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'f', result: { ok: true }, isError: true }] },
    { role: 'assistant', content: 'ok' }).slice(1, 3)).toEqual([
    { role: 'assistant', content: [call('a', 'f', '{"n":1}')] },
    { role: 'tool', toolCallId: 'a', name: 'f', content: [text('{"ok":true}')], isError: true }
  ])
})
