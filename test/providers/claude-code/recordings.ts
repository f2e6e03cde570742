import type { Frame, Input } from '../../../src/providers/claude-code/vocabulary.ts'
import { agentCall, answered, assistant, fork, frame, init, lifecycle, notified, replay, result, sent, streamed, taskStart, toolResult, toolUse, userText, words } from './play.ts'

/** Whole chats as the CLI plays them, by hand: each with the outcome that its reader expects. */
export interface Recording {
  name: string
  inputs: Input[]
  /** externalId, label, reason, texts said; in the order of their starts. */
  children: [string, string, string, string[]][]
  turns: [reason: string, answers: boolean, text: string][]
  most: number
}

const frames = (...list: Frame[]): Input[] => list.map(frame)
const opening = (uuid: string, said: string): Input[] =>
  [sent(uuid, said), ...frames(lifecycle(uuid, 'queued'), lifecycle(uuid, 'started'), init(), replay(uuid, said))]
const inChild = (tag: string, block: Frame): Frame => assistant(block, { tag })
const status = (task: string): Frame => ({ type: 'system', subtype: 'task_updated', task_id: task, patch: { status: 'completed' } })
const TAG = 'forked-command-fan'
const reply = (said: string): Frame =>
  assistant([], { local_command_source: `<out>${said}</out>`, message: { id: 'l', model: '<synthetic>', content: [words(said)], stop_reason: 'end_turn' } })

export const RECORDINGS: Recording[] = [
  {
    name: 'a plain answer',
    inputs: [...opening('u-1', 'say it'), ...frames(...streamed('m', 'it is said'), result({ result: 'it is said' }), lifecycle('u-1', 'completed'))],
    children: [],
    turns: [['completed', true, 'it is said']],
    most: 0
  },
  {
    name: 'a subagent in the foreground',
    inputs: [...opening('u-1', 'use one'), ...frames(
      ...streamed('m', 'asking').slice(0, 4), { ...agentCall('a-1'), message: { id: 'm', content: [toolUse('a-1', 'Agent', { description: 'read', prompt: 'Read it.' })] } },
      taskStart('t-1', { tool_use_id: 'a-1', description: 'read', prompt: 'Read it.' }), userText('Read it.', 'a-1'), ...streamed('m', '').slice(-2),
      inChild('a-1', words('reading')), inChild('a-1', toolUse('r-1', 'Read', { path: 'x' })), { ...toolResult('r-1', 'content'), parent_tool_use_id: 'a-1' },
      inChild('a-1', words('it says so')), status('t-1'), notified('t-1', 'completed', { tool_use_id: 'a-1', summary: 'it says so' }), toolResult('a-1', [words('it says so')]),
      ...streamed('n', 'so it says'), result({ result: 'so it says' }), lifecycle('u-1', 'completed'))],
    children: [['a-1', 'Agent: read', 'completed', ['reading', '', 'it says so']]],
    turns: [['completed', true, 'so it says']],
    most: 1
  },
  {
    name: 'a typed fork',
    inputs: [sent('u-1', '/fan'), ...frames(
      lifecycle('u-1', 'queued'), lifecycle('u-1', 'started'), fork('t-1'), notified('t-1', 'completed'), init(), userText('Fan out.\n', TAG), inChild(TAG, words('first')),
      inChild(TAG, toolUse('b-1', 'Bash', { command: 'ls' })), { ...toolResult('b-1', 'files'), parent_tool_use_id: TAG }, inChild(TAG, words('all good')),
      reply('all good'), replay('u-1', '/fan'), result({ result: 'all good', num_turns: 0 }), lifecycle('u-1', 'completed'))],
    children: [['forked-command-fan-t-1', 'Agent: /fan', 'completed', ['first', '', 'all good']]],
    turns: [['completed', true, 'all good']],
    most: 1
  },
  {
    name: 'two subagents side by side',
    inputs: [...opening('u-1', 'use two'), ...frames(
      agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), userText('please a-1', 'a-1'), agentCall('a-2'), taskStart('t-2', { tool_use_id: 'a-2' }),
      userText('please a-2', 'a-2'), inChild('a-1', words('north')), inChild('a-2', words('south')), notified('t-2', 'completed', { tool_use_id: 'a-2' }), toolResult('a-2', 'south'),
      inChild('a-1', words('again')), notified('t-1', 'failed', { tool_use_id: 'a-1' }), toolResult('a-1', 'north'), ...streamed('n', 'both'), result({ result: 'both' }))],
    children: [['a-1', 'Agent: do a-1', 'error', ['north', 'again']], ['a-2', 'Agent: do a-2', 'completed', ['south']]],
    turns: [['completed', true, 'both']],
    most: 2
  },
  {
    name: 'a typed fork that is interrupted, and a message after it',
    inputs: [sent('u-1', '/fan'), ...frames(lifecycle('u-1', 'queued'), lifecycle('u-1', 'started'), fork('t-1')), { type: 'interrupt' }, ...frames(
      answered(), notified('t-1', 'stopped'), init(), userText('Fan out.\n', TAG), inChild(TAG, words('first')), userText('[Request interrupted by user]', TAG),
      replay('u-1', '/fan'), result({ result: '', num_turns: 0 }), lifecycle('u-1', 'cancelled')), ...opening('u-2', 'still there?'),
    ...frames(...streamed('n', 'back again'), result({ result: 'back again' }))],
    children: [['forked-command-fan-t-1', 'Agent: /fan', 'aborted', ['first']]],
    turns: [['aborted', true, ''], ['completed', true, 'back again']],
    most: 1
  },
  {
    name: 'a subagent in the background',
    inputs: [...opening('u-1', 'use one later'), ...frames(
      agentCall('a-1', { run_in_background: true }), taskStart('t-1', { tool_use_id: 'a-1', is_backgrounded: true }), toolResult('a-1', 'launched', { tool_use_result: { isAsync: true } }),
      ...streamed('n', 'started'), result({ result: 'started' }), inChild('a-1', words('working')), status('t-1'), notified('t-1', 'completed', { tool_use_id: 'a-1' }), init(),
      ...streamed('o', 'it is done'), result({ result: 'it is done', origin: { kind: 'task-notification' } }))],
    children: [['a-1', 'Agent: do a-1', 'completed', ['working']]],
    turns: [['completed', true, 'started'], ['completed', false, 'it is done']],
    most: 1
  },
  {
    name: 'a steer during a typed fork, and a resumed subagent',
    inputs: [sent('u-1', '/fan'), ...frames(lifecycle('u-1', 'queued'), lifecycle('u-1', 'started'), fork('t-1')), sent('u-2', 'and more'), ...frames(
      lifecycle('u-2', 'queued'), notified('t-1', 'completed'), inChild(TAG, words('fanned')), result({ num_turns: 0 }), lifecycle('u-1', 'completed'), lifecycle('u-2', 'started'),
      agentCall('a-1'), taskStart('t-2', { tool_use_id: 'a-1' }), notified('t-2', 'completed'), toolResult('a-1', 'one'), assistant(toolUse('s-1', 'SendMessage')),
      taskStart('t-2', { tool_use_id: 's-1', prompt: 'more', is_backgrounded: true }), toolResult('s-1', 'sent'), inChild('a-1', words('more it is')), notified('t-2', 'stopped'),
      ...streamed('n', 'ok'), result({ result: 'ok' }))],
    children: [
      ['forked-command-fan-t-1', 'Agent: /fan', 'completed', ['fanned']], ['a-1', 'Agent: do a-1', 'completed', []], ['s-1', 'Agent: do a-1', 'aborted', ['more it is']]
    ],
    turns: [['completed', true, 'ok']],
    most: 1
  }
]
