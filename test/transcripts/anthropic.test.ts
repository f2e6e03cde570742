import { expect, test } from 'vitest'
import { foldMessages } from '../../src/core/fold.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { imported, said, text } from './said.ts'

test('a user message with results and text is a result, then a message: its text stands once', () => {
  const messages = [
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: [{ type: 'tool_use', id: 'a', name: 'f', input: { n: 1 } }, { type: 'tool_use', id: 'b', name: 'g', input: {} }]
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'b', is_error: true, content: 'no' }, { type: 'tool_result', tool_use_id: 'a' },
        { type: 'text', text: 'and?' }
      ]
    },
    { role: 'assistant', content: 'done' }
  ]
  expect(said('anthropic', ...messages).slice(2)).toEqual([
    { role: 'tool', toolCallId: 'b', name: 'g', content: [text('no')], isError: true },
    { role: 'tool', toolCallId: 'a', name: 'f', content: [], isError: false },
    { role: 'user', content: [text('and?')] },
    { role: 'assistant', content: [text('done')] }
  ])
  const wires = foldMessages(numbered(imported('anthropic', ...messages).events)).map((message) => message.wire?.json)
  expect(wires).toEqual(
    [JSON.stringify(messages[0]), JSON.stringify(messages[1]), JSON.stringify(messages[2]), '', '', JSON.stringify(messages[3])]
  )
})

test('4.1 a server tool answered inside the assistant message is not open', () => {
  const search = { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } }
  const found = { type: 'web_search_tool_result', tool_use_id: 's', content: [] }
  const whole = imported(
    'anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search, found, { type: 'text', text: 'ok' }] }
  )
  expect(whole).toMatchObject({ turns: 1, tail: [], losses: ['server tool calls'] })
  const paused = imported('anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search] })
  expect(paused).toMatchObject({ turns: 0 })
  const resumed = imported(
    'anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search] },
    { role: 'assistant', content: [found] }
  )
  expect(resumed).toMatchObject({ turns: 1, tail: [] })
})

test('keeps thoughts with their proof, and names what only its own kind sees', () => {
  const content = [
    {
      type: 'thinking', thinking: 'hm', signature: 'sig'
    }, { type: 'redacted_thinking', data: 'zzz' }, { type: 'text', text: 'ok' },
    { type: 'compaction', content: 'x' }
  ]
  const documents = [
    { type: 'document', source: {} }, { type: 'search_result', content: [] }, {
      type: 'image', source: { type: 'url', url: 'https://example.org/a.png' }
    },
    {
      type: 'image', source: { type: 'file', file_id: 'f' }
    }, { type: 'image', source: { type: 'base64', media_type: 'image/gif', data: 'R0lG' } }
  ]
  expect(said('anthropic', { role: 'user', content: documents }, { role: 'assistant', content })).toEqual([
    { role: 'user', content: [{ type: 'image', data: 'R0lG', mimeType: 'image/gif' }] },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm', signature: 'sig' }, { type: 'reasoning', text: '', redacted: 'zzz' }, text('ok')
      ]
    }
  ])
  expect(imported('anthropic', { role: 'user', content: documents }, { role: 'assistant', content }).losses)
    .toEqual(['documents', 'search results', 'image URLs', 'files', 'reasoning', 'other content'])
})

test('its system prompt stands beside, verbatim; a system message among the messages is a message', () => {
  const json = '[ {"type":"text","text":"A","cache_control":{"type":"ephemeral"}},{"type":"text","text":"B"}]'
  const messages = ['{"role":"user","content":"go"}', '{"role":"system","content":"C"}', '{"role":"assistant","content":"ok"}']
  const { system, turns, events } = importTranscript({ format: 'anthropic', system: json, messages })
  expect(system).toEqual([{ text: 'A\n\nB', wire: { format: 'anthropic', json } }])
  expect(turns).toBe(1)
  expect(foldMessages(numbered(events))[1]).toEqual(
    { role: 'user', content: [text('C')], wire: { format: 'anthropic', json: messages[1] } }
  )
})
