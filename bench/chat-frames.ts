import type { Frame } from '../src/providers/claude-code/vocabulary.ts'

/** What the CLI writes in a turn: a streamed answer with a subagent, every tenth time with a typed fork. About 95 frames. */
export function * turn (n: number): Generator<Frame> {
  const [uuid, call, task, id] = [`u-${n}`, `call-${n}`, `task-${n}`, `msg-${n}`]
  const event = (it: Frame): Frame => ({ type: 'stream_event', uuid: `e-${n}`, session_id: 's', parent_tool_use_id: null, event: it })
  const assistant = (tag: string | null, at: string, block: Frame): Frame => ({
    type: 'assistant', uuid: `${at}-${n}`, session_id: 's', parent_tool_use_id: tag,
    message: { id: `${at}-${id}`, model: 'm', content: [block], stop_reason: null, usage: { input_tokens: 10, output_tokens: 0 } }
  })
  const answer = function * (at: string): Generator<Frame> {
    yield event({ type: 'message_start', message: { id: `${at}-${id}`, model: 'm', usage: { input_tokens: 10, output_tokens: 0 } } })
    yield event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } })
    for (let i = 0; i < 30; i++) yield event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: `word ${i} ` } })
    yield assistant(null, at, { type: 'text', text: 'the whole of it' })
  }
  const over = (): Frame[] => [event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 31 } }), event({ type: 'message_stop' })]
  const user = (tag: string | null, block: Frame): Frame => ({ type: 'user', session_id: 's', parent_tool_use_id: tag, message: { role: 'user', content: [block] } })
  yield { type: 'command_lifecycle', command_uuid: uuid, state: 'queued' }
  yield { type: 'command_lifecycle', command_uuid: uuid, state: 'started' }
  yield { type: 'system', subtype: 'init', session_id: 's', model: 'm', cwd: '/w', tools: ['Read', 'Task', 'Bash'] }
  if (n % 10 === 0) yield { type: 'system', subtype: 'task_started', task_id: `fork-${n}`, description: '/probe it', prompt: 'Probe.', task_type: 'local_agent' }
  yield { ...user(null, { type: 'text', text: 'go on' }), uuid, isReplay: true }
  yield * answer('a')
  yield assistant(null, 'a', { type: 'tool_use', id: call, name: 'Agent', input: { description: 'read', prompt: 'Read it.' } })
  yield * over()
  yield { type: 'system', subtype: 'task_started', task_id: task, tool_use_id: call, description: 'read', prompt: 'Read it.', is_backgrounded: false }
  yield user(call, { type: 'text', text: 'Read it.' })
  for (let i = 0; i < 8; i++) {
    yield { ...assistant(call, `c${i}`, { type: 'tool_use', id: `${call}-${i}`, name: 'Read', input: { path: 'x' } }), subagent_type: 'general' }
    yield user(call, { type: 'tool_result', tool_use_id: `${call}-${i}`, content: 'line of a file\n'.repeat(20) })
    yield { type: 'system', subtype: 'task_progress', task_id: task, usage: { total_tokens: 12 } }
  }
  yield { type: 'system', subtype: 'task_notification', task_id: task, tool_use_id: call, status: 'completed', summary: 'read' }
  yield user(null, { type: 'tool_result', tool_use_id: call, content: 'read' })
  yield * answer('b')
  yield * over()
  yield { type: 'result', subtype: 'success', is_error: false, result: 'done', uuid: `r-${n}`, user_message_uuid: uuid, num_turns: 2 }
}
