import fc from 'fast-check'
import { expect, test } from 'vitest'
import { completedLength, completedTurnPrefix, completedTurns } from '../../src/core/prefix.ts'
import { openTurn } from '../../src/core/turn.ts'
import { assistant, balancedLogs, call, crashedLogs, numbered, play, result, turns, user } from './histories.ts'

test('3.1 the prefix ends with the last turn/end and holds every event up to it, the very same objects', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const prefix = completedTurnPrefix(log)
    const last = log.findLast((event) => event.type === 'turn/end')
    expect(prefix.at(-1)).toBe(last)
    expect(prefix.every((event, i) => event === log[i])).toBe(true)
    expect(prefix).toHaveLength(last === undefined ? 0 : last.seq + 1)
  }))
})

test('3.1 a log without a turn/end has the empty prefix', () => {
  expect(completedTurnPrefix([])).toEqual([])
  const open = numbered([{ type: 'turn/start', data: { turn: 1, origin: 'task' } }, user('task'), assistant('', ['a']), call('a')])
  expect(completedTurnPrefix(open)).toEqual([])
  expect(completedTurns(open)).toBe(0)
})

test('3.2 nothing after the last turn/end is in it: not the open turn, not sibling calls, not later log-only events', () => {
  fc.assert(fc.property(turns, turns.filter((plans) => plans.length > 0), fc.nat(), (before, open, cut) => {
    const closed = play(before)
    const next = play([...before, ...open]).slice(closed.length)
    const firstEnd = next.findIndex((event) => event.type === 'turn/end')
    const tail = next.slice(0, cut % (firstEnd + 1))
    const noted = numbered([{ type: 'subagent/start', data: { runId: 'r', label: null } }], closed.length + tail.length)
    expect(completedTurnPrefix([...closed, ...tail, ...noted])).toEqual(closed)
  }))
})

test('3.3 sibling forks get the same prefix whatever the parent logs between them, and the parent log is unchanged', () => {
  fc.assert(fc.property(balancedLogs, (closed) => {
    const parent = [...closed, ...numbered([{ type: 'turn/start', data: { turn: 9, origin: 'message' } }, user('go'), assistant('', ['a', 'b'])], closed.length)]
    const before = structuredClone(parent)
    const first = completedTurnPrefix(parent)
    parent.push(...numbered([call('a'), result('a', 'first sibling')], parent.length))
    expect(completedTurnPrefix(parent)).toEqual(first)
    expect(first).toEqual(closed)
    expect(parent.slice(0, before.length)).toEqual(before)
  }))
})

test('3.4 the prefix is balanced and is its own prefix', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const prefix = completedTurnPrefix(log)
    expect(openTurn(prefix)).toBeUndefined()
    expect(completedTurnPrefix(prefix)).toEqual(prefix)
    expect(completedLength(log)).toBe(prefix.length)
  }))
})

test('3.5 turn numbers continue after the seed: as many turns as have ended', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    expect(completedTurns(log)).toBe(log.filter((event) => event.type === 'turn/end').length)
  }))
})
