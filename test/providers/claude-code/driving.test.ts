import { expect, test } from 'vitest'
import { dueIn } from '../../../src/providers/claude-code/normalizer.ts'
import { priorityOf, standing } from '../../../src/providers/claude-code/state.ts'
import { agentCall, answered, assistant, fork, init, lifecycle, notified, play, replay, result, sent, shortLog, streamed, toolResult, toolUse, words } from './play.ts'

const started = [sent('u-1', 'go'), lifecycle('u-1', 'queued'), lifecycle('u-1', 'started')]
const tick = (ms: number): { type: 'tick', ms: number } => ({ type: 'tick', ms })

test('D1 the first line is not a steer, and is said once', () => {
  const chat = play('drive', ...started, init(), replay('u-1', 'go'), replay('u-1', 'go'), lifecycle('u-1', 'started'))
  expect(chat.log()).toEqual(['turn task', 'user go'])
  expect(chat.data('user/message')).toEqual([{ content: [{ type: 'text', text: 'go' }], messageId: 'u-1' }])
})

test('D1 a CLI that tells no beginnings: content begins the first line', () => {
  const chat = play('drive', sent('u-1', 'go'), ...streamed('m', 'hi'), replay('u-1', 'go'), result())
  expect(chat.log()).toEqual(['turn task', 'user go', 'says hi', 'end completed'])
})

test('D1 content of a wake turn does not begin a line that waits', () => {
  const chat = play('drive', ...started, result(), sent('u-2', 'more'), ...streamed('m', 'woken'))
  expect(chat.log().slice(-2)).toEqual(['turn service', 'says woken'])
  expect(standing(chat.state).queued).toBe(1)
})

test('D2 a message goes next while a tool is open, a pending fork included; else now', () => {
  const chat = play('drive', ...started)
  expect(priorityOf(chat.state)).toBe('now')
  chat.feed(assistant(toolUse('a', 'Bash'), { id: 'm' }))
  expect(priorityOf(chat.state)).toBe('next')
  chat.feed(toolResult('a', 'x'))
  expect(priorityOf(chat.state)).toBe('now')
  chat.feed(fork('t-1'))
  expect(priorityOf(chat.state)).toBe('next')
  chat.feed(result())
  expect(priorityOf(chat.state)).toBe('now')
})

test('D3 a steer is confirmed by its start or its replay, with all sent before it', () => {
  for (const confirm of [lifecycle('u-3', 'started'), replay('u-3', 'third')]) {
    const chat = play('drive', ...started, sent('u-2', 'second'), sent('u-3', 'third'), sent('u-4', 'fourth'))
    expect(shortLog(chat.feed(confirm), 'chat')).toEqual(['steer u-2', 'user second', 'steer u-3', 'user third'])
    expect(standing(chat.state).queued).toBe(1)
    expect(chat.feed(lifecycle('u-2', 'started'), replay('u-3', 'third')).map((event) => event.type)).toEqual(['journal', 'journal'])
  }
})

test('D3 a line that begins in a wake turn, or in one that a user opened without a line, is a steer', () => {
  const woken = play('drive', ...started, result(), ...streamed('m', 'woken'), sent('u-2', 'more'))
  expect(shortLog(woken.feed(lifecycle('u-2', 'started')), 'chat')).toEqual(['steer u-2', 'user more'])
  woken.feed({ type: 'exit', code: 0 })
  expect(woken.of('turn/ended').map((end) => end.answers)).toEqual([true, true])
  const typed = play('ingest', { type: 'user', message: { content: 'typed' } }, lifecycle('u-2', 'started'), replay('u-2', 'more'))
  expect(typed.log()).toEqual(['turn task', 'user typed', 'steer u-2', 'user more'])
})

test('D5 the next line begins before the 3 s are over: the interrupted turn ends first', () => {
  const chat = play('drive', ...started, fork('t-1'), { type: 'interrupt' }, answered(), sent('u-2', 'instead'))
  expect(shortLog(chat.feed(lifecycle('u-2', 'started')), 'chat')).toEqual([
    'settle #1 aborted', 'result forked-command-fan-t-1 error', 'end aborted', 'turn message', 'user instead'
  ])
  expect(chat.feed(result({ user_message_uuid: 'u-1' })).map((event) => event.type)).toEqual(['journal'])
})

test('D4 a held turn end is let go after 5 s without a frame', () => {
  const chat = play('drive', ...started, sent('u-2', 'more'), result())
  expect(dueIn(chat.state)).toBe(5000)
  chat.feed(tick(4999), init(), tick(4999))
  expect(chat.of('turn/ended')).toEqual([])
  expect(dueIn(chat.state)).toBe(1)
  expect(shortLog(chat.feed(tick(1)), 'chat')).toEqual(['end completed'])
  expect(dueIn(chat.state)).toBeUndefined()
  expect(shortLog(chat.feed(lifecycle('u-2', 'started')), 'chat')).toEqual(['turn message', 'user more'])
})

test('D4 ingest has no clock: with the next frame, or the input\'s end; what tells of lines may still make it a steer', () => {
  const before = [lifecycle('u-1', 'started'), lifecycle('u-2', 'queued'), result()]
  const chat = play('ingest', ...before)
  expect(dueIn(chat.state)).toBeUndefined()
  expect(shortLog(chat.feed(init()), 'chat')).toEqual(['end completed'])
  expect(shortLog(play('ingest', ...before).feed({ type: 'end' }), 'chat')).toEqual(['end completed'])
  expect(shortLog(play('ingest', ...before).feed(lifecycle('u-1', 'completed'), lifecycle('u-2', 'started'), replay('u-2', 'more'), result()), 'chat'))
    .toEqual(['steer u-2', 'user more', 'end completed'])
})

test('D5 an answer but no result within 3 s: the fork settles, the turn ends as aborted, the tools close, the next message goes now', () => {
  for (const [status, reason] of [[null, 'aborted'], ['completed', 'completed']] as const) {
    const chat = play('drive', ...started, fork('t-1'), ...(status === null ? [] : [notified('t-1', status)]), assistant(toolUse('a', 'Bash')), { type: 'interrupt' }, tick(1000), answered())
    expect(dueIn(chat.state)).toBe(3000)
    chat.feed(tick(2999))
    expect(shortLog(chat.feed(tick(1)), 'chat').filter((line) => !line.startsWith('says') && !line.startsWith('call'))).toEqual([
      `settle #1 ${reason}`, `result forked-command-fan-t-1${reason === 'completed' ? '' : ' error'}`, 'result a error', 'end aborted'
    ])
    expect(priorityOf(chat.state)).toBe('now')
    expect(standing(chat.state)).toMatchObject({ turn: false, openTools: 0, runningChildren: 0 })
  }
})

test('D5 that turn\'s late content and result are dropped, before the next message begins and after', () => {
  const abandoned = [...started, { type: 'interrupt' as const }, answered(), tick(3000)]
  const late = [assistant(words('late')), fork('t-1'), replay('u-1', 'go'), result({ user_message_uuid: 'u-1' })]
  const chat = play('drive', ...abandoned)
  expect(chat.feed(...late).map((event) => event.type)).toEqual(Array(4).fill('journal'))
  const next = [sent('u-2', 'again'), lifecycle('u-2', 'started')]
  expect(shortLog(chat.feed(...next, ...streamed('m', 'yes'), result({ user_message_uuid: 'u-2' })), 'chat')).toEqual(['turn message', 'user again', 'says yes', 'end completed'])
  const crossed = play('drive', ...abandoned, ...next)
  expect(crossed.feed(result({ user_message_uuid: 'u-1' })).map((event) => event.type)).toEqual(['journal'])
  expect(shortLog(crossed.feed(result({ user_message_uuid: 'u-2' })), 'chat')).toEqual(['end completed'])
})

test('D5 no answer: the driver is told once, and the turn waits for the process\' end', () => {
  const chat = play('drive', ...started, agentCall('a-1'), { type: 'interrupt' }, tick(2000))
  expect(chat.of('interrupt/unanswered')).toEqual([])
  chat.feed(tick(1000), tick(9000))
  expect(chat.of('interrupt/unanswered')).toHaveLength(1)
  chat.feed({ type: 'stop' }, { type: 'exit', signal: 'SIGTERM' })
  expect(chat.log().slice(-4)).toEqual(['call a-1', 'settle #1 aborted', 'result a-1 error', 'end aborted'])
})

test('D5 a result in time leaves nothing to wait for', () => {
  const chat = play('drive', ...started, { type: 'interrupt' }, answered(), result())
  expect(dueIn(chat.state)).toBeUndefined()
  expect(chat.feed(tick(10_000))).toEqual([])
})

test('D7 exit without a result: fork and children settle, then the turn', () => {
  const chat = play('drive', ...started, agentCall('a-1', { run_in_background: true }), fork('t-1'), notified('t-1', 'completed'), sent('u-2', 'more'))
  expect(shortLog(chat.feed({ type: 'exit', code: 1 }), 'chat')).toEqual([
    'says <tool-call>', 'call a-1', 'settle #2 completed', 'result forked-command-fan-t-1', 'settle #1 error', 'result a-1 error', 'end error'
  ])
  expect(chat.of('turn/ended')).toMatchObject([{ reason: 'error', error: { code: 'INTERRUPTED', message: expect.stringContaining('code 1') } }])
  expect(chat.of('line/dropped')).toEqual([{ type: 'line/dropped', uuid: 'u-2' }])
})

test('D7 exit before anything began: the first line\'s turn ends as error', () => {
  const chat = play('drive', sent('u-1', 'go'), { type: 'exit', code: 127 })
  expect(chat.log()).toEqual(['turn task', 'user go', 'end error'])
})

test('D7 after a clean end nothing is left to say', () => {
  const chat = play('drive', ...started, ...streamed('m', 'hi'), result())
  expect(chat.feed({ type: 'exit', code: 0 }, { type: 'end' })).toEqual([])
})
