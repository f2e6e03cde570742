import fc from 'fast-check'
import { expect, test } from 'vitest'
import { noUsage, text, type AssistantPart, type NewEvent, type SessionEvent, type TurnEndReason } from '../../src/core/events.ts'
import { outcome } from '../../src/core/errors.ts'
import { readResult } from '../../src/driver/result.ts'
import { closeFailedTurn } from '../../src/driver/resume.ts'
import { openTurn } from '../../src/core/turn.ts'

const log = (...events: NewEvent[]): SessionEvent[] => events.map((event, seq) => ({ ...event, seq, time: 0 }) as SessionEvent)
const opens = (turn: number, origin: 'task' | 'message' | 'service' = 'task'): NewEvent => ({ type: 'turn/start', data: { turn, origin } })
const ends = (turn: number, reason: TurnEndReason): NewEvent =>
  ({ type: 'turn/end', data: { turn, reason, ...(reason === 'error' ? { error: outcome('MODEL_ERROR', 'it broke') } : {}) } })
const says = (...content: AssistantPart[]): NewEvent => ({ type: 'assistant/message', data: { content, usage: { ...noUsage(), inputTokens: 1, steps: 1 }, model: 'm', stop: 'end' } })
const captures: NewEvent = { type: 'run/structured', data: { toolCallId: 'c', value: { n: 1 } } }
const plain = { cancelled: false, structured: false }

test('7.1 the output is the last own assistant message that is not empty, block by block', () => {
  const call: AssistantPart = { type: 'tool-call', toolCallId: 'c', name: 'n', arguments: '{}' }
  const events = log(opens(1), says(text('first')), says(text('a'), { type: 'reasoning', text: 'hm' }, text(''), text('b'), call), says(text(''), call), says(), ends(1, 'completed'))
  expect(readResult(events, plain)).toEqual({ output: [text('a'), text('b')], stopReason: 'completed', usage: { ...noUsage(), inputTokens: 4, steps: 4 } })
  expect(readResult(log(opens(1), says({ type: 'reasoning', text: 'only thought' }), ends(1, 'completed')), plain).output).toEqual([])
  expect(readResult([], { ...plain, cancelled: true })).toEqual({ output: [], stopReason: 'aborted', usage: noUsage() })
})

test('7.2 the reason is that of the last turn which a user\'s message opened; zero-step turns of others do not count', () => {
  const service = [opens(2, 'service'), ends(2, 'aborted')]
  expect(readResult(log(opens(1), says(text('x')), ends(1, 'completed'), ...service), plain).stopReason).toBe('completed')
  expect(readResult(log(opens(1), ends(1, 'completed'), opens(2, 'message'), ends(2, 'max-tokens'), opens(3, 'service'), ends(3, 'completed')), plain).stopReason).toBe('max-tokens')
})

test.each<[TurnEndReason, string, string | undefined]>([
  ['completed', 'completed', undefined], ['max-tokens', 'max-tokens', undefined], ['refusal', 'refusal', undefined], ['aborted', 'aborted', undefined],
  ['error', 'error', 'MODEL_ERROR'], ['interrupted', 'error', 'INTERRUPTED']
])('2.5 a turn that ended %s is read as %s', (reason, stopReason, code) => {
  const result = readResult(log(opens(1), ends(1, reason)), plain)
  expect([result.stopReason, result.error?.code]).toEqual([stopReason, code])
  expect(result.diagnostic).toBe(result.error?.message)
})

test('5.1, 9.8 the stop reason is aborted if cancelled and not completed; a contract that is owed makes a clean turn an error', () => {
  const reasons: TurnEndReason[] = ['completed', 'max-tokens', 'refusal', 'aborted', 'error', 'interrupted']
  fc.assert(fc.property(fc.constantFrom(...reasons), fc.boolean(), fc.boolean(), fc.boolean(), (reason, cancelled, structured, captured) => {
    const result = readResult(log(opens(1), ...(captured ? [captures] : []), ends(1, reason)), { cancelled, structured })
    const owed = structured && !captured && reason === 'completed'
    const recorded = owed || reason === 'interrupted' ? 'error' : reason
    expect(result.stopReason).toBe(cancelled && recorded !== 'completed' ? 'aborted' : recorded)
    expect(result.structured).toEqual(captured ? { n: 1 } : undefined)
    expect(result.error !== undefined).toBe(result.stopReason === 'error')
    if (owed && !cancelled) expect(result.error?.code).toBe('NO_STRUCTURED_OUTPUT')
  }))
})

test('a failure from outside a turn closes what the turn left open, and is the reason of the result; a balanced log keeps its own', () => {
  const failure = outcome('SETUP_FAILED', 'no such tool')
  const call: AssistantPart = { type: 'tool-call', toolCallId: 'c', name: 'n', arguments: '{}' }
  const open = log(opens(1), { type: 'step/start', data: { turn: 1, step: 1, attempt: 1 } }, says(text('so far'), call))
  const closed = log(...open, ...closeFailedTurn(open, failure))
  expect(closed.slice(3).map((event) => event.type)).toEqual(['tool/result', 'step/end', 'turn/end'])
  expect(openTurn(closed)).toBeUndefined()
  expect(readResult(closed, { ...plain, failed: failure })).toMatchObject({ stopReason: 'error', error: failure, diagnostic: 'no such tool', output: [text('so far')] })
  expect(readResult(closed, { ...plain, cancelled: true, failed: failure })).toMatchObject({ stopReason: 'aborted' })
  const done = log(opens(1), says(text('x')), ends(1, 'completed'))
  expect(closeFailedTurn(done, failure)).toEqual([])
  expect(readResult(done, { ...plain, failed: failure })).toMatchObject({ stopReason: 'completed' })
  expect(readResult([], { ...plain, failed: failure })).toMatchObject({ stopReason: 'error', error: failure, output: [] })
})
