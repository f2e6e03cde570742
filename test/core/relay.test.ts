import type { MessageParam } from '@anthropic-ai/sdk/resources/messages'
import type { ChatCompletionToolMessageParam } from 'openai/resources/chat/completions'
import type { ResponseInputItem } from 'openai/resources/responses/responses'
import { describe, expect, test } from 'vitest'
import { text, type Block } from '../../src/core/events.ts'
import { relayFault, relayOf } from '../../src/core/relay.ts'
import type { RelayFormat } from '../../src/core/run.ts'
import { refusalToolResult, type CallToolResult } from '../../src/core/tool-result.ts'

const image: Block = { type: 'image', data: 'AAAA', mimeType: 'image/png' }
const done: CallToolResult = { isError: false, content: [text('done')] }
const pictured: CallToolResult = { isError: false, content: [text('see'), image] }
const structured: CallToolResult = { isError: false, content: [text('{"n":1}')], structuredContent: { n: 1 } }
const refused = refusalToolResult('subagent depth 4 exceeds maxDepth 3')
const REFUSED = 'Error: subagent depth 4 exceeds maxDepth 3'

const relay = (format: RelayFormat, result: CallToolResult) => relayOf(result, { format, toolCallId: 'c1', toolName: 'delegate' })

describe('5.2 anthropic', () => {
  const user = (part: object) => ({ relay: { role: 'user', content: [part] }, relayPart: part })

  test('a user message with a tool_result block; is_error only where it is one', () => {
    const expected: MessageParam = {
      role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'done' }] }]
    }
    expect(relay('anthropic', done).relay).toEqual(expected)
    expect(relay('anthropic', refused)).toEqual(
      user({ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: REFUSED }], is_error: true })
    )
  })

  test('images go along; a text of white space, which the API refuses, does not', () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
    expect(relay('anthropic', { isError: false, content: [text(' \n'), image] }))
      .toEqual(user({ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'image', source }] }))
  })
})

test('5.2 openai-chat: a tool message, an image in it becomes a word', () => {
  const expected: ChatCompletionToolMessageParam = { role: 'tool', tool_call_id: 'c1', content: 'see\n[image omitted]' }
  expect(relay('openai-chat', pictured)).toEqual({ relay: expected, relayPart: expected })
  expect(relay('openai-chat', refused).relay).toEqual({ role: 'tool', tool_call_id: 'c1', content: REFUSED })
  expect(relay('openai-chat', { isError: false, content: [] }).relay).toEqual({ role: 'tool', tool_call_id: 'c1', content: '' })
})

test('5.2 openai-responses: a function_call_output item, its images as parts', () => {
  const plain: ResponseInputItem.FunctionCallOutput = { type: 'function_call_output', call_id: 'c1', output: 'done' }
  expect(relay('openai-responses', done)).toEqual({ relay: plain, relayPart: plain })
  const parts: ResponseInputItem.FunctionCallOutput = {
    type: 'function_call_output',
    call_id: 'c1',
    output: [
      { type: 'input_text', text: 'see' }, { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' }
    ]
  }
  expect(relay('openai-responses', pictured).relay).toEqual(parts)
})

describe('5.2 ai-sdk', () => {
  test.for<[CallToolResult, object]>([
    [done, { type: 'text', value: 'done' }],
    [structured, { type: 'json', value: { n: 1 } }],
    [refused, { type: 'error-text', value: REFUSED }],
    [
      { ...structured, isError: true, content: [text('Error: subagent run was cancelled')] },
      { type: 'error-text', value: 'Error: subagent run was cancelled' }
    ],
    [
      pictured,
      { type: 'content', value: [{ type: 'text', text: 'see' }, { type: 'media', data: 'AAAA', mediaType: 'image/png' }] }
    ]
  ])('%j', ([result, output]) => {
    const part = { type: 'tool-result', toolCallId: 'c1', toolName: 'delegate', output }
    expect(relay('ai-sdk', result)).toEqual({ relay: { role: 'tool', content: [part] }, relayPart: part })
  })
})

test('5.2 nothing is added for mcp, without a format, or without a call to answer', () => {
  expect(relay('mcp', done)).toEqual({})
  expect(relayOf(done, { toolCallId: 'c1' })).toEqual({})
  for (const format of ['anthropic', 'openai-chat', 'openai-responses', 'ai-sdk', 'mcp'] as const) {
    expect(relayOf(done, { format, toolName: 'delegate' })).toEqual({})
    expect(relayFault({ format })).toBeUndefined()
    expect(relayFault({ format, toolCallId: 'c1', toolName: 'delegate' })).toBeUndefined()
  }
})

test('5.2 ai-sdk needs the tool\'s name', () => {
  expect(
    relayFault({ format: 'ai-sdk', toolCallId: 'c1' })
  ).toEqual({ pointer: '/toolName', detail: 'format "ai-sdk" needs "toolName" beside "toolCallId"' })
  expect(relayFault({ format: 'anthropic', toolCallId: 'c1' })).toBeUndefined()
  expect(relayOf(done, { format: 'ai-sdk', toolCallId: 'c1' })).toEqual({})
})

test('a relay is plain JSON that shares nothing a reader could change', () => {
  const result: CallToolResult = structuredClone(pictured)
  for (const format of ['anthropic', 'openai-chat', 'openai-responses', 'ai-sdk'] as const) {
    const made = relay(format, result)
    expect(JSON.parse(JSON.stringify(made))).toEqual(made)
  }
  expect(result).toEqual(pictured)
})
