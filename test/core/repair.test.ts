import fc from 'fast-check'
import { expect, test } from 'vitest'
import { noUsage, text, type NewEvent, type SessionEvent } from '../../src/core/events.ts'
import { NEVER_STARTED, OUTCOME_UNKNOWN, repair } from '../../src/core/repair.ts'
import { openTurn } from '../../src/core/turn.ts'
import { assistant, balancedLogs, call, crashedLogs, numbered, result, user } from './histories.ts'

const repaired = (log: readonly SessionEvent[]): SessionEvent[] => [...log, ...numbered(repair(log), log.length)]

/** What keeps a log from being balanced, found by reading it forward and independently of `openTurn`. */
function faults (log: readonly SessionEvent[]): string[] {
  const found: string[] = []
  let turn = false
  let step = false
  let owed: string[] = []
  for (const event of log) {
    if (event.type === 'turn/start') turn = true
    if (event.type === 'step/start') step = true
    if (event.type === 'assistant/message') owed = event.data.content.flatMap((part) => part.type === 'tool-call' ? [part.toolCallId] : [])
    if (event.type === 'tool/result') {
      const at = owed.indexOf(event.data.toolCallId)
      if (at === -1) found.push(`a result for a call that is not open: ${event.data.toolCallId}`)
      else owed.splice(at, 1)
    }
    if (event.type === 'step/end') {
      if (!step) found.push('a step ends that is not open')
      step = false
    }
    if (event.type === 'turn/end') {
      if (!turn) found.push('a turn ends that is not open')
      turn = false
    }
    if (!step) {
      found.push(...owed.map((id) => `no result for ${id}`))
      owed = []
    }
    if (step && !turn) found.push('a step outlives its turn')
  }
  if (turn) found.push('a turn is open')
  return found
}

test('2.7 a balanced log needs no repair', () => {
  fc.assert(fc.property(balancedLogs, (log) => {
    expect(faults(log)).toEqual([])
    expect(repair(log)).toEqual([])
  }))
})

test('2.7 a log cut anywhere is balanced after repair', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    expect(faults(repaired(log))).toEqual([])
    expect(openTurn(repaired(log))).toBeUndefined()
  }))
})

test('2.7 repair is deterministic, idempotent and changes nothing it read', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const before = structuredClone(log)
    expect(repair(log)).toEqual(repair(structuredClone(log)))
    expect(repair(repaired(log))).toEqual([])
    expect(log).toEqual(before)
  }))
})

test('2.7 repair is minimal: without any one of its events the log is not balanced', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const repairs = repair(log)
    for (let i = 0; i < repairs.length; i++) {
      expect(faults([...log, ...numbered(repairs.toSpliced(i, 1), log.length)])).not.toEqual([])
    }
  }))
})

test('2.7 an unanswered call gets one error result in order, then step/end, then turn/end interrupted', () => {
  const log = numbered([
    { type: 'turn/start', data: { turn: 3, origin: 'task' } },
    user('task'),
    { type: 'step/start', data: { turn: 3, step: 2, attempt: 1 } },
    assistant('working', ['a', 'b', 'c', 'd']),
    call('a'), call('b'), call('c'),
    result('b', 'done')
  ])
  const unanswered = (toolCallId: string, text: string) => ({
    type: 'tool/result', data: { toolCallId, name: 'look', content: [{ type: 'text', text }], isError: true }
  })
  expect(repair(log)).toEqual([
    unanswered('a', OUTCOME_UNKNOWN),
    unanswered('c', OUTCOME_UNKNOWN),
    unanswered('d', NEVER_STARTED),
    { type: 'step/end', data: { turn: 3, step: 2 } },
    { type: 'turn/end', data: { turn: 3, reason: 'interrupted' } }
  ])
})

test('2.7 the model is told which call may have run and which never started', () => {
  expect(OUTCOME_UNKNOWN).toContain('outcome unknown: check before retrying')
  expect(NEVER_STARTED).toContain('never started')
})

test('2.7 an open turn without an open step ends with turn/end alone', () => {
  const log = numbered([{ type: 'turn/start', data: { turn: 1, origin: 'task' } }, user('task')])
  expect(repair(log)).toEqual([{ type: 'turn/end', data: { turn: 1, reason: 'interrupted' } }])
})

test('2.7 what a program was calling when a crash cut it off gets a result too, before the program\'s own; its host is asked no more', () => {
  const code = { toolCallId: 'p', name: 'run_code' }
  const inside = (n: number, executor: 'service' | 'host' = 'service'): NewEvent =>
    ({ type: 'tool/call', data: { toolCallId: `p:code:${n}`, name: 'read', input: {}, executor, idempotent: false, parent: 'p' } })
  const log = numbered([
    { type: 'turn/start', data: { turn: 1, origin: 'task' } }, { type: 'step/start', data: { turn: 1, step: 1, attempt: 1 } },
    { type: 'assistant/message', data: { content: [{ type: 'tool-call', ...code, arguments: '{}' }], usage: noUsage(), model: 'm', stop: 'tool-calls' } },
    { type: 'tool/call', data: { ...code, input: {}, executor: 'service', idempotent: false } },
    inside(1), { type: 'tool/result', data: { toolCallId: 'p:code:1', name: 'read', content: [], isError: false, parent: 'p' } }, inside(2), inside(3, 'host')
  ])
  const unknown = { content: [text(OUTCOME_UNKNOWN)], isError: true }
  expect(repair(log).filter(({ type }) => type === 'tool/result').map(({ data }) => data)).toEqual([
    { toolCallId: 'p:code:2', name: 'read', parent: 'p', ...unknown },
    { toolCallId: 'p:code:3', name: 'read', parent: 'p', ended: 'cancelled', ...unknown },
    { ...code, ...unknown }
  ])
})
