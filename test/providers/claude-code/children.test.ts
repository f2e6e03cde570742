import { expect, test } from 'vitest'
import { standing } from '../../../src/providers/claude-code/state.ts'
import { agentCall, answered, assistant, fork, lifecycle, notified, play, replay, result, running, taskStart, toolResult, toolUse, userText, words } from './play.ts'

const begun = [lifecycle('u-1', 'started'), replay('u-1', 'hello')]

test('B1 an untagged Agent or Task call makes a child, its log opening with the call\'s prompt', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), assistant(toolUse('a-2', 'Task', { description: 'more' })), assistant(toolUse('a-3', 'Read')))
  expect(chat.of('child/started')).toEqual([
    { type: 'child/started', child: 1, externalId: 'a-1', label: 'Agent: do a-1', prompt: 'please a-1', toolCallId: 'a-1' },
    { type: 'child/started', child: 2, externalId: 'a-2', label: 'Agent: more', prompt: null, toolCallId: 'a-2' }
  ])
  expect(chat.log(1)).toEqual(['turn task', 'user please a-1'])
  expect(chat.log(2)).toEqual(['turn task'])
})

test('B1 one call is one child, however often its frame comes', () => {
  const call = agentCall('a-1')
  const chat = play('ingest', ...begun, call, call, agentCall('a-1'), notified('t', 'completed', { tool_use_id: 'a-1' }), agentCall('a-1'))
  expect(chat.of('child/started')).toHaveLength(1)
  expect(running(chat)).toBe(0)
})

test('B2 task_started binds a task to the child of its tool id', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', 'failed', { summary: 'broke' }))
  expect(chat.of('child/settled')).toMatchObject([{ child: 1, reason: 'error', summary: 'broke', error: { message: 'broke' } }])
})

test('B2 a top-level Skill call becomes a child on its task start, and only then', () => {
  const chat = play('ingest', ...begun, assistant(toolUse('s-1', 'Skill', { skill: 'probe' })))
  expect(running(chat)).toBe(0)
  chat.feed(taskStart('t-1', { tool_use_id: 's-1', prompt: 'Probe.' }))
  expect(chat.of('child/started')).toMatchObject([{ externalId: 's-1', label: 'Agent: /probe', prompt: 'Probe.' }])
  chat.feed(notified('t-1', 'completed'))
  expect(running(chat)).toBe(0)
})

test('B3 a task start with a tool id that was not seen in untagged frames is the journal\'s alone', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), assistant(toolUse('n-1', 'Agent', { prompt: 'x' }), { tag: 'a-1' }), assistant(toolUse('r-1', 'Read')))
  const made = chat.feed(...['n-1', 'r-1', 'zz'].map((tool) => taskStart(`t-${tool}`, { tool_use_id: tool, prompt: 'x' })))
  expect(made.map((event) => event.type === 'journal' && event.fed)).toEqual([null, null, null])
  expect(running(chat)).toBe(1)
})

test('B4 a resume of a settled child is a new one that continues it; its original tag feeds the newest', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', 'completed'), toolResult('a-1', 'r'))
  chat.feed(taskStart('t-1', { tool_use_id: 'm-1', prompt: 'go on' }))
  expect(chat.of('child/started')[1]).toEqual({ type: 'child/started', child: 2, externalId: 'm-1', label: 'Agent: do a-1', prompt: 'go on', toolCallId: 'm-1', continues: 1 })
  chat.feed(userText('go on', 'a-1'), assistant(words('one'), { tag: 'a-1' }), assistant(words('two'), { tag: 'm-1' }))
  chat.feed(taskStart('t-1', { tool_use_id: 'm-1', prompt: 'go on' }), notified('t-1', 'completed'))
  expect(chat.log(2)).toEqual(['turn message', 'user go on', 'says one', 'says two', 'end completed'])
  expect(chat.data('turn/start', 2)).toEqual([{ turn: 2, origin: 'message' }])
  chat.feed(taskStart('t-1', { tool_use_id: 'a-1' }), taskStart('t-1', { tool_use_id: 'm-1' }))
  expect(chat.of('child/started')).toHaveLength(2)
})

test('B4 where the old one still runs it is a steer, whose prompt shows once', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), taskStart('t-1', { tool_use_id: 'm-1', prompt: 'faster' }))
  chat.feed(userText('please a-1', 'a-1'), userText('faster', 'm-1'), assistant(words('ok'), { tag: 'm-1' }), notified('x', 'completed', { tool_use_id: 'm-1' }))
  expect(chat.of('child/started')).toHaveLength(1)
  expect(chat.log(1)).toEqual(['turn task', 'user please a-1', 'user faster', 'says ok', 'end completed'])
})

test('B5 a shell task never touches a child, whatever tool id it has', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('sh', { task_type: 'local_bash', tool_use_id: 'a-1' }), fork('sh2', { task_type: 'local_bash' }),
    notified('sh', 'completed', { tool_use_id: 'a-1' }), notified('sh3', 'failed', { tool_use_id: 'a-1', task_type: 'local_bash' }))
  expect(chat.of('child/settled')).toEqual([])
  expect(running(chat)).toBe(1)
})

test('B6 tagged frames go to their child in block order; an unknown tag goes to the journal', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), agentCall('a-2'))
  chat.feed(assistant([{ type: 'thinking', thinking: 'hm' }, words('look'), toolUse('r', 'Read'), words('then')], { tag: 'a-1' }), assistant(words('other'), { tag: 'a-2' }),
    { ...toolResult('r', 'R'), parent_tool_use_id: 'a-1' })
  const made = chat.feed(assistant(words('lost'), { tag: 'zz' }))
  expect(chat.data('assistant/message', 1)[0]?.content.map((part) => part.type)).toEqual(['reasoning', 'text', 'tool-call', 'text'])
  expect(chat.log(1)).toEqual(['turn task', 'user please a-1', 'says <reasoning>look<tool-call>then', 'call r', 'result r'])
  expect(made).toMatchObject([{ type: 'journal', fed: null }])
})

test('B7 every status word ends a child as what it says; others are not terminal', () => {
  const words = {
    completed: ['completed', 'complete', 'succeeded', 'success'], error: ['failed', 'errored', 'error'],
    aborted: ['killed', 'cancelled', 'canceled', 'stopped', 'interrupted']
  }
  for (const [reason, list] of Object.entries(words)) {
    for (const word of list) {
      const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', word))
      expect([word, chat.of('child/settled').map((event) => event.reason)]).toEqual([word, [reason]])
      expect(chat.data('turn/end', 1)).toMatchObject([{ reason }])
    }
  }
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }))
  for (const word of ['running', 'pending', 'COMPLETED', '', 7, null, '__proto__']) chat.feed(notified('t-1', word))
  expect(running(chat)).toBe(1)
})

test('B7 a notification is looked up by its task, then by its tool id', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), agentCall('a-2'), taskStart('t-1', { tool_use_id: 'a-1' }))
  chat.feed(notified('t-1', 'completed', { tool_use_id: 'a-2' }))
  expect(chat.of('child/settled').map((event) => event.child)).toEqual([1])
  chat.feed(notified('t-9', 'completed', { tool_use_id: 'a-2' }))
  expect(chat.of('child/settled').map((event) => event.child)).toEqual([1, 2])
})

test('B8 a child settles once, on its notification', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), { type: 'system', subtype: 'task_updated', task_id: 't-1', patch: { status: 'completed' } })
  expect(running(chat)).toBe(1)
  chat.feed(assistant(words('last word'), { tag: 'a-1' }), notified('t-1', 'completed'), notified('t-1', 'failed'), toolResult('a-1', 'report'))
  expect(chat.of('child/settled')).toMatchObject([{ reason: 'completed' }])
  expect(chat.log(1).slice(-2)).toEqual(['says last word', 'end completed'])
})

test('B8 a background spawn\'s "launched" closes the call, not the child, however it is known to be one', () => {
  for (const [call, start, more] of [[{ run_in_background: true }, {}, {}], [{}, { is_backgrounded: true }, {}], [{}, {}, { tool_use_result: { status: 'async_launched' } }]]) {
    const first = Object.keys(start ?? {}).length === 0 ? [] : [taskStart('t-1', { tool_use_id: 'a-1', ...start })]
    const chat = play('ingest', ...begun, agentCall('a-1', call), ...first, toolResult('a-1', 'launched', more), result())
    expect(standing(chat.state)).toMatchObject({ turn: false, runningChildren: 1, openTools: 0 })
    chat.feed(assistant(words('later'), { tag: 'a-1' }), notified('t-1', 'completed', { tool_use_id: 'a-1' }))
    expect(chat.log(1).slice(-2)).toEqual(['says later', 'end completed'])
  }
})

test('B8 a foreground tool result without a notification settles the child', () => {
  for (const [isError, reason] of [[false, 'completed'], [true, 'error']] as const) {
    const answer = { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 'a-1', content: 'report', is_error: isError }] } }
    const chat = play('ingest', ...begun, agentCall('a-1'), answer)
    expect(chat.of('child/settled')).toMatchObject([{ child: 1, reason, summary: 'report' }])
  }
})

test('B8 a foreground child does not outlive the turn that waits for it', () => {
  for (const [first, reason] of [[[answered()], 'aborted'], [[], 'error']] as const) {
    const chat = play('ingest', ...begun, agentCall('a-1'), agentCall('a-2', { run_in_background: true }), ...first, result())
    expect(chat.of('child/settled')).toMatchObject([{ child: 1, reason }])
  }
})

test('B9 after it settled nothing reaches a child', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', 'completed'))
  const made = chat.feed(assistant(words('late'), { tag: 'a-1' }), userText('please a-1', 'a-1'), notified('t-1', 'failed'), taskStart('t-1', { tool_use_id: 'a-1' }),
    { type: 'system', subtype: 'task_progress', task_id: 't-1' })
  expect(made.map((event) => event.type === 'journal' && event.fed)).toEqual(Array(5).fill(null))
})

test('B10 when the process ends, running children settle as error, or aborted when we stopped it', () => {
  for (const [first, reason] of [[[], 'error'], [[{ type: 'stop' }], 'aborted']] as const) {
    const chat = play('drive', ...begun, agentCall('a-1', { run_in_background: true }), agentCall('a-2'), ...first, { type: 'exit', code: 1 })
    expect(chat.of('child/settled').map((event) => [event.child, event.reason])).toEqual([[1, reason], [2, reason]])
    expect(chat.of('turn/ended')).toMatchObject([{ reason }])
    expect(standing(chat.state)).toEqual({ turn: false, runningChildren: 0, openTools: 0, queued: 0 })
    expect(chat.feed(agentCall('a-3'), fork('t-9')).map((event) => event.type)).toEqual(['journal', 'journal'])
  }
})

test('B11 an opening prompt echoed as the first user text is dropped once', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), userText('please a-1', 'a-1'), userText('please a-1', 'a-1'))
  expect(chat.data('user/message', 1)).toHaveLength(2)
  const other = play('ingest', ...begun, agentCall('a-1'), userText('first', 'a-1'), userText('please a-1', 'a-1'))
  expect(other.log(1)).toEqual(['turn task', 'user please a-1', 'user first', 'user please a-1'])
})

test('what is remembered of settled children is bounded, and the rest goes on', () => {
  const chat = play('ingest', ...begun)
  for (let i = 0; i < 4200; i++) chat.feed(agentCall(`a-${i}`), taskStart(`t-${i}`, { tool_use_id: `a-${i}` }), notified(`t-${i}`, 'completed'))
  const { settled, tags, tasks, running: left } = chat.state
  expect([settled.map.size, tags.size, tasks.size, left.size]).toEqual([4096, 4096, 4096, 0])
  chat.feed(taskStart('t-4199', { tool_use_id: 'm-1' }), taskStart('t-0', { tool_use_id: 'm-2' }))
  expect(chat.of('child/started').at(-1)).toMatchObject({ continues: 4200 })
})

test('B4 after many resumes the original tag still feeds the newest, and an id that was used is no new child', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', 'completed'))
  for (let i = 0; i < 40; i++) chat.feed(taskStart('t-1', { tool_use_id: `m-${i}` }), notified('t-1', 'completed'))
  chat.feed(taskStart('t-1', { tool_use_id: 'last' }), assistant(words('mine'), { tag: 'a-1' }), assistant(words('lost'), { tag: 'm-0' }), agentCall('m-0'), notified('t-1', 'completed'))
  expect(chat.of('child/started')).toHaveLength(42)
  expect(chat.log(42)).toEqual(['turn message', 'says mine', 'end completed'])
})
