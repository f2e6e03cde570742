import { expect, test } from 'vitest'
import { noUsage, type NewEvent, type SessionEvent } from '../../src/core/events.ts'
import type { RunRecord, RunSpec } from '../../src/core/run.ts'
import { RunSpans, runSpanId, toolSpanId, type FinishedSpan } from '../../src/observe/run-spans.ts'

/** The spans of a log whose events are 10 ms apart. */
function toldOf (events: NewEvent[]): FinishedSpan[] {
  const record = { id: 'r', tenant: 't', provider: 'spawn', model: 'openai/a/m', createdAt: 0, parentRunId: null, continues: null } as RunRecord
  const found: FinishedSpan[] = []
  const spans = new RunSpans({
    place: { traceId: 'a'.repeat(32), spanId: runSpanId('t', 'r'), sampled: true }, links: [], spec: { agentOptions: {} } as RunSpec,
    record: () => record, target: () => ({ provider: 'openai' })
  }, (span) => { found.push(span) })
  for (const [i, event] of events.entries()) spans.note({ ...event, seq: i, time: i * 10 } as SessionEvent)
  return found
}
const attributesOf = (events: NewEvent[]): Record<string, unknown> => toldOf(events)[0]?.attributes ?? {}

/** The same, as `name error? start–end < parent's name`. */
function spansOf (events: NewEvent[]): string[] {
  const found = toldOf(events)
  const nameOf = (spanId: string | undefined): string => found.find((span) => span.spanId === spanId)?.name ?? 'nothing'
  return found.map(({ name, failed, attributes, start, end, parent }) =>
    [name, ...failed ? [attributes['error.type']] : [], `${start}–${end}`, ...parent ? [`< ${nameOf(parent.spanId)}`] : []].join(' '))
}
const step = (number: number, attempt = 1): NewEvent => ({ type: 'step/start', data: { turn: 1, step: number, attempt } })
const stepEnd = (number: number): NewEvent => ({ type: 'step/end', data: { turn: 1, step: number } })
const message: NewEvent = { type: 'assistant/message', data: { content: [], usage: noUsage(), model: 'openai/a/m', stop: 'end' } }
const settled = (stopReason: 'completed' | 'aborted'): NewEvent => ({ type: 'run/settled', data: { runId: 'r', result: { output: [], stopReason, usage: noUsage() } } })

test('a retry that was planned and, since the run was cancelled, never made is no call', () => {
  const retry: NewEvent = { type: 'run/retry', data: { step: 1, attempt: 1, code: 'MODEL_ERROR', message: 'm', delayMs: 5000 } }
  expect(spansOf([step(1), retry, stepEnd(1), { type: 'turn/end', data: { turn: 1, reason: 'aborted' } }, settled('aborted')])).toEqual([
    'chat a/m MODEL_ERROR 0–10 < step 1', 'step 1 0–20 < invoke_agent spawn', 'invoke_agent spawn 0–40'
  ])
})

test('a call that a crash cut off is told as interrupted, and made again in a step of its own', () => {
  expect(spansOf([step(1), { type: 'run/resumed', data: { attempt: 1 } }, stepEnd(1), step(1, 2), message, stepEnd(1), settled('completed')])).toEqual([
    'step 1 0–20 < invoke_agent spawn', 'chat a/m INTERRUPTED 0–20 < step 1',
    'chat a/m 30–40 < step 1', 'step 1 30–50 < invoke_agent spawn', 'invoke_agent spawn 0–60'
  ])
})

test('what a program calls stands under the call of the program', () => {
  const call = (toolCallId: string, name: string, parent?: string): NewEvent =>
    ({ type: 'tool/call', data: { toolCallId, name, input: {}, executor: 'service', idempotent: true, ...parent === undefined ? {} : { parent } } })
  const result = (toolCallId: string, name: string, parent?: string): NewEvent =>
    ({ type: 'tool/result', data: { toolCallId, name, content: [], isError: false, ...parent === undefined ? {} : { parent } } })
  expect(spansOf([step(1), message, call('p', 'run_code'), call('p:code:1', 'look', 'p'), result('p:code:1', 'look', 'p'), result('p', 'run_code'), stepEnd(1), settled('completed')])).toEqual([
    'chat a/m 0–10 < step 1', 'execute_tool look 30–40 < execute_tool run_code', 'execute_tool run_code 20–50 < step 1',
    'step 1 0–60 < invoke_agent spawn', 'invoke_agent spawn 0–70'
  ])
})

test('ids follow from what they name: of one tenant, run and call alone', () => {
  const ids = [runSpanId('t', 'r'), runSpanId('u', 'r'), runSpanId('t', 's'), toolSpanId('t', 'r', 'c'), toolSpanId('t', 'r', 'd'), toolSpanId('t', 's', 'c')]
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toEqual(ids.map(() => expect.stringMatching(/^[0-9a-f]{16}$/)))
  expect(runSpanId('t', 'r')).toBe(ids[0])
})

test('a tool is named as it is where the run has it: called, or refused though the model was told of it; any other is unknown', () => {
  const header: NewEvent = { type: 'request/header', data: { system: [], tools: [{ name: 'look', description: '', inputSchema: {} }], model: 'openai/a/m', reason: 'first' } }
  const result = (toolCallId: string, name: string): NewEvent => ({ type: 'tool/result', data: { toolCallId, name, content: [], isError: true } })
  const call = (toolCallId: string, name: string): NewEvent => ({ type: 'tool/call', data: { toolCallId, name, input: {}, executor: 'service', idempotent: true } })
  const long = 'x'.repeat(129)
  const spans = spansOf([
    header, result('a', 'look'), result('b', 'the password is 1234'), result('c', 'invented'), call('d', 'Bash'), result('d', 'Bash'),
    call('e', long), result('e', long), call('f', 'two words'), result('f', 'two words')
  ])
  expect(spans.map((span) => span.split(' ').slice(0, 2).join(' '))).toEqual(['look', 'unknown', 'unknown', 'Bash', 'unknown', 'unknown'].map((name) => `execute_tool ${name}`))
})

test('the id of a call that is no id is left out', () => {
  const ids = ['call_1', 'toolu_01A', 'p:code:1', 'the password is 1234', 'x'.repeat(129)].map((id) => attributesOf([{ type: 'tool/result', data: { toolCallId: id, name: 'a', content: [], isError: false } }])['gen_ai.tool.call.id'])
  expect(ids).toEqual(['call_1', 'toolu_01A', 'p:code:1', undefined, undefined])
})
