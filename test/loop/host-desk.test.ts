import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import { SuspendReason } from '../../src/core/live.ts'
import { SessionLog } from '../../src/core/log.ts'
import type { PendingToolCall } from '../../src/core/run.ts'
import { HostDesk } from '../../src/loop/host-desk.ts'
import { timers } from '../support/driver-room.ts'

function open () {
  const log = new SessionLog({ header: { id: 's', tenant: 't', createdAt: 0 }, commit: () => Promise.resolve(), now: () => 0, onObserverFault: () => {} })
  const changes: string[][] = []
  const desk = new HostDesk({ log, now: () => 0, timeoutMs: 60_000, onChange: (pending: PendingToolCall[]) => changes.push(pending.map((call) => call.toolCallId)) })
  const controller = new AbortController()
  const ask = (toolCallId: string) => {
    log.append('tool/call', { toolCallId, name: 'ask', input: {}, executor: 'host', idempotent: false })
    return desk.wait({ toolCallId, name: 'ask', input: {}, deadline: desk.deadline() }, controller.signal)
  }
  const results = () => log.own.flatMap((event) => event.type === 'tool/result' ? [[event.data.toolCallId, event.data.ended]] : [])
  return { desk, controller, ask, changes, results }
}
const answer = (toolCallId: string, said = 'yes', isError = false) => ({ toolCallId, content: [text(said)], isError })

test('7.2 answers come one by one or together; each is logged, and no listener or timer stays', async () => {
  const before = timers()
  const { desk, controller, ask, changes, results } = open()
  const work = ['a', 'b', 'c'].map(ask)
  expect(timers()).toBe(before + 3)
  desk.answer([answer('b')])
  desk.answer([answer('c'), answer('a', 'no', true)])
  expect(await Promise.all(work)).toEqual([{ content: [text('no')], isError: true }, { content: [text('yes')], isError: false }, { content: [text('yes')], isError: false }].map((each) => expect.objectContaining(each)))
  expect(results()).toEqual([['b', undefined], ['c', undefined], ['a', undefined]])
  expect(changes.at(-1)).toEqual([])
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  expect(timers()).toBe(before)
})

test('7.2 a request is all or nothing: one answer that cannot be taken leaves every call pending', () => {
  const { desk, controller, ask, results } = open()
  void ask('a')
  for (const bad of [[answer('a'), answer('x')], [answer('a'), answer('a', 'other')]]) {
    expect(() => desk.answer(bad)).toThrow('is not pending')
    expect(desk.pending().map((call) => call.toolCallId)).toEqual(['a'])
  }
  expect(results()).toEqual([])
  desk.answer([answer('a'), answer('a')])
  expect(() => desk.answer([answer('a')])).not.toThrow()
  expect(() => desk.answer([answer('a', 'other')])).toThrow('tool call "a" is not pending: answered')
  expect(results()).toHaveLength(1)
  controller.abort()
})

test('§5 an abort closes what is pending as cancelled; a suspension leaves it open for the next start, with nothing logged', async () => {
  for (const [reason, expected] of [[new Error('enough'), [['a', 'cancelled']]], [new SuspendReason(), []]] as const) {
    const before = timers()
    const { desk, controller, ask, results } = open()
    const work = ask('a')
    controller.abort(reason)
    expect(await work).toMatchObject({ isError: true, content: [text('Error: tool call aborted')] })
    expect([results(), desk.pending()]).toEqual([expected, []])
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
    expect(timers()).toBe(before)
  }
})
