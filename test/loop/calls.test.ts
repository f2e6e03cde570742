import { getEventListeners } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { text, type SessionEvent } from '../../src/core/events.ts'
import { expectNothingLeft, openDriver, timers } from '../support/driver-room.ts'
import { calls, callsAll, hangs, says } from '../support/recording-model.ts'
import { never, serviceTool, untilAborted, type ServiceTool } from '../support/service-tool.ts'

const said = (blocks: readonly { type: string, text?: string }[]): string => blocks.map((block) => block.text ?? '').join('')
/** What the model read as results in its last request: [call id, text, is it an error]. */
const read = (messages: readonly { role: string }[] | undefined) => (messages ?? []).flatMap((message) => {
  const { role, toolCallId, content, isError } = message as { role: string, toolCallId: string, content: { type: string, text?: string }[], isError: boolean }
  return role === 'tool' ? [[toolCallId, said(content), isError]] : []
})
const logged = (log: readonly SessionEvent[], type: 'tool/call' | 'tool/result') =>
  log.flatMap((event) => event.type === type ? [(event as { data: { toolCallId: string } }).data.toolCallId] : [])

/** Runs one message of calls, then an end; what the model read of them. */
async function answered (tools: ServiceTool[], all: Parameters<typeof callsAll>[0], limits = {}) {
  const room = await openDriver(onTestFinished, { tools, acts: [callsAll(all), says('done')] })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ signal, service: { limits } })
  const result = await run.result
  const log = await room.log(run)
  await expectNothingLeft(room, run, { signal, timers: before })
  return { results: read(room.models.requests[1]?.messages), log, result, room }
}

test('calls of one message run side by side, and the model reads the results in its own order', async () => {
  const gates = new Map(['a', 'b', 'c'].map((name) => [name, Promise.withResolvers<undefined>()]))
  const order: string[] = []
  const tool = serviceTool('look', async (input) => {
    const { name } = input as { name: string }
    await gates.get(name)?.promise
    order.push(name)
    return name.toUpperCase()
  })
  const room = await openDriver(onTestFinished, { tools: [tool], acts: [callsAll(['a', 'b', 'c'].map((name) => ({ id: name, name: 'look', input: { name } }))), says('done')] })
  const run = await room.start()
  await tool.began(2)
  for (const name of ['c', 'a', 'b']) {
    gates.get(name)?.resolve(undefined)
    while (!order.includes(name)) await Promise.resolve()
  }
  await run.result
  expect(order).toEqual(['c', 'a', 'b'])
  expect(logged(await room.log(run), 'tool/result')).toEqual(['c', 'a', 'b'])
  expect(read(room.models.requests[1]?.messages)).toEqual([['a', 'A', false], ['b', 'B', false], ['c', 'C', false]])
})

test('at most ten run at once; the others follow as places come free', async () => {
  let [now, most] = [0, 0]
  const tool = serviceTool('work', async () => {
    most = Math.max(most, ++now)
    await new Promise((resolve) => { setImmediate(resolve) })
    now--
    return 'ok'
  })
  const { results } = await answered([tool], Array.from({ length: 25 }, (_, i) => ({ id: `c${i}`, name: 'work' })))
  expect(most).toBe(10)
  expect(results.map(([id]) => id)).toEqual(Array.from({ length: 25 }, (_, i) => `c${i}`))
})

test('8.3 a name outside the view is an unknown tool; nothing is dispatched', async () => {
  const { results, log } = await answered([], [{ id: 'x', name: 'nope' }, { id: 'p', name: 'constructor' }, { id: 'q', name: '__proto__' }])
  expect(results).toEqual([['x', 'Error: unknown tool "nope"', true], ['p', 'Error: unknown tool "constructor"', true], ['q', 'Error: unknown tool "__proto__"', true]])
  expect(logged(log, 'tool/call')).toEqual([])
})

const DEEP = `{"a":${'['.repeat(200)}${']'.repeat(200)}}`
test.each([
  ['no JSON', '{"path": "a', /^Error: invalid arguments: not valid JSON \(/],
  ['no object', '[1]', /^Error: invalid arguments: must be a JSON object$/],
  ['null', 'null', /^Error: invalid arguments: must be a JSON object$/],
  ['a value of the wrong type', '{"path": 1}', /^Error: invalid arguments: \/path: must be string$/],
  ['several violations', '{"path": 1, "more": true}', /^Error: invalid arguments: must not have the property "more"; \/path: must be string$/],
  ['a -0, which no log can hold', '{"n": -0}', /^Error: invalid arguments: \/n: -0 is negative zero/],
  ['a number past all numbers', '{"n": 1e400}', /^Error: invalid arguments: \/n: 1e400 is too large/],
  ['a number that JavaScript would change', '{"n": 9007199254740993}', /^Error: invalid arguments: \/n: .*9007199254740993/],
  ['a key that comes twice', '{"n": 1, "n": 2}', /^Error: invalid arguments: .*n/],
  ['values nested too deeply', DEEP, /^Error: invalid arguments: .*nests deeper than 128 levels/]
])('arguments that are %s are the model\'s to mend within the turn, and nothing is dispatched', async (_, written, told) => {
  const tool = serviceTool('look', undefined, { schema: { type: 'object', properties: { path: { type: 'string' }, n: {}, a: {} }, additionalProperties: false } })
  const { results, log, result } = await answered([tool], [{ id: 'x', name: 'look', arguments: written }])
  expect(results).toEqual([['x', expect.stringMatching(told), true]])
  expect(tool.inputs).toEqual([])
  expect(logged(log, 'tool/call')).toEqual([])
  expect(result).toMatchObject({ stopReason: 'completed' })
})

test('the model reads back the arguments as it wrote them, broken or not', async () => {
  const written = ['{"path": "a', '{ "2": 1, "1": 12345678901234567890 }', '']
  const room = await openDriver(onTestFinished, { tools: [serviceTool('look')], acts: [callsAll(written.map((each, i) => ({ id: `${i}`, name: 'look', arguments: each }))), says('done')] })
  await (await room.start()).result
  const message = room.models.requests[1]?.messages[1]
  expect(message?.content.map((part) => part.type === 'tool-call' && part.arguments)).toEqual(written)
})

test.each<[string, ServiceTool, string]>([
  ['throws', serviceTool('bad', () => { throw new Error('it broke') }), 'Error: it broke'],
  ['throws no error', serviceTool('bad', () => { throw 'a text' }), 'Error: a text'],
  ['throws before it is awaited', { ...serviceTool('bad'), execute: () => { throw new Error('at once') } }, 'Error: at once'],
  ['answers what no log can hold', serviceTool('bad', () => ({ content: [text('x')], isError: false, structured: { n: NaN } })), 'Error: the tool answered what is not plain JSON, at "/structured/n": NaN is not a JSON number'],
  ['answers nothing', serviceTool('bad', () => undefined as unknown as string), 'Error: '],
  ['answers an error', serviceTool('bad', () => ({ content: [text('no such file')], isError: true })), 'no such file']
])('a tool that %s gives an error result, and the run goes on', async (_, tool, told) => {
  const { results, result } = await answered([tool, serviceTool('good')], [{ id: 'b', name: 'bad' }, { id: 'g', name: 'good' }])
  expect(results).toEqual([['b', expect.stringContaining(told), true], ['g', 'good ran', false]])
  expect(result).toMatchObject({ stopReason: 'completed' })
})

test('toolTimeoutMs ends a call, deaf or not; the others are untouched and the run goes on', async () => {
  const [deaf, polite, quick] = [serviceTool('deaf', never), serviceTool('polite', untilAborted), serviceTool('quick')]
  const { results, result } = await answered([deaf, polite, quick], ['deaf', 'polite', 'quick'].map((name) => ({ id: name, name })), { toolTimeoutMs: 5 })
  const late = 'Error: tool call timed out after 5 ms'
  expect(results).toEqual([['deaf', late, true], ['polite', late, true], ['quick', 'quick ran', false]])
  expect([deaf, polite].map((tool) => tool.contexts[0]?.signal.aborted)).toEqual([true, true])
  expect(quick.contexts[0]?.signal.aborted).toBe(false)
  expect(result).toMatchObject({ stopReason: 'completed' })
})

test('a huge result reaches the model cut, with a mark that says how much is missing; the log keeps it whole', async () => {
  const huge = 'é'.repeat(4 * 1024 * 1024)
  const { results, log } = await answered([serviceTool('read', () => huge)], [{ id: 'h', name: 'read' }])
  expect(results[0]?.[1]).toMatch(/^é+\n\[\.\.\. \d+ of 8388608 bytes are missing here \.\.\.\]\né+$/)
  expect(Buffer.byteLength(String(results[0]?.[1]))).toBeLessThanOrEqual(262_144)
  const result = log.find((event) => event.type === 'tool/result')
  expect(result?.type === 'tool/result' && said(result.data.content) === huge).toBe(true)
})

test('9.4 call ids that repeat, in one message and in the next, become unique in the run, and each has its own result', async () => {
  const tool = serviceTool('look', (input) => `saw ${(input as { n: number }).n}`)
  const twice = (n: number) => callsAll([{ id: 'same', name: 'look', input: { n } }, { id: 'same', name: 'look', input: { n: n + 1 } }])
  const room = await openDriver(onTestFinished, { tools: [tool], acts: [twice(1), twice(3), says('done')] })
  const run = await room.start()
  await run.result
  const results = read(room.models.requests[2]?.messages)
  expect(results.map(([, what]) => what)).toEqual(['saw 1', 'saw 2', 'saw 3', 'saw 4'])
  expect(new Set(results.map(([id]) => id)).size).toBe(4)
  const asked = room.models.requests[2]?.messages.flatMap((message) => message.role === 'assistant' ? message.content : []).flatMap((part) => part.type === 'tool-call' ? [part.toolCallId] : [])
  expect(asked).toEqual(results.map(([id]) => id))
  expect(logged(await room.log(run), 'tool/call')).toEqual(asked)
})

test('what may not run twice is known to the store before it begins', async () => {
  const seen: unknown[] = []
  const room = await openDriver(onTestFinished, {
    acts: [callsAll([{ id: 'o', name: 'once' }]), says('done')],
    tools: [serviceTool('once', async (_, { runId }) => {
      seen.push(logged(await room.log({ id: runId }), 'tool/call'))
      return 'ok'
    }, { idempotent: false })]
  })
  await (await room.start()).result
  expect(seen).toEqual([['o']])
})

test('each execution knows its run, its tenant and its call', async () => {
  const tool = serviceTool('look')
  const room = await openDriver(onTestFinished, { tools: [tool], acts: [callsAll([{ id: 'k', name: 'look', input: { a: 1 } }]), says('done')] })
  const run = await room.start()
  await run.result
  expect(tool.contexts[0]).toMatchObject({ toolCallId: 'k', runId: run.id, tenant: 'default', execution: { toolCallId: 'k', name: 'look', input: { a: 1 } } })
})

test('a run that waits for its host alone gives its slot to another, and takes one again before it goes on', async () => {
  const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]
  const room = await openDriver(onTestFinished, { slots: { running: 1, queued: 5 }, acts: [calls('ask'), hangs(), says('after')] })
  const first = await room.start({ service: { hostTools } })
  const second = await room.start()
  await room.models.received(1)
  expect(room.slots.running).toBe(1)
  expect(first.hostCalls.pending()).toHaveLength(1)
  first.hostCalls.answer(first.hostCalls.pending().map(({ toolCallId }) => ({ toolCallId, content: [text('answer')], isError: false })))
  await first.log.durable()
  expect(room.models.requests).toHaveLength(2)
  await second.dispose()
  expect(await first.result).toMatchObject({ stopReason: 'completed', output: [text('after')] })
  expect(room.slots.running).toBe(0)
})

test('while a service tool of the same message runs, the slot is kept', async () => {
  const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]
  const gate = Promise.withResolvers<string>()
  const look = serviceTool('look', () => gate.promise)
  const room = await openDriver(onTestFinished, { tools: [look], acts: [callsAll([{ id: 'h', name: 'ask' }, { id: 's', name: 'look' }]), says('done')] })
  const run = await room.start({ service: { hostTools } })
  await look.began()
  expect(run.hostCalls.pending().map((call) => call.toolCallId)).toEqual(['h'])
  expect(room.slots.running).toBe(1)
  run.hostCalls.answer([{ toolCallId: 'h', content: [text('answer')], isError: false }])
  gate.resolve('seen')
  await run.result
  expect(read(room.models.requests[1]?.messages)).toEqual([['h', 'answer', false], ['s', 'seen', false]])
})

test('no listener of a finished call stays on the run\'s signals', async () => {
  const look = serviceTool('look')
  const room = await openDriver(onTestFinished, { tools: [look], acts: [...Array.from({ length: 30 }, () => calls('look')), hangs()] })
  const run = await room.start({ service: { limits: { toolTimeoutMs: 60_000 } } })
  await room.models.received(30)
  const signal = room.models.signals.at(-1) as AbortSignal
  expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(1)
  expect(look.contexts.every((context) => getEventListeners(context.signal, 'abort').length === 0)).toBe(true)
  await run.dispose()
})
