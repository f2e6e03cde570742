import { describe, expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import type { ImportOptions, RawTranscript, TranscriptFormat } from '../../src/core/transcript.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { rawOf } from '../support/transcripts.ts'

const user = { role: 'user', content: 'x' }
const chatCall = {
  role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
}
const chatResult = { role: 'tool', tool_call_id: 'a', content: 'r' }
const claudeCall = { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] }
const claudeResult = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'r' }] }

const CASES: [TranscriptFormat, unknown[], string][] = [
  ['openai-chat', [user, 'hello'], 'must be an object'],
  ['openai-chat', [user, null], 'must be an object'],
  ['openai-chat', [[user]], 'must be an object'],
  ['openai-chat', [{ role: 'model', content: 'x' }], 'unknown role "model"'],
  ['openai-chat', [{ content: 'x' }], 'unknown role nothing'],
  ['openai-chat', [{ role: ['user'], content: 'x' }], 'unknown role ["user"]'],
  ['openai-chat', [{ role: 'user' }], '"content" must be a string or an array'],
  ['openai-chat', [{ role: 'user', content: [1] }], '"content" must be an array of objects'],
  ['openai-chat', [{ role: 'user', content: [{ text: 'x' }] }], 'a content part has no "type"'],
  ['openai-chat', [{ role: 'user', content: [{ type: 'text', text: 7 }] }], '"text" must be a string'],
  ['openai-chat', [user, { role: 'assistant' }], '"content" is missing'],
  ['openai-chat', [user, { role: 'assistant', content: 'x', tool_calls: {} }], '"tool_calls" must be an array of objects'],
  [
    'openai-chat', [user, { role: 'assistant', content: 'x', tool_calls: [{ id: 'a' }] }],
    'a tool call has neither "function" nor "custom"'
  ],
  ['openai-chat', [user, { role: 'assistant', tool_calls: [{ id: 1, function: {} }] }], '"id" must be a string'],
  [
    'openai-chat', [user, { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: 3 } }] }],
    '"arguments" must be a string'
  ],
  ['openai-chat', [user, { role: 'tool', content: 'r' }], '"tool_call_id" must be a string'],
  ['openai-chat', [user, chatResult], 'tool result for an unknown call "a"'],
  ['openai-chat', [user, chatCall, chatResult, chatResult], 'the call "a" is answered already'],
  ['anthropic', [user, { role: 'tool', content: 'r' }], 'unknown role "tool"'],
  ['anthropic', [user, claudeResult], 'tool result for an unknown call "a"'],
  ['anthropic', [user, claudeCall, claudeResult, claudeResult], 'the call "a" is answered already'],
  ['anthropic', [user, { role: 'assistant', content: null }], '"content" must be an array of objects'],
  ['anthropic', [user, { role: 'assistant', content: claudeResult.content }], 'a "tool_result" block belongs in a user message'],
  ['anthropic', [{ role: 'user', content: claudeCall.content }], 'a "tool_use" block does not belong here'],
  [
    'anthropic', [user, { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f' }] }],
    'a "tool_use" block has no "input"'
  ],
  ['anthropic', [{ role: 'user', content: [{ type: 'image' }] }], 'an image block has no "source"'],
  ['openai-responses', [user, { type: 'function_call', call_id: 'a', name: 'f' }], '"arguments" must be a string'],
  [
    'openai-responses', [user, { type: 'function_call_output', call_id: 'a', output: 'r' }], 'tool result for an unknown call "a"'
  ],
  ['openai-responses', [{}], 'the item has neither "type" nor "role"'],
  ['openai-responses', [{ role: 'tool', content: '' }], 'unknown role "tool"'],
  [
    'ai-sdk', [user, { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'f' }] }],
    'a "tool-call" part has no "input"'
  ],
  ['ai-sdk', [user, { role: 'tool', content: 'r' }], '"content" must be an array of objects'],
  ['ai-sdk', [{ role: 'tool', content: [{ type: 'text', text: 'r' }] }], 'a tool message holds no part of type "text"'],
  [
    'ai-sdk', [{ role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', output: 'r' }] }],
    'a "tool-result" part has no "output" with a "type"'
  ],
  [
    'ai-sdk', [{ role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', output: { type: 'text', value: '' } }] }],
    'tool result for an unknown call "a"'
  ],
  ['events', [7], 'must be an object']
]

test.for(CASES)('4.5 %s: the last of %j is refused', ([format, messages, reason]) => {
  const at = messages.length - 1
  const refusal = refuse(
    'TRANSCRIPT_INVALID', { detail: `transcript.messages[${at}]: ${reason}`, pointer: `/parent/transcript/messages/${at}` }
  )
  expect(() => importTranscript(rawOf({ format, messages }))).toThrow(refusal)
})

test('4.5 a malformed message after the cut is refused as well', () => {
  const messages = [user, { role: 'assistant', content: 'done' }, { role: 'nobody' }]
  expect(
    () => importTranscript(rawOf({ format: 'openai-chat', messages }))
  ).toThrow('transcript.messages[2]: unknown role "nobody"')
})

test('ids that repeat are calls of their own, answered in their order', () => {
  const { turns } = importTranscript(
    rawOf(
      { format: 'openai-chat', messages: [user, chatCall, chatResult, chatCall, chatResult, { role: 'assistant', content: 'y' }] }
    )
  )
  expect(turns).toBe(1)
})

test('a refusal points into the body that the transcript came in', () => {
  const raw = rawOf({ format: 'openai-chat', messages: [user, chatCall, { role: 'nobody' }] })
  const fails = (options: ImportOptions) => expect(() => importTranscript(raw, options))
  fails({ pointer: '/transcript' }).toThrow(
    refuse('TRANSCRIPT_INVALID', { detail: 'transcript.messages[2]: unknown role "nobody"', pointer: '/transcript/messages/2' })
  )
  fails(
    { pointer: '', known: 2, firstTurn: 4 }
  ).toThrow(refuse('TRANSCRIPT_INVALID', { detail: 'messages[0]: unknown role "nobody"', pointer: '/messages/0' }))
})

describe('4.2 a system prompt both beside and in the messages', () => {
  const detail = 'transcript.system: the messages begin with a system prompt of their own: give one of the two'
  const refusal = refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/parent/transcript/system', detail }] })
  test.for(
    [['openai-chat', 'system'], ['openai-chat', 'developer'], ['openai-responses', 'developer'], ['ai-sdk', 'system']] as const
  )('%s: %s', ([format, role]) => {
    expect(() => importTranscript(rawOf({ format, system: 'A', messages: [{ role, content: 'B' }, user] }))).toThrow(refusal)
  })
})

test.for(
  [1, {}, [{}], [[1]], null, { content: {} }, [[[{ text: 2 }]]]]
)('4.5 a system prompt that is no text is refused: %j', (system) => {
  const refusal = refuse(
    'TRANSCRIPT_INVALID',
    { detail: 'transcript.system: must be a text or an array of texts', pointer: '/parent/transcript/system' }
  )
  expect(() => importTranscript(rawOf({ format: 'anthropic', system, messages: [] }))).toThrow(refusal)
})

test.for([
  ['f', 'must be an object'],
  [{ description: 'x' }, 'the tool has no "name"'],
  [{ name: '' }, 'the tool has no "name"'],
  [{ type: 'function', function: { parameters: {} } }, 'the tool has no "name"'],
  [{ name: 'f', inputSchema: 'object' }, 'the input schema must be an object'],
  [{ name: 'f', description: 1 }, '"description" must be a string'],
  [{ name: 'g' }, 'a tool named "g" is there already']
] as const)('4.5 a malformed tool is refused: %j', ([tool, reason]) => {
  const refusal = refuse(
    'TRANSCRIPT_INVALID', { detail: `transcript.tools[1]: ${reason}`, pointer: '/parent/transcript/tools/1' }
  )
  expect(() => importTranscript(rawOf({ format: 'openai-chat', tools: [{ name: 'g' }, tool], messages: [] }))).toThrow(refusal)
})

describe('hostile input gets a refusal or an answer, never a crash', () => {
  const nested = (levels: number): string => `${'['.repeat(levels)}1${']'.repeat(levels)}`
  const withTexts = (format: TranscriptFormat, ...messages: string[]): RawTranscript => ({ format, messages })

  test.for(['openai-chat', 'openai-responses', 'anthropic', 'ai-sdk', 'events'] as const)('%s: nesting without end', (format) => {
    const text = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":${nested(100_000)}}]}`
    expect(() => importTranscript(withTexts(format, text))).toThrow('transcript.messages[0]: nests deeper than 128 levels')
    expect(
      () => importTranscript({ format, system: nested(100_000), messages: [] })
    ).toThrow('transcript.system: nests deeper than 128 levels')
    expect(
      () => importTranscript({ format, tools: [`{"name":"f","inputSchema":${nested(100_000)}}`], messages: [] })
    ).toThrow('transcript.tools[0]: nests deeper')
  })

  test('a message of two hundred thousand parts is a message like any other', () => {
    const parts = (part: object) => Array.from({ length: 200_000 }, () => part)
    const claude = [
      user, claudeCall, {
        role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: parts({ type: 'document' }) }]
      }, { role: 'assistant', content: 'x' }
    ]
    expect(importTranscript(rawOf({ format: 'anthropic', messages: claude })).losses).toEqual(['documents'])
    const results = {
      role: 'tool',
      content: [{ type: 'tool-result', toolCallId: 'a', output: { type: 'content', value: parts({ type: 'file-id' }) } }]
    }
    const sdk = [
      user, { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'f', input: {} }] }, results,
      { role: 'assistant', content: 'x' }
    ]
    expect(importTranscript(rawOf({ format: 'ai-sdk', messages: sdk })).losses).toEqual(['files'])
    const calls = { role: 'assistant', content: parts({ type: 'tool_use', id: 'a', name: 'f', input: {} }) }
    const answers = { role: 'user', content: parts({ type: 'tool_result', tool_use_id: 'a' }) }
    expect(
      importTranscript(rawOf({ format: 'anthropic', messages: [calls, answers, { role: 'assistant', content: 'x' }] })).turns
    ).toBe(1)
  })

  test('names of prototypes are names like any other', () => {
    for (const key of ['__proto__', 'constructor', 'toString']) {
      expect(
        () => importTranscript(withTexts('openai-chat', `{"${key}":{"role":"user","content":"x"}}`))
      ).toThrow('unknown role nothing')
      expect(() => importTranscript(withTexts('openai-chat', `{"role":"${key}","content":"x"}`))).toThrow(`unknown role "${key}"`)
      const id = `{"role":"assistant","tool_calls":[{"id":"${key}","function":{"name":"f","arguments":""}}]}`
      expect(
        () => importTranscript(withTexts('openai-chat', `{"role":"tool","tool_call_id":"${key}","content":""}`))
      ).toThrow('unknown call')
      expect(
        importTranscript(
          withTexts(
            'openai-chat', id, `{"role":"tool","tool_call_id":"${key}","content":""}`, '{"role":"assistant","content":"x"}'
          )
        ).turns
      ).toBe(1)
      expect(() => importTranscript(withTexts('openai-responses', `{"type":"${key}"}`))).not.toThrow()
    }
  })

  test('a megabyte of name makes a short refusal', () => {
    const long = 'x'.repeat(1_000_000)
    for (const message of [{ role: long }, { role: 'tool', tool_call_id: long, content: '' }]) {
      expect(() => importTranscript(rawOf({ format: 'openai-chat', messages: [message] }))).toThrow(/^.{0,200}$/s)
    }
  })

  test('text that is not JSON is refused, should it ever come here', () => {
    expect(() => importTranscript(withTexts('anthropic', '{'))).toThrow('transcript.messages[0]: is not JSON')
  })

  test('lone surrogates and NUL pass through', () => {
    const text = '{"role":"assistant","content":"\\ud800\\u0000"}'
    expect(
      importTranscript(withTexts('openai-chat', text)).events[2]
    ).toMatchObject({ data: { content: [{ text: '\ud800\0' }], wire: { json: text } } })
  })

  test('a hundred thousand messages, and as many calls of one id in one message, are taken in one pass', () => {
    const many = Array.from(
      { length: 100_000 }, (_, i) => i % 2 === 0 ? '{"role":"user","content":"x"}' : '{"role":"assistant","content":"y"}'
    )
    expect(importTranscript(withTexts('openai-chat', ...many)).turns).toBe(50_000)
    const calls = JSON.stringify(
      {
        role: 'assistant',
        tool_calls: Array.from({ length: 100_000 }, () => ({ id: 'a', function: { name: 'f', arguments: '' } }))
      }
    )
    const results = Array.from({ length: 100_000 }, () => '{"role":"tool","tool_call_id":"a","content":""}')
    expect(
      importTranscript(withTexts('openai-chat', calls, ...results, '{"role":"assistant","content":"y"}')).events
    ).toHaveLength(100_008)
  })
})
