import { expect, test } from 'vitest'
import { foldMessages } from '../../src/core/fold.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { call, imported, said, text } from './said.ts'

test('reads content parts, refusals, legacy functions and free-text tools', () => {
  expect(said('openai-chat',
    {
      role: 'user', name: 'ann',
      content: [
        { type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }
      ]
    },
    { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
    { role: 'function', name: 'f', content: null },
    {
      role: 'assistant', content: null, tool_calls: [{ id: 'p', type: 'custom', custom: { name: 'patch', input: '*** Begin' } }]
    },
    { role: 'tool', tool_call_id: 'p', content: [{ type: 'text', text: 'done' }] },
    { role: 'assistant', content: null, refusal: 'I will not.' }
  )).toEqual([
    { role: 'user', content: [text('look'), { type: 'image', data: 'AAAA', mimeType: 'image/png' }] },
    { role: 'assistant', content: [call('function_f', 'f', '{}')] },
    { role: 'tool', toolCallId: 'function_f', name: 'f', content: [text('')], isError: false },
    { role: 'assistant', content: [call('p', 'patch', '{"input":"*** Begin"}')] },
    { role: 'tool', toolCallId: 'p', name: 'patch', content: [text('done')], isError: false },
    { role: 'assistant', content: [text('I will not.')] }
  ])
})

test('4.2 keeps argument texts as the model wrote them, valid or not', () => {
  const message = {
    role: 'assistant', content: '',
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{"x": 1e400,' } }]
  }
  expect(
    said(
      'openai-chat', { role: 'user', content: 'x' }, message, { role: 'tool', tool_call_id: 'a', content: 'r' },
      { role: 'assistant', content: 'y' }
    )[1]
  )
    .toEqual({ role: 'assistant', content: [call('a', 'f', '{"x": 1e400,')] })
})

test('names what another kind of model will not see, once each, and only before the cut', () => {
  const parts = [
    { type: 'image_url', image_url: { url: 'https://example.org/a.png' } }, { type: 'input_audio', input_audio: {} },
    { type: 'file', file: {} }
  ]
  const answer = { role: 'assistant', content: 'x', reasoning_content: 'hm' }
  expect(imported('openai-chat', { role: 'user', content: parts }, { role: 'user', content: parts }, answer).losses)
    .toEqual(['image URLs', 'audio', 'files', 'reasoning'])
  expect(
    imported(
      'openai-chat', { role: 'user', content: 'x' }, { role: 'assistant', content: 'y' }, { role: 'user', content: parts }
    ).losses
  ).toEqual([])
})

test('system messages at the head are the system prompt, with their own texts; later ones stay in their place', () => {
  const messages = [
    '{"role":"system","content":"A"}', '{ "role":"developer","content":[{"type":"text","text":"B"}]}', '{"role":"user","content":"C"}',
    '{"role":"system","content":"D"}', '{"role":"assistant","content":"E"}'
  ]
  const { system, events, turns } = importTranscript({ format: 'openai-chat', messages })
  expect(system).toEqual([{ text: 'A\n\nB', wire: { format: 'openai-chat', json: messages.slice(0, 2).join(',') } }])
  expect(turns).toBe(1)
  expect(
    foldMessages(numbered(events)).map((message) => [message.role, message.wire?.json])
  ).toEqual([['user', messages[2]], ['user', messages[3]], ['assistant', messages[4]]])
  const later = importTranscript({ format: 'openai-chat', messages }, { firstTurn: 2 })
  expect(later.system).toEqual([])
  expect(foldMessages(numbered(later.events))).toHaveLength(5)
})

test('a system prompt beside the messages becomes a system message around its own text', () => {
  const { system } = importTranscript({ format: 'openai-chat', system: '"A\\u0042"', messages: [] })
  expect(system).toEqual([{ text: 'AB', wire: { format: 'openai-chat', json: '{"role":"system","content":"A\\u0042"}' } }])
})
