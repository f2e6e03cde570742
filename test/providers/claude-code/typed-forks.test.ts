import { expect, test } from 'vitest'
import { priorityOf, standing } from '../../../src/providers/claude-code/state.ts'
import { agentCall, answered, assistant, fork, init, lifecycle, notified, play, replay, result, running, sent, shortLog, streamed, taskStart, toolResult, toolUse, userText, words } from './play.ts'

const TAG = 'forked-command-fan'
const transcript = (tag = TAG): Parameters<ReturnType<typeof play>['feed']> => [
  userText('Fan out.\n', tag), assistant(words('thinking aloud'), { tag }), assistant(toolUse('b-1', 'Bash', { command: 'ls' }), { tag }),
  { ...toolResult('b-1', 'files'), parent_tool_use_id: tag }, assistant(words('all good'), { tag })
]
const begun = [lifecycle('u-1', 'queued'), lifecycle('u-1', 'started')]
const reply = assistant(words('all good'), { message: { id: 'local', model: '<synthetic>', content: [words('all good')], stop_reason: 'end_turn' } })

test('C1 C2 a typed fork is a child from its task start: row, count, open tool and prompt, before any transcript', () => {
  const chat = play('ingest', ...begun)
  chat.feed(fork('t-1'))
  expect(chat.of('child/started')).toEqual([
    { type: 'child/started', child: 1, externalId: 'forked-command-fan-t-1', label: 'Agent: /fan', prompt: 'Fan out.\n', toolCallId: 'forked-command-fan-t-1' }
  ])
  expect(chat.log()).toEqual(['turn task', 'call forked-command-fan-t-1', 'start #1'])
  expect(chat.log(1)).toEqual(['turn task', 'user Fan out.\n'])
  expect(standing(chat.state)).toMatchObject({ turn: true, runningChildren: 1, openTools: 1 })
  expect(chat.data('tool/call')).toMatchObject([{ name: 'Agent', parent: 'u-1' }])
})

test('C1 an empty tool id counts as none; shell tasks, other descriptions, tasks of a task and tasks with a tool are no typed fork', () => {
  for (const [more, count] of [
    [{ tool_use_id: '' }, 1], [{ tool_use_id: 7 }, 1], [{ task_type: 'local_bash' }, 0], [{ description: 'fan' }, 0], [{ description: 7 }, 0],
    [{ tool_use_id: 'x' }, 0], [{ parent_task_id: 't-0' }, 0]
  ] as const) {
    const chat = play('ingest', fork('t-1', more))
    expect([more, running(chat)]).toEqual([more, count])
    if (count === 0) expect(chat.of('journal')[0]?.fed).toBeNull()
  }
})

test('C1 C2 the name is the first word; arguments stand in the prompt; a prompt of another type costs the opening alone', () => {
  const chat = play('ingest', fork('t-1', { description: '/fan two words', prompt: 'Fan out.\n\n\nARGUMENTS: two words' }))
  expect(chat.of('child/started')[0]).toMatchObject({ externalId: 'forked-command-fan-t-1', label: 'Agent: /fan', prompt: 'Fan out.\n\n\nARGUMENTS: two words' })
  const odd = play('ingest', fork('t-1', { prompt: { text: 'Fan' } }))
  expect(odd.of('child/started')[0]).toMatchObject({ label: 'Agent: /fan', prompt: null })
  expect(odd.log(1)).toEqual(['turn task'])
})

test('C3 a replay feeds the pending fork under any forked-command id, in block order', () => {
  for (const tag of [TAG, 'forked-command-plugin-fan', 'forked-command-']) {
    const chat = play('ingest', ...begun, fork('t-1'), notified('t-1', 'completed'), ...transcript(tag))
    chat.feed(result())
    expect(chat.log(1)).toEqual(['turn task', 'user Fan out.\n', 'says thinking aloud', 'says <tool-call>', 'call b-1', 'result b-1', 'says all good', 'end completed'])
  }
})

test('C3 no lasting map: with no fork pending a forked-command tag goes to the journal', () => {
  const chat = play('ingest', ...begun, fork('t-1'), notified('t-1', 'completed'), result())
  const made = chat.feed(...transcript(), ...transcript('forked-command-fan-t-1'))
  expect(made.map((event) => event.type === 'journal' && event.fed)).toEqual(Array(10).fill(null))
})

test('C4 the replayed prompt is an echo, dropped once; the same words later are the fork\'s own', () => {
  const chat = play('ingest', ...begun, fork('t-1'), userText('Fan out.\n', TAG), userText('Fan out.\n', TAG))
  expect(chat.log(1)).toEqual(['turn task', 'user Fan out.\n', 'user Fan out.\n'])
  const late = play('ingest', ...begun, fork('t-1'), userText('something else', TAG), userText('Fan out.\n', TAG))
  expect(late.log(1)).toEqual(['turn task', 'user Fan out.\n', 'user something else'])
})

test('C5 its notification settles nothing: the replay comes after it', () => {
  const chat = play('ingest', ...begun, fork('t-1'))
  const made = chat.feed(notified('t-1', 'completed'))
  expect(made).toEqual([{ type: 'journal', line: 3, frame: expect.anything(), fed: 1 }])
  expect(running(chat)).toBe(1)
})

test('C6 it settles once, just before the turn\'s end: child end, its result, the turn\'s end', () => {
  const chat = play('ingest', ...begun, fork('t-1'), notified('t-1', 'completed'), init(), ...transcript(), reply, replay('u-1', '/fan'))
  const made = chat.feed(result(), lifecycle('u-1', 'completed'))
  expect(shortLog(made, null).slice(-4)).toEqual(['end completed', 'settle #1 completed', 'result forked-command-fan-t-1', 'end completed'])
  expect(chat.log()).toEqual([
    'turn task', 'call forked-command-fan-t-1', 'start #1', 'user /fan', 'says all good', 'settle #1 completed', 'result forked-command-fan-t-1', 'end completed'
  ])
  expect(chat.data('tool/result')).toMatchObject([{ content: [{ type: 'text', text: 'all good' }], isError: false, parent: 'u-1' }])
  expect(standing(chat.state)).toEqual({ turn: false, runningChildren: 0, openTools: 0, queued: 0 })
})

test('C6 the notified status wins over the turn\'s; without one it is the turn\'s', () => {
  for (const [status, end, reason] of [
    ['failed', {}, 'error'], ['stopped', {}, 'aborted'], ['completed', { is_error: true }, 'completed'], [undefined, {}, 'completed'],
    [undefined, { is_error: true }, 'error'], ['thinking', {}, 'completed']
  ] as const) {
    const chat = play('ingest', ...begun, fork('t-1'), ...(status === undefined ? [] : [notified('t-1', status)]), result(end))
    expect([status, chat.of('child/settled').map((event) => event.reason)]).toEqual([status, [reason]])
  }
})

test('C7 a result while a line is queued is a steer boundary: the fork settles, the turn stays open, the steer joins it', () => {
  const chat = play('drive', sent('u-1', '/fan'), ...begun, fork('t-1'))
  expect(priorityOf(chat.state)).toBe('next')
  chat.feed(sent('u-2', 'and then?'), lifecycle('u-2', 'queued'), notified('t-1', 'completed'), ...transcript())
  const boundary = chat.feed(result({ num_turns: 0 }))
  expect(shortLog(boundary, 'chat')).toEqual(['settle #1 completed', 'result forked-command-fan-t-1'])
  expect(standing(chat.state)).toMatchObject({ turn: true, runningChildren: 0, openTools: 0 })
  const after = chat.feed(lifecycle('u-1', 'completed'), lifecycle('u-2', 'started'), ...streamed('m', 'ok then'), result())
  expect(shortLog(after, 'chat')).toEqual(['steer u-2', 'user and then?', 'says ok then', 'end completed'])
  expect(chat.of('turn/ended')).toHaveLength(1)
})

test('C7 a cancelled line was all the held end waited for', () => {
  const chat = play('drive', sent('u-1', '/fan'), ...begun, fork('t-1'), sent('u-2', 'more'), lifecycle('u-2', 'queued'), result())
  expect(chat.of('turn/ended')).toEqual([])
  expect(chat.feed(lifecycle('u-2', 'cancelled')).map((event) => event.type)).toEqual(['journal', 'line/dropped', 'log', 'turn/ended'])
})

test('C7 after an answered interrupt the turn ends first, and the queued line opens its own', () => {
  const chat = play('drive', sent('u-1', '/fan'), ...begun, fork('t-1'), { type: 'interrupt' }, sent('u-2', 'instead'), answered(), lifecycle('u-2', 'queued'))
  const made = chat.feed(notified('t-1', 'stopped'), result())
  expect(standing(chat.state)).toMatchObject({ turn: false, queued: 1 })
  made.push(...chat.feed(lifecycle('u-2', 'started')))
  expect(shortLog(made, 'chat')).toEqual(['settle #1 aborted', 'result forked-command-fan-t-1 error', 'end aborted', 'turn message', 'user instead'])
})

test('C8 nothing reaches a settled one: a late notification, replay, echo or start is the journal\'s alone, never a steer', () => {
  const chat = play('ingest', ...begun, fork('t-1'), notified('t-1', 'failed'), result())
  const made = chat.feed(notified('t-1', 'completed'), ...transcript(), fork('t-1'), userText('Fan out.\n', TAG))
  expect(made.map((event) => event.type)).toEqual(Array(8).fill('journal'))
  expect(chat.of('child/settled')).toHaveLength(1)
  expect(running(chat)).toBe(0)
})

test('C9 an interrupted turn settles its fork too: the kept status, else aborted', () => {
  for (const [status, reason] of [['stopped', 'aborted'], ['completed', 'completed'], [null, 'aborted']] as const) {
    const chat = play('ingest', ...begun, fork('t-1'), answered(), ...(status === null ? [] : [notified('t-1', status)]))
    expect(shortLog(chat.feed(result()), 'chat').slice(-3)).toEqual([
      `settle #1 ${reason}`, `result forked-command-fan-t-1${reason === 'completed' ? '' : ' error'}`, 'end aborted'
    ])
  }
})

test('C9 an unreadable result settles it too, even while a line is queued', () => {
  for (const broken of [{ subtype: 7 }, { subtype: null, is_error: 'no' }]) {
    const chat = play('ingest', ...begun, fork('t-1'), lifecycle('u-2', 'queued'))
    expect(shortLog(chat.feed(result(broken)), 'chat')).toEqual(['settle #1 error', 'result forked-command-fan-t-1 error', 'end error'])
    expect(chat.of('turn/ended')[0]).toMatchObject({ reason: 'error', error: { code: 'INTERNAL' } })
  }
})

test('C10 a second typed fork before the first settled: the first settles, by its kept status, else aborted; the second opens', () => {
  for (const [status, reason] of [['failed', 'error'], ['completed', 'completed'], [null, 'aborted']] as const) {
    const chat = play('ingest', ...begun, fork('t-1'), ...(status === null ? [] : [notified('t-1', status)]))
    const made = chat.feed(fork('t-2', { description: '/probe' }))
    expect(shortLog(made, 'chat')).toEqual([
      `settle #1 ${reason}`, `result forked-command-fan-t-1${reason === 'completed' ? '' : ' error'}`, 'call forked-command-probe-t-2', 'start #2'
    ])
    expect(running(chat)).toBe(1)
    chat.feed(assistant(words('mine'), { tag: TAG }), result())
    expect(chat.log(2)).toContain('says mine')
    expect(running(chat)).toBe(0)
  }
})

test('C11 two runs of one command are two children', () => {
  const chat = play('ingest', ...begun, fork('t-1'), result(), lifecycle('u-2', 'started'), fork('t-2'), result())
  expect(chat.of('child/started').map((event) => event.externalId)).toEqual(['forked-command-fan-t-1', 'forked-command-fan-t-2'])
  expect(chat.of('child/settled').map((event) => event.child)).toEqual([1, 2])
  const doubled = play('ingest', ...begun, fork('t-1'), fork('t-1'))
  expect(running(doubled)).toBe(1)
})

test('C12 a refused tool call shows in the fork\'s log, and nobody is asked', () => {
  const content = [{ type: 'tool_result', tool_use_id: 'b-1', content: 'This needs approval', is_error: true }]
  const refused = { type: 'user', parent_tool_use_id: TAG, message: { content } }
  const chat = play('ingest', ...begun, fork('t-1'), assistant(toolUse('b-1', 'Bash'), { tag: TAG }), refused)
  expect(chat.log(1).slice(-2)).toEqual(['call b-1', 'result b-1 error'])
  expect(chat.of('approval/asked')).toEqual([])
})

test('an agent called inside a fork is no child, and its frames go nowhere', () => {
  const chat = play('ingest', ...begun, fork('t-1'), { ...agentCall('a-9'), parent_tool_use_id: TAG }, taskStart('t-9', { tool_use_id: 'a-9' }))
  const made = chat.feed(assistant(words('nested'), { tag: 'a-9' }), notified('t-9', 'completed', { tool_use_id: 'a-9' }))
  expect(made.map((event) => event.type === 'journal' && event.fed)).toEqual([null, null])
  expect(running(chat)).toBe(1)
})

test('C2 an externalId is unique in its chat: task b-c of /a and task c of /a-b, and a call of that id', () => {
  const chat = play('ingest', ...begun, fork('b-c', { description: '/a' }), fork('c', { description: '/a-b' }), agentCall('forked-command-a-b-c'), agentCall('x'), result())
  expect(chat.of('child/started').map((event) => event.externalId)).toEqual(['forked-command-a-b-c', 'forked-command-a-b-c~2', 'x'])
})
