import { expect, test } from 'vitest'
import { foldMessages } from '../../src/core/fold.ts'
import { numbered } from '../core/histories.ts'
import { call, imported, said, text } from './said.ts'

test('4.1 adjacent items of the model are one assistant message, server tools in it are not open', () => {
  const messages = said('openai-responses',
    {
      type: 'message', role: 'user',
      content: [{ type: 'input_text', text: 'go' }, { type: 'input_image', image_url: 'data:image/jpeg;base64,/9j/' }]
    },
    { type: 'reasoning', id: 'r', summary: [] },
    { type: 'function_call', call_id: 'a', name: 'f', arguments: '{"n":1}' },
    { type: 'custom_tool_call', call_id: 'b', name: 'patch', input: 'raw' },
    { type: 'function_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'B' }] },
    { type: 'function_call_output', call_id: 'a', output: 'A' },
    { type: 'web_search_call', id: 'w', status: 'completed', action: {} },
    {
      type: 'message', id: 'm', role: 'assistant',
      content: [{ type: 'output_text', text: 'ok', annotations: [] }, { type: 'refusal', refusal: 'no' }]
    }
  )
  expect(messages).toEqual([
    { role: 'user', content: [text('go'), { type: 'image', data: '/9j/', mimeType: 'image/jpeg' }] },
    { role: 'assistant', content: [call('a', 'f', '{"n":1}'), call('b', 'patch', '{"input":"raw"}')] },
    { role: 'tool', toolCallId: 'a', name: 'f', content: [text('A')], isError: false },
    { role: 'tool', toolCallId: 'b', name: 'patch', content: [text('B')], isError: false },
    { role: 'assistant', content: [text('ok'), text('no')] }
  ])
})

test('the vendor\'s tools that the host runs are open until their output comes', () => {
  const shell = { type: 'local_shell_call', id: 'i', call_id: 's', action: { command: ['ls'] }, status: 'completed' }
  const computer = { type: 'computer_call', call_id: 'c', action: { type: 'screenshot' } }
  const items = [
    { role: 'user', content: 'go' }, shell, { type: 'local_shell_call_output', id: 's', output: 'a.txt' }, computer
  ]
  expect(imported('openai-responses', ...items).turns).toBe(0)
  const shot = {
    type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AAAA' }
  }
  const { turns, events } = imported('openai-responses', ...items, shot, { role: 'assistant', content: 'ok' })
  expect(turns).toBe(1)
  expect(foldMessages(numbered(events))).toMatchObject([
    {}, { content: [call('s', 'local_shell', '{"action":{"command":["ls"]}}')] }, { content: [text('a.txt')] },
    { content: [{ name: 'computer' }] }, { content: [{ type: 'image', data: 'AAAA' }] }, {}
  ])
})

test('an approval that the model waits for is not the end of a turn', () => {
  const asked = [
    { role: 'user', content: 'go' }, { type: 'mcp_approval_request', id: 'q', name: 'f', arguments: '{}', server_label: 's' }
  ]
  expect(imported('openai-responses', ...asked).turns).toBe(0)
  const given = { type: 'mcp_approval_response', approval_request_id: 'q', approve: true }
  expect(imported('openai-responses', ...asked, given, { role: 'assistant', content: 'ok' }).turns).toBe(1)
})

test('names what it cannot translate', () => {
  expect(imported('openai-responses', { id: 'm1' }, { type: 'item_reference', id: 'm2' }, { type: 'brand_new' },
    {
      role: 'user',
      content: [{ type: 'input_image', file_id: 'f' }, { type: 'input_image', image_url: 'https://example.org/a.png' }]
    },
    { type: 'reasoning', id: 'r', summary: [] }, { role: 'assistant', content: 'ok' }).losses)
    .toEqual(['item references', 'other content', 'files', 'image URLs', 'reasoning items'])
})

test('developer messages at the head are the system prompt', () => {
  const { system, turns } = imported(
    'openai-responses', { role: 'developer', content: [{ type: 'input_text', text: 'A' }] }, { role: 'user', content: 'x' },
    { role: 'assistant', content: 'y' }
  )
  expect({ system, turns }).toEqual({ system: [{ text: 'A' }], turns: 1 })
})
