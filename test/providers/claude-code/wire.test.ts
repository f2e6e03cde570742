import { expect, test } from 'vitest'
import { foldMessages } from '../../../src/core/fold.ts'
import { plainJsonFault } from '../../../src/core/json.ts'
import { repair } from '../../../src/core/repair.ts'
import type { SessionEvent } from '../../../src/core/events.ts'
import { createLineReader, readLine } from '../../../src/providers/claude-code/lines.ts'
import { answerTo } from '../../../src/providers/claude-code/permission.ts'
import { replay as replayLines, startReplay } from '../../../src/providers/claude-code/replay.ts'
import { standing } from '../../../src/providers/claude-code/state.ts'
import type { Frame } from '../../../src/providers/claude-code/vocabulary.ts'
import { agentCall, answered, assistant, init, lifecycle, notified, play, replay, result, sent, stream, streamed, taskStart, toolResult, toolUse, userText, words } from './play.ts'

const begun = [lifecycle('u-1', 'queued'), lifecycle('u-1', 'started'), replay('u-1', 'hello')]

test('A1 blank, torn and non-JSON lines and unknown types go to the journal only', () => {
  const chat = play('ingest')
  for (const line of ['', '   ', '{"type":"assist', 'null', '[1]', '7', '"text"', '{"type":"result"']) chat.feed(readLine(line))
  chat.feed({ type: 'later' }, { type: 7 }, {}, { type: 'system', subtype: 'later' })
  expect(chat.events.map((event) => event.type === 'journal' && event.fed)).toEqual(Array(12).fill(null))
  expect(chat.of('journal').map((entry) => entry.line)).toEqual(Array.from({ length: 12 }, (_, i) => i))
  expect(standing(chat.state)).toMatchObject({ turn: false, runningChildren: 0 })
})

test('A1 a field of an unexpected type costs that field, never the frame', () => {
  const chat = play('ingest', ...begun, {
    type: 'assistant', uuid: 7, parent_tool_use_id: 9,
    message: { id: {}, model: 3, usage: 'much', stop_reason: [], content: [{ type: 'text', text: 'kept' }, null, 4, { type: 'text', text: 9 }, { type: 'tool_use', id: 5 }] }
  }, { type: 'result', subtype: 'success', is_error: 'no', result: 7, usage: [], origin: 9, total_cost_usd: 'all' })
  expect(chat.log()).toEqual(['turn task', 'user hello', 'says kept', 'end completed'])
  expect(chat.data('assistant/message')[0]).toMatchObject({ model: 'unknown', usage: { inputTokens: 0, outputTokens: 0 } })
  expect(chat.of('turn/ended')[0]).toEqual({ type: 'turn/ended', turn: 1, reason: 'completed', answers: true })
})

test('A1 a tool input that no log takes is made plain, or left to the journal where it nests too deep', () => {
  const deep = JSON.parse(`${'['.repeat(5000)}${']'.repeat(5000)}`) as unknown
  const chat = play('ingest', ...begun, assistant([toolUse('a', 'Read', JSON.parse('{"n":-0,"big":1e400}')), toolUse('b', 'Read', deep)]), result())
  expect(chat.data('tool/call').map((call) => call.input)).toEqual([{ n: 0, big: 'Infinity' }, {}])
  // As a field of an event a value stands one level deeper.
  for (const depth of [126, 127, 128, 129, 200]) {
    const odd = play('ingest', ...begun, assistant(toolUse('a', 'Read', [JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`), -0])), result())
    for (const event of odd.events) if (event.type === 'log') expect(plainJsonFault(event.event.data)).toBeUndefined()
    expect(odd.log()).toContain('call a')
  }
  const mixed = play('ingest', ...begun, assistant(toolUse('a', 'Read', [-0, JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)])))
  expect(mixed.of('fault')).toEqual([])
})

test('A3 the first init opens the session; later ones, one a turn, do not', () => {
  const chat = play('ingest', init(), ...begun, init({ session_id: 's-2' }), result(), init({ tools: 7 }))
  expect(chat.of('session/opened')).toEqual([{ type: 'session/opened', sessionId: 's-1', model: 'm-1', tools: ['Read', 'Task'], cwd: '/w' }])
})

test('A3 the first untagged frame that tells the session names it, before init does; what init itself says counts', () => {
  const early = { ...lifecycle('u-1', 'queued'), session_id: 's-1' }
  const chat = play('ingest', { ...assistant(words('x'), { tag: 'a' }), session_id: 's-0' }, { ...early, session_id: 7 }, early, { ...early, session_id: 's-3' }, init({ session_id: undefined }))
  expect(chat.of('session/named')).toEqual([{ type: 'session/named', sessionId: 's-1' }])
  expect(chat.of('session/opened')).toMatchObject([{ sessionId: 's-1' }])
  expect(play('ingest', early, init({ session_id: 's-2' })).of('session/opened')).toMatchObject([{ sessionId: 's-2' }])
})

test('A4 without deltas a result between the frames of one message does not count its usage twice', () => {
  const usage = (output: number): Frame => ({ message: { id: 'm', content: [toolUse(`c-${output}`, 'Read')], usage: { input_tokens: 7, output_tokens: output } } })
  const chat = play('ingest', ...begun, assistant([], usage(3)), toolResult('c-3', 'r'), assistant([], usage(5)), toolResult('c-5', 'r'), result())
  expect(chat.data('assistant/message').map((said) => [said.usage.inputTokens, said.usage.outputTokens])).toEqual([[7, 3], [0, 2]])
})

test('A4 deltas stream the chat\'s text and thinking; the assistant frames then bring only calls, usage and the end', () => {
  const chat = play('ingest', ...begun,
    stream({ type: 'message_start', message: { id: 'm', model: 'm-1', usage: { input_tokens: 7, cache_read_input_tokens: 5 } } }),
    stream({ type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } }),
    stream({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } }),
    stream({ type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } }),
    assistant({ type: 'thinking', thinking: 'hm', signature: 'sig' }, { id: 'm' }),
    stream({ type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } }),
    stream({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Look' } }),
    stream({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'ing.' } }),
    assistant(words('Looking.'), { id: 'm' }),
    assistant(toolUse('a', 'Read', { path: 'x' }), { id: 'm' }),
    stream({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } }))
  expect(chat.of('delta').map((delta) => [delta.kind, delta.text])).toEqual([['reasoning', 'hm'], ['text', 'Look'], ['text', 'ing.']])
  expect(chat.data('assistant/message')).toEqual([])
  chat.feed(stream({ type: 'message_stop' }), assistant(words('Looking.'), { id: 'm' }), toolResult('a', 'x'), result())
  expect(chat.data('assistant/message')).toEqual([{
    content: [
      { type: 'reasoning', text: 'hm', signature: 'sig' }, { type: 'text', text: 'Looking.' },
      { type: 'tool-call', toolCallId: 'a', name: 'Read', arguments: '{"path":"x"}' }
    ],
    usage: { inputTokens: 12, cachedInputTokens: 5, cacheWriteTokens: 0, outputTokens: 9, reasoningTokens: 0, steps: 1 },
    model: 'm-1',
    stop: 'tool-calls'
  }])
})

test('A4 a frame without deltas before it brings its text once: synthetic, of a local command, or of a CLI that streams none', () => {
  const local = { ...assistant(words('local reply')), local_command_source: '<x>' }
  const plain = assistant(words('whole'), { id: 'w' })
  const chat = play('ingest', ...begun, ...streamed('m', 'from deltas'), local, local, plain, plain, assistant(words(' and more'), { id: 'w' }), result())
  expect(chat.log()).toEqual(['turn task', 'user hello', 'says from deltas', 'says local reply', 'says whole and more', 'end completed'])
})

test('A4 tagged frames never split the chat\'s message', () => {
  const parts = streamed('m', 'one two three')
  const chat = play('ingest', ...begun, agentCall('a-1'), toolResult('a-1', 'launched', { tool_use_result: { isAsync: true } }),
    ...parts.slice(0, 3), assistant(words('meanwhile'), { tag: 'a-1' }), stream({ type: 'ping' }), ...parts.slice(3), result())
  expect(chat.log().filter((line) => line.startsWith('says'))).toEqual(['says <tool-call>', 'says one two three'])
})

test('A4 a call\'s result that comes before its message has ended waits for it, so that message, call and result stand in order', () => {
  const chat = play('ingest', ...begun, ...streamed('m', 'go').slice(0, 4), assistant(toolUse('a', 'Read'), { id: 'm' }),
    toolResult('a', 'early'), assistant(toolUse('b', 'Read'), { id: 'm' }), stream({ type: 'message_stop' }), toolResult('b', 'late'), result())
  expect(chat.log()).toEqual(['turn task', 'user hello', 'says go<tool-call><tool-call>', 'call a', 'call b', 'result a', 'result b', 'end completed'])
})

test('A4 frames of one message that share a uuid are not the same frame twice', () => {
  const shared = { uuid: 'f-same', id: 'm' }
  const chat = play('ingest', ...begun, assistant(words('look'), shared), assistant(toolUse('a-1', 'Agent'), shared), assistant(toolUse('a-2', 'Agent'), shared), result())
  expect(chat.of('child/started').map((event) => event.externalId)).toEqual(['a-1', 'a-2'])
  expect(chat.log()).toContain('says look<tool-call><tool-call>')
})

test('A4 an error of the model shows in its message', () => {
  const chat = play('ingest', ...begun, { ...assistant(words('no key')), error: 'authentication_failed' }, result({ is_error: true }))
  expect(chat.data('assistant/message')[0]).toMatchObject({ stop: 'error', error: { code: 'MODEL_AUTH' } })
  expect(chat.data('turn/end')).toMatchObject([{ reason: 'error', error: { message: 'done' } }])
})

test('A5 what the CLI puts in the user\'s mouth is no user message, in the chat or in a child', () => {
  const chat = play('ingest', ...begun, agentCall('a-1'))
  for (const tag of [null, 'a-1']) {
    for (const said of ['<system-reminder>x</system-reminder>', '\n <task-notification>', '[Request interrupted by user]', '  ']) chat.feed(userText(said, tag))
  }
  expect(chat.data('user/message')).toHaveLength(1)
  expect(chat.data('user/message', 1)).toHaveLength(1)
  chat.feed(userText('mine'))
  expect(chat.state.log.waiting).toHaveLength(1)
})

test('A6 success completes a turn; is_error or another subtype is an error; after our own interrupt it is aborted either way', () => {
  for (const [more, interrupted, reason, code] of [
    [{}, false, 'completed', undefined], [{ is_error: true }, false, 'error', 'MODEL_ERROR'], [{ subtype: 'error_max_turns' }, false, 'error', 'LIMIT_STEPS'],
    [{ subtype: 'other' }, false, 'error', 'MODEL_ERROR'], [{ subtype: 4 }, false, 'error', 'INTERNAL'], [{}, true, 'aborted', undefined],
    [{ is_error: true, subtype: 'error_during_execution' }, true, 'aborted', undefined]
  ] as const) {
    const chat = play('ingest', ...begun, ...(interrupted ? [answered()] : []), result(more))
    expect([more, chat.of('turn/ended').map((end) => [end.reason, end.error?.code])]).toEqual([more, [[reason, code]]])
  }
})

test('A6 an answer to an interrupt marks only a turn that is open', () => {
  const chat = play('ingest', ...begun, result(), answered(), lifecycle('u-2', 'started'), result())
  expect(chat.of('turn/ended').map((end) => end.reason)).toEqual(['completed', 'completed'])
})

test('A6 a wake turn is not the answer to the user\'s message', () => {
  const chat = play('ingest', ...begun, ...streamed('m', 'answer'), result({ result: 'answer' }), init(), ...streamed('n', 'woken'),
    result({ result: 'woken', origin: { kind: 'task-notification' } }))
  expect(chat.log()).toEqual(['turn task', 'user hello', 'says answer', 'end completed', 'turn service', 'says woken', 'end completed'])
  expect(chat.of('turn/ended').map((end) => [end.text, end.answers])).toEqual([['answer', true], ['woken', false]])
})

test('A6 a CLI that tells no lifecycles: content after a turn is a user\'s next one, unless a task notified; the result says whose it was', () => {
  const turn = (said: string, more: Frame = {}): Frame[] => [assistant(words(said)), result({ result: said, ...more })]
  const woken = { origin: { kind: 'task-notification' } }
  for (const [frames, origins, answers, output] of [
    [[...turn('one'), ...turn('two')], ['task', 'message'], [true, true], 'two'],
    [[...turn('one'), ...turn('two', woken)], ['task', 'message'], [true, false], 'one'],
    [[...turn('one'), notified('sh', 'completed'), ...turn('two', woken)], ['task', 'service'], [true, false], 'one'],
    [[...turn('one'), notified('sh', 'completed'), ...turn('two')], ['task', 'service'], [true, true], 'two'],
    [[...turn('one'), notified('sh', 'completed'), ...turn('two', woken), ...turn('three')], ['task', 'service', 'message'], [true, false, true], 'three']
  ] as const) {
    const chat = play('ingest', init(), ...frames)
    expect(chat.data('turn/start').map(({ origin }) => origin)).toEqual(origins)
    expect(chat.of('turn/ended').map((end) => end.answers)).toEqual(answers)
    const again = startReplay([])
    replayLines(again, [init(), ...frames].map((it) => JSON.stringify(it)))
    expect(again.chat.result({ cancelled: false })).toMatchObject({ output: [{ text: output }], stopReason: 'completed' })
  }
})

test('A6 one result ends one turn: doubled, or with no turn to end, it is the journal\'s alone', () => {
  const once = result()
  const chat = play('ingest', ...begun, once, once, result())
  expect(chat.of('turn/ended')).toHaveLength(1)
  const last = result()
  expect(play('ingest', ...begun, last, lifecycle('u-2', 'started'), last).of('turn/ended')).toHaveLength(1)
  expect(play('ingest', init(), result({ is_error: true })).of('turn/ended')).toMatchObject([{ turn: 1, reason: 'error' }])
})

test('A7 a request whose id is a number is answered with that number', () => {
  const chat = play('drive', { type: 'control_request', request_id: 0, request: { subtype: 'can_use_tool', tool_name: 'Bash' } }, { type: 'control_request', request_id: 7, request: {} })
  const answers = [...chat.of('approval/asked'), ...chat.of('control/asked')].map((asked) => answerTo({ mode: 'deny' } as never, undefined, asked))
  expect(answers.map((answer) => (typeof answer === 'string' ? JSON.parse(answer) as typeof answer : answer))).toMatchObject([{ response: { request_id: 0 } }, { response: { request_id: 7 } }])
})

test('A7 every request of the CLI is told, so that it gets its answer', () => {
  const ask = { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'ls' }, tool_use_id: 'a', agent_id: 'g' }
  const chat = play('ingest', { type: 'control_request', request_id: 'r-1', request: ask },
    { type: 'control_request', request_id: 'r-2', request: { subtype: 'can_use_tool', input: 7 } }, { type: 'control_request', request_id: 'r-3', request: 'what' })
  expect(chat.events.filter((event) => event.type !== 'journal')).toEqual([
    { type: 'approval/asked', requestId: 'r-1', tool: 'Bash', input: '{"command":"ls"}', toolCallId: 'a', agentId: 'g' },
    { type: 'approval/asked', requestId: 'r-2', tool: '', input: '7', toolCallId: null, agentId: null },
    { type: 'control/asked', requestId: 'r-3', subtype: '' }
  ])
})

test('the log is balanced and folds to alternating messages, whatever was left open', () => {
  const chat = play('drive', sent('u-1', 'go'), lifecycle('u-1', 'started'), assistant([words('two'), toolUse('a', 'Read'), toolUse('b', 'Read')], { id: 'm' }),
    toolResult('b', 'B'), sent('u-2', 'faster'), lifecycle('u-2', 'started'), result())
  expect(chat.log()).toEqual([
    'turn task', 'user go', 'says two<tool-call><tool-call>', 'call a', 'call b', 'result b', 'steer u-2', 'result a error', 'user faster', 'end completed'
  ])
  const log = chat.events.flatMap((event) => event.type === 'log' ? [event.event] : []).map((event, seq) => ({ ...event, seq, time: 0 }) as SessionEvent)
  expect(repair(log)).toEqual([])
  expect(foldMessages(log).map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user', 'assistant'])
})

test('an ingested chat whose task the host gave says it once, however the CLI echoes it', () => {
  const task = { type: 'sent' as const, content: [{ type: 'text' as const, text: 'hello' }] }
  for (const frames of [
    [...begun], [init(), replay('u-9', 'hello')], [lifecycle('u-1', 'started'), replay('u-1', 'hello')], [taskStart('t-1', { description: '/x' }), replay('u-9', 'hello')], [init()]
  ]) {
    const chat = play('ingest', task, ...frames, ...streamed('m', 'hi'), result())
    expect([frames.length, chat.log().filter((line) => line.startsWith('user'))]).toEqual([frames.length, ['user hello']])
    expect(chat.of('steer/confirmed')).toEqual([])
  }
})

test('a line reader gives the same inputs for any split, across characters, and keeps of a line that is too long its head', () => {
  const bytes = Buffer.from('{"type":"a","t":"žluť 🎉"}\r\n\nno json\n{"b":1}\n' + 'x'.repeat(3000) + '\n{"type":"last"}')
  const whole = [createLineReader(2048)].flatMap((reader) => [...reader.push(bytes), ...reader.end()])
  expect(whole.map(({ input }) => input.type)).toEqual(['frame', 'unreadable', 'unreadable', 'frame', 'unreadable', 'frame'])
  expect(whole[4]).toEqual({ line: 'x'.repeat(1024), input: { type: 'unreadable', line: 'x'.repeat(1024) }, cut: true })
  expect(whole.map(({ line, cut }) => cut ? '' : line)[0]).toBe('{"type":"a","t":"žluť 🎉"}\r')
  for (const size of [1, 2, 3, 7, 1000]) {
    const reader = createLineReader(2048)
    const inputs = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => reader.push(bytes.subarray(i * size, (i + 1) * size))).flat()
    expect([...inputs, ...reader.end()]).toEqual(whole)
  }
})
