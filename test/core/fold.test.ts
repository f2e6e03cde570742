import fc from 'fast-check'
import { expect, test } from 'vitest'
import { text, type NewEvent, type SessionEvent, type TurnEndReason } from '../../src/core/events.ts'
import { foldMessages, transcriptHeader, type ModelMessage } from '../../src/core/fold.ts'
import { repair } from '../../src/core/repair.ts'
import { assistant, balancedLogs, call, crashedLogs, numbered, result, turns, user } from './histories.ts'

const said = (messages: readonly ModelMessage[]): unknown[] =>
  messages.map(({ role, content }) => [role, ...content.map((part) => part.type === 'text' ? part.text : part.type)])
const open = (...events: NewEvent[]): SessionEvent[] => numbered([{ type: 'turn/start', data: { turn: 1, origin: 'task' } }, ...events])

/** Length of the log at each request that was made: right after a `step/start`. */
const requestPoints = (log: readonly SessionEvent[]): number[] =>
  log.flatMap((event) => event.type === 'step/start' ? [event.seq + 1] : [])

test('2.6 same log, same bytes: the fold is a function of the events and changes none of them', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const before = structuredClone(log)
    expect(JSON.stringify(foldMessages(log))).toBe(JSON.stringify(foldMessages(structuredClone(log))))
    expect(log).toEqual(before)
  }))
})

test('2.6 seq and time of an event, and what is log only, do not reach the model', () => {
  fc.assert(fc.property(balancedLogs, fc.nat(), (log, at) => {
    const noted: NewEvent[] = [{ type: 'run/resumed', data: { attempt: 2 } }, { type: 'subagent/start', data: { runId: 'r', label: null } }]
    const moved = numbered(log.toSpliced(at % (log.length + 1), 0, ...numbered(noted)), 700)
    expect(foldMessages(moved)).toEqual(foldMessages(log))
  }))
})

test('2.6 append only: each request starts with every message of each earlier request', () => {
  fc.assert(fc.property(balancedLogs, (log) => {
    let earlier: ModelMessage[] = []
    for (const point of [...requestPoints(log), log.length]) {
      const messages = foldMessages(log.slice(0, point))
      expect(messages.slice(0, earlier.length)).toEqual(earlier)
      earlier = messages
    }
  }))
})

test('2.6 append only also across a crash: the repaired log extends what was sent before it', () => {
  fc.assert(fc.property(crashedLogs, (log) => {
    const point = requestPoints(log).at(-1)
    if (point === undefined) return
    const sent = foldMessages(log.slice(0, point))
    expect(foldMessages([...log, ...numbered(repair(log), log.length)]).slice(0, sent.length)).toEqual(sent)
  }))
})

test('2.6 a fork sees of its parent exactly what the parent sent: the fold of a prefix is a prefix of the fold', () => {
  fc.assert(fc.property(balancedLogs, (log) => {
    for (const event of log) {
      if (event.type !== 'turn/end') continue
      const seed = foldMessages(log.slice(0, event.seq + 1))
      expect(foldMessages(log).slice(0, seed.length)).toEqual(seed)
    }
  }))
})

test('2.6 roles alternate: no turn ends on an unanswered user message, a steered one included', () => {
  fc.assert(fc.property(balancedLogs, (log) => {
    for (const event of log) {
      if (event.type === 'turn/end') expect(foldMessages(log.slice(0, event.seq + 1)).at(-1)?.role).not.toBe('user')
    }
  }))
})

test('2.6 a steered message that the model never answered is answered for', () => {
  const log = open(user('task'), assistant('on it', ['a']), result('a', 'done'), user('hurry'), { type: 'turn/end', data: { turn: 1, reason: 'error' } })
  expect(said(foldMessages(log)).slice(-2)).toEqual([['user', 'hurry'], ['assistant', '(no answer: error)']])
})

test('2.6 a turn that stopped on the result of a call is answered too, so that the next one finds its place', () => {
  const log = open(user('task'), assistant('', ['a']), result('a', 'recorded'), { type: 'turn/end', data: { turn: 1, reason: 'completed' } })
  expect(said(foldMessages(log)).slice(-2)).toEqual([['tool', 'recorded'], ['assistant', '(no answer: completed)']])
})

test('2.6 every message of the fold is a user message, an assistant message with content, or the result of a call before it', () => {
  fc.assert(fc.property(balancedLogs, (log) => {
    const called: string[] = []
    for (const message of foldMessages(log)) {
      if (message.role === 'assistant') {
        expect(message.content).not.toEqual([])
        called.push(...message.content.flatMap((part) => part.type === 'tool-call' ? [part.toolCallId] : []))
      }
      if (message.role === 'tool') expect(called).toContain(message.toolCallId)
    }
  }))
})

test.for<TurnEndReason>(['completed', 'max-tokens', 'aborted', 'refusal', 'error', 'interrupted'])(
  '2.6 a turn that ended %s without an assistant message folds to its user message and (no answer: …)', (reason) => {
    const log = open(user('task'), { type: 'step/start', data: { turn: 1, step: 1, attempt: 1 } }, assistant(''),
      { type: 'step/end', data: { turn: 1, step: 1 } }, { type: 'turn/end', data: { turn: 1, reason } })
    expect(said(foldMessages(log))).toEqual([['user', 'task'], ['assistant', `(no answer: ${reason})`]])
  })

test('2.6 a turn that no user message opened and that said nothing leaves no trace', () => {
  const log = numbered([{ type: 'turn/start', data: { turn: 1, origin: 'service' } }, { type: 'turn/end', data: { turn: 1, reason: 'completed' } }])
  expect(foldMessages(log)).toEqual([])
})

test('2.6 an open turn without an answer is not answered for: its user message is last', () => {
  expect(said(foldMessages(open(user('task'))))).toEqual([['user', 'task']])
})

test('11 results stand in the order of the calls, whatever order they arrived in', () => {
  fc.assert(fc.property(fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 8 }), fc.array(fc.nat()), (ids, keys) => {
    const arrived = ids.map((id, i) => ({ id, key: keys[i] ?? 0 })).toSorted((a, b) => a.key - b.key)
    const log = open(user('task'), assistant('', ids), ...ids.map(call), ...arrived.map(({ id }) => result(id, `of ${id}`)))
    const results = foldMessages(log).slice(2)
    expect(said(results)).toEqual(ids.map((id) => ['tool', `of ${id}`]))
  }))
})

test('11 results of calls that share an id keep their places among the others', () => {
  const log = open(user('task'), assistant('', ['x', 'y', 'x']), result('x', 'first'), result('x', 'second'), result('y', 'other'))
  expect(said(foldMessages(log)).slice(2)).toEqual([['tool', 'first'], ['tool', 'other'], ['tool', 'second']])
})

test('11 the results of one step never mix with those of the next', () => {
  fc.assert(fc.property(turns, (plans) => {
    const log = numbered(plans.flatMap((plan, turn): NewEvent[] => [
      { type: 'turn/start', data: { turn: turn + 1, origin: 'task' } }, user('task'),
      ...plan.steps.flatMap(({ calls }, step): NewEvent[] => [assistant('on it', calls), ...calls.toReversed().map((id) => result(id, `${turn}.${step}`))])
    ]))
    const wanted = plans.flatMap(({ steps }, turn) => steps.flatMap(({ calls }, step) => calls.map(() => ['tool', `${turn}.${step}`])))
    expect(said(foldMessages(log)).filter((line) => Array.isArray(line) && line[0] === 'tool')).toEqual(wanted)
  }))
})

test('3.6 wire texts ride on their messages, and imported results keep the order that the host sent', () => {
  const wire = (json: string) => ({ wire: { format: 'openai-chat' as const, json } })
  const log = open(
    { type: 'user/message', data: { content: [text('task')], ...wire('{"role":"user"}') } },
    { type: 'assistant/message', data: { ...assistantData(['a', 'b']), ...wire('{"role":"assistant"}') } },
    { type: 'tool/result', data: { toolCallId: 'b', name: 'look', content: [], isError: false, ...wire('{"id":"b"}') } },
    { type: 'tool/result', data: { toolCallId: 'a', name: 'look', content: [], isError: false, ...wire('{"id":"a"}') } }
  )
  expect(foldMessages(log).map(({ wire }) => wire?.json)).toEqual(['{"role":"user"}', '{"role":"assistant"}', '{"id":"b"}', '{"id":"a"}'])
})

test('3.6 an imported assistant message without readable content still stands for its wire text', () => {
  const wire = { format: 'anthropic' as const, json: '{"role":"assistant","content":[]}' }
  const log = open(user('task'), { type: 'assistant/message', data: { ...assistantData([]), wire } }, { type: 'turn/end', data: { turn: 1, reason: 'completed' } })
  expect(foldMessages(log)).toEqual([{ role: 'user', content: [text('task')] }, { role: 'assistant', content: [], wire }])
})

test('4.3 the header of a transcript is the last one that a transcript brought', () => {
  const header = (name: string, reason: 'first' | 'transcript'): NewEvent =>
    ({ type: 'request/header', data: { system: [{ text: name }], tools: [], model: null, reason } })
  expect(transcriptHeader(open(user('task'), header('own', 'first')))).toBeUndefined()
  expect(transcriptHeader(open(header('old', 'transcript'), header('host', 'transcript'), header('own', 'first')))?.system).toEqual([{ text: 'host' }])
})

function assistantData (calls: readonly string[]): Extract<NewEvent, { type: 'assistant/message' }>['data'] {
  const event = assistant('', calls)
  if (event.type !== 'assistant/message') throw new Error('not an assistant message')
  return event.data
}
