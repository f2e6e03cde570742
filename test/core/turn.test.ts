import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openTurn } from '../../src/core/turn.ts'
import { assistant, call, crashedLogs, numbered, result, user } from './histories.ts'

test('2.7 a turn is open exactly when more turns started than ended', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const count = (type: string): number => log.filter((event) => event.type === type).length
    expect(openTurn(log) !== undefined).toBe(count('turn/start') > count('turn/end'))
  }))
})

test('2.8 the open step is the last one without step/end, its message the last answer to it', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const open = openTurn(log)
    const last = log.findLast((event) => event.type === 'step/start' || event.type === 'step/end' || event.type === 'turn/end')
    expect(open?.step?.step).toBe(last?.type === 'step/start' ? last.data.step : undefined)
    const message = log.findLast((event) => event.type === 'assistant/message')
    const answers = last?.type === 'step/start' && message !== undefined && message.seq > last.seq
    expect(open?.step?.message).toBe(answers ? message : undefined)
  }))
})

test('2.8 each call of the open step says whether it started and what answered it, in the order of the model', () => {
  const log = numbered([
    { type: 'turn/start', data: { turn: 1, origin: 'task' } },
    user('task'),
    { type: 'step/start', data: { turn: 1, step: 1, attempt: 2 } },
    assistant('', ['a', 'b', 'c']),
    call('b'), call('a'), result('b', 'done')
  ])
  const open = openTurn(log)
  expect(open).toMatchObject({ turn: 1, steps: 1, step: { step: 1, attempt: 2, message: log[3] } })
  expect(open?.calls.map(({ part, started, result }) => [part.toolCallId, started?.seq, result?.seq]))
    .toEqual([['a', 5, undefined], ['b', 4, 6], ['c', undefined, undefined]])
})

test('2.8 calls that share an id are told apart by their order', () => {
  const log = numbered([
    { type: 'turn/start', data: { turn: 1, origin: 'task' } },
    { type: 'step/start', data: { turn: 1, step: 1, attempt: 1 } },
    assistant('', ['a', 'a']), call('a'), call('a'), result('a', 'first')
  ])
  expect(openTurn(log)?.calls.map(({ started, result }) => [started?.seq, result?.seq])).toEqual([[3, 5], [4, undefined]])
})

test('2.8 a step that closed leaves no call behind; its turn still counts it', () => {
  const log = numbered([
    { type: 'turn/start', data: { turn: 1, origin: 'task' } },
    { type: 'step/start', data: { turn: 1, step: 1, attempt: 1 } },
    assistant('', ['a']), call('a'), result('a', 'done'),
    { type: 'step/end', data: { turn: 1, step: 1 } }
  ])
  expect(openTurn(log)).toEqual({ turn: 1, calls: [], steps: 1 })
})
