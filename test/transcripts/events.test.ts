import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import type { SessionEvent } from '../../src/core/events.ts'
import { foldMessages } from '../../src/core/fold.ts'
import { completedTurnPrefix } from '../../src/core/prefix.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { balancedLogs, crashedLogs, numbered } from '../core/histories.ts'
import { OPEN_DELEGATIONS, rawOf } from '../support/transcripts.ts'

const textsOf = (events: readonly unknown[]): string[] => events.map((event) => JSON.stringify(event))
const importEvents = (
  events: readonly unknown[], firstTurn = 1
) => importTranscript({ format: 'events', messages: textsOf(events) }, { firstTurn })

test('3.1 a log is imported up to its last turn/end; the model sees the same messages, and no decision of the service', () => {
  fc.assert(fc.property(fc.oneof(balancedLogs, crashedLogs), (cutOff: SessionEvent[]) => {
    const prefix = completedTurnPrefix(cutOff)
    const { events, tail, turns } = importEvents(cutOff)
    expect(tail).toEqual(textsOf(cutOff.slice(prefix.length)))
    expect(foldMessages(numbered(events))).toEqual(foldMessages(prefix))
    expect(events.filter((event) => event.type.startsWith('run/'))).toEqual([])
    expect(turns).toBe(prefix.filter((event) => event.type === 'turn/end').length)
  }))
})

test('3.5 turns are numbered on from the seed\'s', () => {
  const { transcript } = OPEN_DELEGATIONS.events
  const { events } = importTranscript({ format: 'events', messages: rawOf(transcript).messages }, { firstTurn: 7 })
  expect(new Set(events.flatMap((event) => 'turn' in event.data ? [event.data.turn] : []))).toEqual(new Set([7]))
})

test('a page may begin anywhere between turns: own events stand after a seed', () => {
  const log = [
    ['turn/start', { turn: 3, origin: 'task' }], ['user/message', { content: [] }], ['turn/end', { turn: 3, reason: 'error' }],
    ['settled', { stopReason: 'error' }]
  ]
  const { events, tail } = importEvents(log.map(([type, data], i) => ({ type, data, seq: 90 + i, time: 5 })))
  expect(events.map((event) => event.type)).toEqual(['turn/start', 'user/message', 'turn/end'])
  expect(tail).toHaveLength(1)
})

test('a deadline in ISO 8601 becomes epoch ms again; texts for an upstream are not taken over', () => {
  const { events } = importTranscript(rawOf(OPEN_DELEGATIONS.events.transcript))
  expect(
    events.find((event) => event.type === 'tool/call')?.data
  ).toMatchObject({ deadline: Date.parse('2026-09-21T12:00:00.000Z') })
  const wire = { format: 'openai-chat', json: '{}],"model":"dear"' }
  const log = [
    ['turn/start', { turn: 1, origin: 'task' }], ['user/message', { content: [], wire }],
    ['turn/end', { turn: 1, reason: 'error' }]
  ]
  expect(JSON.stringify(importEvents(log.map(([type, data], seq) => ({ type, data, seq, time: 5 }))))).not.toContain('dear')
})

describe('4.5 a log that no session wrote is refused at the event that shows it', () => {
  const start = ['turn/start', { turn: 1, origin: 'task' }]
  const step = ['step/start', { turn: 1, step: 1, attempt: 1 }]
  const usage = { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0, steps: 1 }
  const answer = [
    'assistant/message',
    { content: [{ type: 'tool-call', toolCallId: 'a', name: 'f', arguments: '' }], usage, model: 'm', stop: 'tool-calls' }
  ]
  const result = ['tool/result', { toolCallId: 'a', name: 'f', content: [], isError: false }]
  const cases: [string, unknown[], string][] = [
    ['a type nobody knows', [start, ['turn/pause', {}]], 'transcript.messages[1]: unknown event type "turn/pause"'],
    ['live traffic', [['delta', {}]], 'transcript.messages[0]: unknown event type "delta"'],
    ['a prototype\'s name as type', [['constructor', {}]], 'transcript.messages[0]: unknown event type "constructor"'],
    [
      'data that miss a field', [['turn/start', { turn: 1 }]],
      'transcript.messages[0]: "data.origin" must be one of task, message, transcript, service'
    ],
    [
      'a wrong type deep inside', [start, ['user/message', { content: [{ type: 'text', text: 1 }] }]],
      'transcript.messages[1]: "data.content[0].text" must be a string'
    ],
    [
      'a block of an unknown type', [start, ['user/message', { content: [{ type: 'toString' }] }]],
      'transcript.messages[1]: "data.content[0].type" must be one of text, image'
    ],
    ['data that are no object', [start, ['user/message', null]], 'transcript.messages[1]: "data" must be an object'],
    ['a message outside a turn', [['user/message', { content: [] }]], 'transcript.messages[0]: no turn is open'],
    ['a turn inside a turn', [start, start], 'transcript.messages[1]: the turn before it is still open'],
    [
      'the end of another turn', [start, ['turn/end', { turn: 2, reason: 'completed' }]],
      'transcript.messages[1]: turn 2 is not open'
    ],
    [
      'a turn that ends in a step', [start, step, ['turn/end', { turn: 1, reason: 'completed' }]],
      'transcript.messages[2]: a step is still open'
    ],
    ['an answer outside a step', [start, answer], 'transcript.messages[1]: no step is open'],
    ['two answers in a step', [start, step, answer, answer], 'transcript.messages[3]: the step has its message already'],
    ['a call that nobody made', [start, step, result], 'transcript.messages[2]: the open step has no such call'],
    ['progress of a call that nobody made', [start, step, answer, ['tool/progress', { toolCallId: 'b', progress: 1 }]], 'transcript.messages[3]: the open step has no such call'],
    ['progress that is no number', [start, step, answer, ['tool/progress', { toolCallId: 'a', progress: '1' }]], 'transcript.messages[3]: "data.progress" must be a number'],
    ['a second result', [start, step, answer, result, result], 'transcript.messages[4]: the call is answered already'],
    [
      'a call without a result', [start, step, answer, ['step/end', { turn: 1, step: 1 }]],
      'transcript.messages[3]: a call of the step has no result'
    ]
  ]
  test.for(cases)('%s', ([, log, detail]) => {
    const messages = (log as [string, unknown][]).map(([type, data], seq) => ({ type, data, seq, time: 0 }))
    expect(() => importEvents(messages)).toThrow(
      refuse('TRANSCRIPT_INVALID', { detail, pointer: `/parent/transcript/messages/${messages.length - 1}` })
    )
  })

  test.for([
    ['a gap', [{ seq: 0 }, { seq: 2 }], 'transcript.messages[1]: "seq" must be 1: events are missing or out of order'],
    ['a place twice', [{ seq: 4 }, { seq: 4 }], 'transcript.messages[1]: "seq" must be 5: events are missing or out of order'],
    ['a place that is a text', [{ seq: '0' }], 'transcript.messages[0]: "seq" must be a non-negative safe integer'],
    ['no time', [{ seq: 0, time: 'today' }], 'transcript.messages[0]: "time" must be epoch ms or an ISO 8601 time']
  ] as const)('%s', ([, places, detail]) => {
    const messages = places.map((place) => ({ type: 'subagent/start', time: 0, data: { runId: 'r', label: null }, ...place }))
    expect(() => importEvents(messages)).toThrow(detail)
  })

  test('values that no log can hold', () => {
    const data = '"toolCallId":"a","name":"f","executor":"host","idempotent":false'
    const message = (input: string): string => `{"type":"tool/call","seq":0,"time":0,"data":{${data},"input":${input}}}`
    for (const input of ['-0', '1e999', `${'['.repeat(200)}${']'.repeat(200)}`]) {
      expect(() => importTranscript({ format: 'events', messages: [message(input)] })).toThrow(/^transcript\.messages\[0\]: /)
    }
  })
})
