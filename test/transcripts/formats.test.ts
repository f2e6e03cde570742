import { describe, expect, test } from 'vitest'
import { foldMessages, transcriptHeader, type ModelMessage } from '../../src/core/fold.ts'
import type { TranscriptFormat } from '../../src/core/transcript.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { COMPLETED_TEXTS, OPEN_DELEGATIONS, rawOf } from '../support/transcripts.ts'

const imported = (format: TranscriptFormat, ...messages: unknown[]) => importTranscript(rawOf({ format, messages }))
const said = (format: TranscriptFormat, ...messages: unknown[]): ModelMessage[] =>
  foldMessages(numbered(imported(format, ...messages).events)).map(({ wire: _wire, ...message }) => message)
const text = (value: string) => ({ type: 'text', text: value })
const call = (toolCallId: string, name: string, args: string) => ({ type: 'tool-call', toolCallId, name, arguments: args })

describe.for(Object.entries(OPEN_DELEGATIONS))('an open delegation in %s', ([format, { transcript, cut, toolCallId }]) => {
  const raw = rawOf(transcript)
  const { events, turns, tail, system, tools } = importTranscript(raw)

  test('3.6 is cut off with the turn it stands in', () => {
    expect(tail).toEqual(raw.messages.slice(cut))
    expect(tail.join()).toContain(toolCallId)
    expect(turns).toBe(1)
    expect(JSON.stringify(events.slice(1))).not.toContain(toolCallId)
  })

  test('leaves the completed turn as any model can read it', () => {
    const messages = foldMessages(numbered(events)).map(({ wire: _wire, ...message }) =>
      message.role === 'assistant' ? { ...message, content: message.content.filter((part) => part.type !== 'reasoning') } : message)
    const { ask, result, found } = COMPLETED_TEXTS
    const id = expect.any(String) as string
    expect(messages).toEqual([
      { role: 'user', content: [text(ask)] },
      { role: 'assistant', content: [call(id, 'run_tests', expect.stringMatching(/^\{ ?"branch": ?"main" ?\}$/) as string)] },
      { role: 'tool', toolCallId: id, name: 'run_tests', content: [text(result)], isError: false },
      { role: 'assistant', content: [text(found)] }
    ])
  })

  test('4.3 brings the host\'s system prompt and tools in front', () => {
    expect(events[0]).toEqual({ type: 'request/header', data: { system, tools, model: null, reason: 'transcript' } })
    expect(transcriptHeader(numbered(events))).toMatchObject({ system: [{ text: COMPLETED_TEXTS.instructions }] })
    expect(tools.map((tool) => tool.name)).toContain('delegate')
    expect(tools.find((tool) => tool.name === 'delegate')?.inputSchema).toMatchObject({ required: ['description', 'prompt'] })
    const keepsText = format === 'openai-chat' || format === 'anthropic'
    expect(tools.map((tool) => tool.wire)).toEqual((raw.tools ?? []).map((json) => keepsText ? { format, json } : undefined))
  })

  test('goes on where it stopped once the delegation is answered (3.5)', () => {
    const answers: Record<string, unknown[]> = {
      'openai-chat': [{ role: 'tool', tool_call_id: toolCallId, content: 'a race' }, { role: 'assistant', content: 'A race.' }],
      'openai-responses': [{ type: 'function_call_output', call_id: toolCallId, output: 'a race' }, { role: 'assistant', content: 'A race.' }],
      anthropic: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: toolCallId }] }, { role: 'assistant', content: 'A race.' }],
      'ai-sdk': [
        { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName: 'delegate', output: { type: 'json', value: 1 } }] },
        { role: 'assistant', content: 'A race.' }
      ]
    }
    const more = answers[format]
    if (!more) return expect(format).toBe('events')
    const then = importTranscript({ format: transcript.format, messages: [...tail, ...more.map((message) => JSON.stringify(message))] }, { firstTurn: 2 })
    expect(then.events[0]).toEqual({ type: 'turn/start', data: { turn: 2, origin: 'transcript' } })
    expect(then).toMatchObject({ turns: 1, tail: [], system: [], tools: [] })
  })
})

test('3.4 without a completed turn there are no events, and the system prompt and tools are still told', () => {
  const tools = [{ name: 'f', description: '', inputSchema: { type: 'object' } }]
  for (const format of ['openai-chat', 'openai-responses', 'anthropic', 'ai-sdk', 'events'] as const) {
    const first = importTranscript(rawOf({ format, system: 'Be kind.', tools, messages: [] }))
    expect(first).toMatchObject({ events: [], turns: 0, tail: [], system: [{ text: 'Be kind.' }], tools: [{ name: 'f' }], losses: [] })
  }
})

describe('openai-chat', () => {
  test('reads content parts, refusals, legacy functions and free-text tools', () => {
    expect(said('openai-chat',
      { role: 'user', name: 'ann', content: [{ type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }] },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'function', name: 'f', content: null },
      { role: 'assistant', content: null, tool_calls: [{ id: 'p', type: 'custom', custom: { name: 'patch', input: '*** Begin' } }] },
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
    const message = { role: 'assistant', content: '', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{"x": 1e400,' } }] }
    expect(said('openai-chat', { role: 'user', content: 'x' }, message, { role: 'tool', tool_call_id: 'a', content: 'r' }, { role: 'assistant', content: 'y' })[1])
      .toEqual({ role: 'assistant', content: [call('a', 'f', '{"x": 1e400,')] })
  })

  test('names what another kind of model will not see, once each, and only before the cut', () => {
    const parts = [{ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }, { type: 'input_audio', input_audio: {} }, { type: 'file', file: {} }]
    const answer = { role: 'assistant', content: 'x', reasoning_content: 'hm' }
    expect(imported('openai-chat', { role: 'user', content: parts }, { role: 'user', content: parts }, answer).losses)
      .toEqual(['image URLs', 'audio', 'files', 'reasoning'])
    expect(imported('openai-chat', { role: 'user', content: 'x' }, { role: 'assistant', content: 'y' }, { role: 'user', content: parts }).losses).toEqual([])
  })

  test('system messages at the head are the system prompt, with their own texts; later ones stay in their place', () => {
    const messages = ['{"role":"system","content":"A"}', '{ "role":"developer","content":[{"type":"text","text":"B"}]}', '{"role":"user","content":"C"}',
      '{"role":"system","content":"D"}', '{"role":"assistant","content":"E"}']
    const { system, events, turns } = importTranscript({ format: 'openai-chat', messages })
    expect(system).toEqual([{ text: 'A\n\nB', wire: { format: 'openai-chat', json: messages.slice(0, 2).join(',') } }])
    expect(turns).toBe(1)
    expect(foldMessages(numbered(events)).map((message) => [message.role, message.wire?.json])).toEqual([['user', messages[2]], ['user', messages[3]], ['assistant', messages[4]]])
    const later = importTranscript({ format: 'openai-chat', messages }, { firstTurn: 2 })
    expect(later.system).toEqual([])
    expect(foldMessages(numbered(later.events))).toHaveLength(5)
  })

  test('a system prompt beside the messages becomes a system message around its own text', () => {
    const { system } = importTranscript({ format: 'openai-chat', system: '"A\\u0042"', messages: [] })
    expect(system).toEqual([{ text: 'AB', wire: { format: 'openai-chat', json: '{"role":"system","content":"A\\u0042"}' } }])
  })
})

describe('anthropic', () => {
  test('a user message with results and text is a result, then a message: its text stands once', () => {
    const messages = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: { n: 1 } }, { type: 'tool_use', id: 'b', name: 'g', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'b', is_error: true, content: 'no' }, { type: 'tool_result', tool_use_id: 'a' }, { type: 'text', text: 'and?' }] },
      { role: 'assistant', content: 'done' }
    ]
    expect(said('anthropic', ...messages).slice(2)).toEqual([
      { role: 'tool', toolCallId: 'b', name: 'g', content: [text('no')], isError: true },
      { role: 'tool', toolCallId: 'a', name: 'f', content: [], isError: false },
      { role: 'user', content: [text('and?')] },
      { role: 'assistant', content: [text('done')] }
    ])
    const wires = foldMessages(numbered(imported('anthropic', ...messages).events)).map((message) => message.wire?.json)
    expect(wires).toEqual([JSON.stringify(messages[0]), JSON.stringify(messages[1]), JSON.stringify(messages[2]), '', '', JSON.stringify(messages[3])])
  })

  test('4.1 a server tool answered inside the assistant message is not open', () => {
    const search = { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } }
    const found = { type: 'web_search_tool_result', tool_use_id: 's', content: [] }
    const whole = imported('anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search, found, { type: 'text', text: 'ok' }] })
    expect(whole).toMatchObject({ turns: 1, tail: [], losses: ['server tool calls'] })
    const paused = imported('anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search] })
    expect(paused).toMatchObject({ turns: 0 })
    const resumed = imported('anthropic', { role: 'user', content: 'go' }, { role: 'assistant', content: [search] }, { role: 'assistant', content: [found] })
    expect(resumed).toMatchObject({ turns: 1, tail: [] })
  })

  test('keeps thoughts with their proof, and names what only its own kind sees', () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 'sig' }, { type: 'redacted_thinking', data: 'zzz' }, { type: 'text', text: 'ok' },
      { type: 'compaction', content: 'x' }
    ]
    const documents = [
      { type: 'document', source: {} }, { type: 'search_result', content: [] }, { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } },
      { type: 'image', source: { type: 'file', file_id: 'f' } }, { type: 'image', source: { type: 'base64', media_type: 'image/gif', data: 'R0lG' } }
    ]
    expect(said('anthropic', { role: 'user', content: documents }, { role: 'assistant', content })).toEqual([
      { role: 'user', content: [{ type: 'image', data: 'R0lG', mimeType: 'image/gif' }] },
      { role: 'assistant', content: [{ type: 'reasoning', text: 'hm', signature: 'sig' }, { type: 'reasoning', text: '', redacted: 'zzz' }, text('ok')] }
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
    expect(foldMessages(numbered(events))[1]).toEqual({ role: 'user', content: [text('C')], wire: { format: 'anthropic', json: messages[1] } })
  })
})

describe('openai-responses', () => {
  test('4.1 adjacent items of the model are one assistant message, server tools in it are not open', () => {
    const messages = said('openai-responses',
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go' }, { type: 'input_image', image_url: 'data:image/jpeg;base64,/9j/' }] },
      { type: 'reasoning', id: 'r', summary: [] },
      { type: 'function_call', call_id: 'a', name: 'f', arguments: '{"n":1}' },
      { type: 'custom_tool_call', call_id: 'b', name: 'patch', input: 'raw' },
      { type: 'function_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'B' }] },
      { type: 'function_call_output', call_id: 'a', output: 'A' },
      { type: 'web_search_call', id: 'w', status: 'completed', action: {} },
      { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: 'ok', annotations: [] }, { type: 'refusal', refusal: 'no' }] }
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
    const items = [{ role: 'user', content: 'go' }, shell, { type: 'local_shell_call_output', id: 's', output: 'a.txt' }, computer]
    expect(imported('openai-responses', ...items).turns).toBe(0)
    const shot = { type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AAAA' } }
    const { turns, events } = imported('openai-responses', ...items, shot, { role: 'assistant', content: 'ok' })
    expect(turns).toBe(1)
    expect(foldMessages(numbered(events))).toMatchObject([
      {}, { content: [call('s', 'local_shell', '{"action":{"command":["ls"]}}')] }, { content: [text('a.txt')] },
      { content: [{ name: 'computer' }] }, { content: [{ type: 'image', data: 'AAAA' }] }, {}
    ])
  })

  test('an approval that the model waits for is not the end of a turn', () => {
    const asked = [{ role: 'user', content: 'go' }, { type: 'mcp_approval_request', id: 'q', name: 'f', arguments: '{}', server_label: 's' }]
    expect(imported('openai-responses', ...asked).turns).toBe(0)
    const given = { type: 'mcp_approval_response', approval_request_id: 'q', approve: true }
    expect(imported('openai-responses', ...asked, given, { role: 'assistant', content: 'ok' }).turns).toBe(1)
  })

  test('names what it cannot translate', () => {
    expect(imported('openai-responses', { id: 'm1' }, { type: 'item_reference', id: 'm2' }, { type: 'brand_new' },
      { role: 'user', content: [{ type: 'input_image', file_id: 'f' }, { type: 'input_image', image_url: 'https://example.org/a.png' }] },
      { type: 'reasoning', id: 'r', summary: [] }, { role: 'assistant', content: 'ok' }).losses)
      .toEqual(['item references', 'other content', 'files', 'image URLs', 'reasoning items'])
  })

  test('developer messages at the head are the system prompt', () => {
    const { system, turns } = imported('openai-responses', { role: 'developer', content: [{ type: 'input_text', text: 'A' }] }, { role: 'user', content: 'x' }, { role: 'assistant', content: 'y' })
    expect({ system, turns }).toEqual({ system: [{ text: 'A' }], turns: 1 })
  })
})

describe('ai-sdk', () => {
  const result = (toolCallId: string, output: unknown) => ({ type: 'tool-result', toolCallId, toolName: 'f', output })

  test('reads each kind of tool output', () => {
    const outputs = [
      { type: 'text', value: 'T' }, { type: 'json', value: { n: 1 } }, { type: 'error-text', value: 'E' }, { type: 'error-json', value: [1] },
      { type: 'execution-denied', reason: 'not now' }, { type: 'execution-denied' },
      { type: 'content', value: [{ type: 'text', text: 'C' }, { type: 'media', data: 'AAAA', mediaType: 'image/png' }, { type: 'image-data', data: 'BBBB', mediaType: 'image/gif' }] }
    ]
    const messages = said('ai-sdk',
      { role: 'user', content: 'go' },
      { role: 'assistant', content: outputs.map((_, i) => ({ type: 'tool-call', toolCallId: `c${i}`, toolName: 'f', input: { i } })) },
      { role: 'tool', content: outputs.map((output, i) => result(`c${i}`, output)) },
      { role: 'assistant', content: 'ok' }
    )
    expect(messages.slice(2, -1).map((message) => message.role === 'tool' && [message.isError, message.content])).toEqual([
      [false, [text('T')]], [false, [text('{"n":1}')]], [true, [text('E')]], [true, [text('[1]')]],
      [true, [text('not now')]], [true, [text('Tool execution denied.')]],
      [false, [text('C'), { type: 'image', data: 'AAAA', mimeType: 'image/png' }, { type: 'image', data: 'BBBB', mimeType: 'image/gif' }]]
    ])
  })

  test('4.1 what the provider executed is not open, and is no call of the host', () => {
    const search = { type: 'tool-call', toolCallId: 's', toolName: 'web_search', input: {}, providerExecuted: true }
    const whole = [{ role: 'user', content: 'go' }, { role: 'assistant', content: [search, result('s', { type: 'json', value: [] }), { type: 'text', text: 'ok' }] }]
    expect(imported('ai-sdk', ...whole)).toMatchObject({ turns: 1, losses: ['server tool calls'] })
    expect(said('ai-sdk', ...whole)[1]).toEqual({ role: 'assistant', content: [text('ok')] })
  })

  test('an approval that is asked for and given leaves the call open until its result', () => {
    const asked = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'f', input: {} }, { type: 'tool-approval-request', approvalId: 'q', toolCallId: 'a' }] },
      { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: 'q', approved: true }] }
    ]
    expect(imported('ai-sdk', ...asked).turns).toBe(0)
    const done = [...asked, { role: 'tool', content: [result('a', { type: 'text', value: 'r' })] }, { role: 'assistant', content: 'ok' }]
    expect(imported('ai-sdk', ...done)).toMatchObject({ turns: 1, losses: [] })
  })

  test('reads images as data, data URLs and links, typed or not; the rest is named', () => {
    const content = [
      { type: 'image', image: '/9j/AA' }, { type: 'image', image: 'data:image/webp;base64,UklG', mediaType: 'image/webp' },
      { type: 'file', data: { type: 'data', data: 'AAAA' }, mediaType: 'image/png' }, { type: 'image', image: 'https://example.org/a.png' },
      { type: 'image', image: { 0: 137, 1: 80 } }, { type: 'file', data: 'JVBE', mediaType: 'application/pdf' }
    ]
    const whole = [{ role: 'user', content }, { role: 'assistant', content: [{ type: 'reasoning', text: 'hm' }, { type: 'text', text: 'ok' }] }]
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
})
