import { describe, expect, test } from 'vitest'
import { transcriptHeader } from '../../src/core/fold.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { COMPLETED_TEXTS, OPEN_DELEGATIONS, rawOf } from '../support/transcripts.ts'
import { call, neutral, text } from './said.ts'

describe.for(Object.entries(OPEN_DELEGATIONS))('an open delegation in %s', ([format, { transcript, cut, toolCallId }]) => {
  const raw = rawOf(transcript)
  const whole = importTranscript(raw)
  const { events, turns, tail, system, tools } = whole

  test('3.6 is cut off with the turn it stands in', () => {
    expect(tail).toEqual(raw.messages.slice(cut))
    expect(tail.join()).toContain(toolCallId)
    expect(turns).toBe(1)
    expect(JSON.stringify(events.slice(1))).not.toContain(toolCallId)
  })

  test('leaves the completed turn as any model can read it', () => {
    const messages = neutral(whole).map((message) =>
      message.role === 'assistant' ? {
        ...message, content: message.content.filter((part) => part.type !== 'reasoning')
      } : message)
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
      'openai-responses': [
        { type: 'function_call_output', call_id: toolCallId, output: 'a race' }, { role: 'assistant', content: 'A race.' }
      ],
      anthropic: [
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: toolCallId }] }, { role: 'assistant', content: 'A race.' }
      ],
      'ai-sdk': [
        {
          role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName: 'delegate', output: { type: 'json', value: 1 } }]
        },
        { role: 'assistant', content: 'A race.' }
      ]
    }
    const more = answers[format]
    if (!more) return expect(format).toBe('events')
    const then = importTranscript(
      { format: transcript.format, messages: [...tail, ...more.map((message) => JSON.stringify(message))] }, { firstTurn: 2 }
    )
    expect(then.events[0]).toEqual({ type: 'turn/start', data: { turn: 2, origin: 'transcript' } })
    expect(then).toMatchObject({ turns: 1, tail: [], system: [], tools: [] })
  })
})

test('3.4 without a completed turn there are no events, and the system prompt and tools are still told', () => {
  const tools = [{ name: 'f', description: '', inputSchema: { type: 'object' } }]
  for (const format of ['openai-chat', 'openai-responses', 'anthropic', 'ai-sdk', 'events'] as const) {
    const first = importTranscript(rawOf({ format, system: 'Be kind.', tools, messages: [] }))
    expect(first).toMatchObject(
      { events: [], turns: 0, tail: [], system: [{ text: 'Be kind.' }], tools: [{ name: 'f' }], losses: [] }
    )
  }
})
