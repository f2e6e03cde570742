import fc from 'fast-check'
import { expect, test } from 'vitest'
import { normalize } from '../../../src/providers/claude-code/normalizer.ts'
import { createState, type State } from '../../../src/providers/claude-code/state.ts'
import type { Frame, Input } from '../../../src/providers/claude-code/vocabulary.ts'
import { agentCall, fork, lifecycle, notified, play, replay, result, stream, taskStart, toolResult, toolUse, words } from './play.ts'

/** A list in a state holds at most so many. */
const LONGEST = 1000

/** What a frame makes anew of the state: each object that was not there before, with its fields; and the longest list among them. */
function createMeter (): (state: State) => number {
  const known = new WeakSet<object>()
  const weigh = (value: unknown): number => {
    if (typeof value !== 'object' || value === null || known.has(value)) return 0
    known.add(value)
    if (value instanceof Map || value instanceof Set) throw new Error('a map of this kind is copied as a whole')
    const items = Array.isArray(value) ? value : Object.values(value)
    if (items.length > LONGEST) throw new Error(`a list of ${items.length} in the state`)
    let sum = 1 + items.length
    for (const item of items) sum += weigh(item)
    return sum
  }
  return weigh
}

interface Work { work: number, events: number }

/** Plays frames; answers for each piece of them what each of its frames made of the state, all in all, and for the logs. */
function worked (...pieces: { frames: Iterable<Frame>, measured: boolean }[]): Work[] {
  const weigh = createMeter()
  let state = createState('ingest')
  return pieces.map(({ frames, measured }) => {
    let [work, events] = [0, 0]
    for (const frame of frames) {
      const [next, made] = normalize(state, { type: 'frame', frame })
      for (const event of made) if (event.type === 'fault') throw event.error
      events += made.length
      state = next
      if (measured) work += weigh(state)
    }
    weigh(state)
    return { work, events }
  })
}

const call = (id: string, name: string, at = id): Frame => ({ type: 'assistant', message: { id: at, content: [toolUse(id, name, { prompt: 'p' })] } })
const begun = [lifecycle('u', 'started'), replay('u', 'go')]
const delta = (index: unknown, said: Frame): Frame => stream({ type: 'content_block_delta', index, delta: said })
const text = (said: string): Frame => ({ type: 'text_delta', text: said })
const user = (said: string, more: Frame = {}): Frame => ({ type: 'user', message: { content: said }, ...more })
const child = [...begun, call('a', 'Agent'), taskStart('t', { tool_use_id: 'a' })]
const inA = { parent_tool_use_id: 'a' }

/** Each kind of frame as a stream of nothing else: what comes first, and its n-th. */
const KINDS: Record<string, [first: Frame[], nth: (i: number) => Frame[]]> = {
  'lines that begin in one turn': [begun, (i) => [lifecycle(`u-${i}`, 'started')]],
  'lines that are queued': [begun, (i) => [lifecycle(`u-${i}`, 'queued')]],
  'lines that are queued and begin': [begun, (i) => [lifecycle(`u-${i}`, 'queued'), lifecycle(`u-${i}`, 'started'), replay(`u-${i}`, 'x')]],
  'lines that are dropped': [begun, (i) => [lifecycle(`u-${i}`, 'queued'), lifecycle(`u-${i}`, 'cancelled')]],
  'user texts while a call is open': [[...begun, call('c', 'Read'), result({ subtype: 7 }), call('d', 'Read')], (i) => [user(`x ${i}`)]],
  'user texts in a child whose call is open': [[...child, { ...call('c', 'Read'), ...inA }], (i) => [user(`x ${i}`, inA)]],
  'user texts': [begun, (i) => [user(`x ${i}`, { uuid: `x-${i}` })]],
  'steers without a prompt': [child, (i) => [taskStart('t', { tool_use_id: `m-${i}` })]],
  'steers': [child, (i) => [taskStart('t', { tool_use_id: `m-${i}`, prompt: `p ${i}` })]],
  'steers and their echoes': [child, (i) => [taskStart('t', { tool_use_id: `m-${i}`, prompt: `p ${i}` }), user(`p ${i}`, inA)]],
  'resumes of one task': [[...child, notified('t', 'completed')], (i) => [taskStart('t', { tool_use_id: `m-${i}`, prompt: 'p' }), notified('t', 'completed')]],
  'children that run': [begun, (i) => [call(`a-${i}`, 'Agent')]],
  'children that run, and turns with a call without a result': [begun, (i) => [call(`a-${i}`, 'Agent'), toolResult(`a-${i}`, 'l', { tool_use_result: { isAsync: true } }), call(`r-${i}`, 'Read'), result()]],
  'children and tasks that settle': [begun, (i) => [call(`a-${i}`, 'Agent'), taskStart(`t-${i}`, { tool_use_id: `a-${i}` }), notified(`t-${i}`, 'completed')]],
  'skills that never start': [begun, (i) => [call(`s-${i}`, 'Skill')]],
  'typed forks': [begun, (i) => [fork(`t-${i}`)]],
  'shell tasks': [begun, (i) => [taskStart(`sh-${i}`, { task_type: 'local_bash' })]],
  'calls in messages of their own': [begun, (i) => [call(`c-${i}`, 'Read')]],
  'calls in one message': [begun, (i) => [call(`c-${i}`, 'Read', 'm')]],
  'calls and results in one message that streams': [[...begun, stream({ type: 'message_start', message: { id: 'm' } })], (i) => [call(`c-${i}`, 'Read', 'm'), toolResult(`c-${i}`, 'r')]],
  'calls and results': [begun, (i) => [call(`c-${i}`, 'Read'), toolResult(`c-${i}`, 'r')]],
  'deltas of one block': [begun, (i) => [delta(0, text(`x ${i}`))]],
  'deltas of blocks of their own': [begun, (i) => [delta(i, text('x'))]],
  'deltas without a block': [begun, () => [delta({}, text('x'))]],
  'signatures': [[...begun, delta(0, { type: 'thinking_delta', thinking: 'x' })], (i) => [delta(0, { type: 'signature_delta', signature: `${i}` })]],
  'blocks of calls that never come': [begun, (i) => [stream({ type: 'content_block_start', index: i, content_block: toolUse(`c-${i}`, 'Read') })]],
  'texts in one message': [begun, (i) => [{ type: 'assistant', uuid: `f-${i}`, message: { id: 'm', content: [words(`x ${i}`)] } }]],
  'messages of a child': [child, (i) => [{ type: 'assistant', uuid: `f-${i}`, ...inA, message: { content: [words('x')] } }]],
  'turns': [begun, (i) => [lifecycle(`u-${i}`, 'started'), result({ uuid: `r-${i}` })]],
  'requests': [begun, (i) => [{ type: 'control_request', request_id: i, request: { subtype: 'can_use_tool' } }]],
  'unknown frames': [begun, (i) => [{ type: 'later', i }]]
}

for (const [kind, [first, nth]] of Object.entries(KINDS)) {
  test(`S2 a frame costs no more after thousands of ${kind} than after hundreds`, () => {
    const frames = (from: number, to: number): Frame[] => Array.from({ length: to - from }, (_, i) => nth(from + i)).flat()
    const piece = (from: number, to: number, measured: boolean): { frames: Frame[], measured: boolean } => ({ frames: frames(from, to), measured })
    const before = piece(0, 1700, false)
    const [, early, , late] = worked({ ...before, frames: [...first, ...before.frames] }, piece(1700, 2000, true), piece(2000, 5700, false), piece(5700, 6000, true)) as [Work, Work, Work, Work]
    // One whose cost grows with the lines would be three times as dear.
    expect(late.work / early.work).toBeLessThan(1.7)
    expect(late.events / early.events).toBeLessThan(1.2)
  })
}

test('S2 whatever kinds of frames a stream mixes, no list in the state grows past its bound', () => {
  const kinds = Object.values(KINDS)
  fc.assert(fc.property(fc.array(fc.tuple(fc.nat({ max: kinds.length - 1 }), fc.nat({ max: 150 })), { minLength: 1, maxLength: 12 }), (pieces) => {
    let n = 0
    worked({ measured: true, frames: pieces.flatMap(([kind, count]) => {
      const [first, nth] = kinds[kind] as (typeof kinds)[number]
      return [...first, ...Array.from({ length: count }, () => nth(n++)).flat()]
    }) })
  }), { numRuns: 30 })
})

test('S1 of a frame with more blocks than any model writes the first thousand are read, in no more time than its length asks for', () => {
  for (const name of ['B', 'Agent']) {
    const blocks = Array.from({ length: 180_000 }, (_, i) => toolUse(`a${i}`, name))
    const results = blocks.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'r' }))
    const began = performance.now()
    const chat = play('ingest', ...begun, { type: 'assistant', message: { id: 'm', content: blocks } }, { type: 'user', message: { content: results } }, result())
    expect(performance.now() - began).toBeLessThan(5000)
    expect(chat.data('tool/result').filter(({ isError }) => !isError)).toHaveLength(1000)
    expect(chat.of('child/started')).toHaveLength(name === 'Agent' ? 1000 : 0)
  }
})

test('S3 a message of more text than a string holds is cut into several, and what waits or comes early counts too', () => {
  const large = 'x'.repeat(8 * 1024 * 1024)
  const cut = (count: number, first: readonly Frame[], nth: (i: number) => Frame): { made: number, longest: number } => {
    let state = createState('ingest')
    let [made, longest] = [0, 0]
    const take = (input: Input): void => {
      const [next, events] = normalize(state, input)
      state = next
      for (const event of events) {
        if (event.type === 'fault') throw event.error
        if (event.type === 'log' && event.event.type === 'assistant/message') {
          made++
          longest = Math.max(longest, event.event.data.content.reduce((sum, part) => sum + (part.type === 'text' || part.type === 'reasoning' ? part.text.length : 0), 0))
        }
      }
    }
    for (const it of [...begun, ...first]) take({ type: 'frame', frame: it })
    for (let i = 0; i < count; i++) take({ type: 'frame', frame: nth(i) })
    take({ type: 'end' })
    return { made, longest }
  }
  expect(cut(70, [], () => delta(0, text(large)))).toEqual({ made: 24, longest: 3 * large.length })
  expect(cut(4, [], () => delta(0, { type: 'thinking_delta', thinking: large }))).toEqual({ made: 2, longest: 3 * large.length })
  expect(cut(70, [delta(0, { type: 'thinking_delta', thinking: 'x' })], () => delta(0, { type: 'signature_delta', signature: large })).made).toBe(1)
  expect(cut(4, [], (i) => ({ type: 'assistant', uuid: `f-${i}`, message: { id: 'm', content: [words(large)] } }))).toEqual({ made: 2, longest: 3 * large.length })
  const waiting = play('ingest', ...begun, call('c', 'Read'), ...Array.from({ length: 4 }, () => user(large)), toolResult('c', 'r'))
  expect(waiting.data('user/message').map(({ content: [block] }) => block?.type === 'text' && block.text.length)).toEqual([2, large.length, large.length])
})

test('S1 a fault of ours costs its frame alone, which stays in the journal, and is told', () => {
  const chat = play('ingest', ...begun)
  const before = chat.state
  const poison = { type: 'assistant', get message (): unknown { throw new RangeError('no') } }
  expect(chat.feed(poison).map((event) => event.type)).toEqual(['journal', 'fault'])
  expect(chat.state).toEqual({ ...before, lines: before.lines + 1 })
  chat.feed(call('c', 'Read'), result())
  expect(chat.log().at(-1)).toBe('end completed')
})

test('S6 ids that are too long count as none, names are cut, and a tag that is too long is nobody\'s', () => {
  const long = 'x'.repeat(600)
  const chat = play('ingest', { type: 'system', subtype: 'init', session_id: long, model: long }, ...begun, agentCall('a', { description: long }),
    { ...call('b', 'Read'), parent_tool_use_id: long }, taskStart('t', { tool_use_id: long, description: '/x' }), call(long, 'Agent'), taskStart(long, { tool_use_id: 'a' }))
  expect(chat.of('session/opened')).toMatchObject([{ sessionId: null, model: 'x'.repeat(512) }])
  expect(chat.of('child/started').map(({ label }) => label)).toEqual([`Agent: ${'x'.repeat(512)}`])
  expect(chat.state.tasks.size).toBe(0)
  expect(chat.data('tool/call').map(({ toolCallId }) => toolCallId)).toEqual(['a'])
})

test('at most 1,024 children run at once: a call beyond them is in the log of the chat, and makes none until one has settled', () => {
  const chat = play('ingest', ...begun)
  for (let i = 0; i < 1030; i++) chat.feed(call(`c-${i}`, 'Agent'))
  expect(chat.of('child/started')).toHaveLength(1024)
  expect(chat.data('assistant/message')).toHaveLength(1029)
  chat.feed(toolResult('c-0', 'done'), call('c-next', 'Agent'), call('c-late', 'Agent'))
  expect(chat.of('child/started').slice(1024)).toMatchObject([{ externalId: 'c-next' }])
  chat.feed({ type: 'end' })
  expect(chat.of('child/settled')).toHaveLength(1025)
})
