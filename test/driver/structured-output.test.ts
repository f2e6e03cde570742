import { expect, onTestFinished, test } from 'vitest'
import { text, type SessionEvent } from '../../src/core/events.ts'
import type { Json } from '../../src/core/json.ts'
import type { ToolOutcome } from '../../src/core/tool.ts'
import { createStructuredOutput } from '../../src/driver/structured-output.ts'
import type { Execution } from '../../src/loop/agent.ts'
import { createSchemaCompiler } from '../../src/tools/schema.ts'
import { expectNothingLeft, openDriver, timers } from '../support/driver-room.ts'
import { calls, callsAll, hangs, says, type Act, type Call } from '../support/recording-model.ts'
import { serviceTool, untilAborted } from '../support/service-tool.ts'

const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false }
const reports = (n: unknown, id?: string): Call => ({ name: 'structured_output', input: { n }, ...(id === undefined ? {} : { id }) })
const recorded = (name: string) => `Error: structured output already recorded: the run is complete, so \`${name}\` is not executed`
const results = (log: readonly SessionEvent[]) => log.flatMap((event) => event.type === 'tool/result'
  ? [[event.data.toolCallId, event.data.content.map((block) => block.type === 'text' ? block.text : '').join(''), event.data.isError]]
  : [])
const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]

async function play (acts: Act[], tools = [serviceTool('look')]) {
  const room = await openDriver(onTestFinished, { tools, acts })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ outputSchema: SCHEMA, signal, service: { hostTools } })
  const result = await run.result
  await expectNothingLeft(room, run, { signal, timers: before })
  return { room, run, result, tools, log: await room.log(run) }
}

test('9.2 the child gets the tool with the exact description and schema, and the instruction as the last section of its prompt', async () => {
  const room = await openDriver(onTestFinished, { persona: 'deployment', tools: [serviceTool('look')], acts: [calls('structured_output', { n: 1 })] })
  await (await room.start({ outputSchema: SCHEMA })).result
  expect(room.models.requests[0]?.tools.at(-1)).toEqual({
    name: 'structured_output',
    description: 'Report your final structured result. Call this exactly once, when your answer is complete; the arguments must match this tool\'s parameter schema exactly.',
    inputSchema: SCHEMA
  })
  expect(room.models.requests[0]?.system).toEqual([{ text: 'deployment' }, {
    text: 'When you have your final answer, you MUST report it by calling the `structured_output` tool with arguments matching its parameter schema exactly. Do not finish with a plain text answer: only the tool call counts as your result.'
  }])
})

test('9.5, 9.7 a valid report is acknowledged, captured and ends the turn: no further model request', async () => {
  const { result, log, room } = await play([callsAll([reports(3, 'c')], { text: 'so' }), says('never')])
  expect(result).toMatchObject({ stopReason: 'completed', structured: { n: 3 }, output: [text('so')] })
  expect(results(log)).toEqual([['c', 'Structured output recorded.', false]])
  expect(log.find((event) => event.type === 'tool/result')).toMatchObject({ data: { structured: { recorded: true } } })
  expect(log.filter((event) => event.type === 'run/structured')).toMatchObject([{ data: { toolCallId: 'c', value: { n: 3 } } }])
  expect(log.map((event) => event.type).slice(-6)).toEqual(['tool/call', 'run/structured', 'tool/result', 'step/end', 'turn/end', 'run/settled'])
  expect(room.models.requests).toHaveLength(1)
})

test.each<[string, Call, string]>([
  ['of the wrong type', reports('three'), 'Error: invalid arguments: /n: must be integer'],
  ['with several violations', { name: 'structured_output', input: { m: 1 } }, 'Error: invalid arguments: must have the property "n"; must not have the property "m"'],
  ['that are no JSON', { name: 'structured_output', arguments: '{"n": ' }, 'Error: invalid arguments: not valid JSON'],
  ['that are no object', { name: 'structured_output', arguments: '3' }, 'Error: invalid arguments: must be a JSON object'],
  ['with a -0', { name: 'structured_output', arguments: '{"n": -0}' }, 'Error: invalid arguments: /n: -0 is negative zero']
])('9.3 arguments %s may be mended within the turn', async (_, bad, told) => {
  const { result, room } = await play([callsAll([bad]), callsAll([reports(3)])])
  expect(result).toMatchObject({ stopReason: 'completed', structured: { n: 3 } })
  expect(room.models.requests[1]?.messages.at(-1)).toMatchObject({ role: 'tool', isError: true, content: [{ text: expect.stringContaining(told) }] })
})

test('9.4 call ids may repeat: the first valid report of a message is the one captured', async () => {
  const { result, log } = await play([callsAll([reports('bad', 'same'), reports(1, 'same'), reports(2, 'same')])])
  expect(result.structured).toEqual({ n: 1 })
  expect(results(log).map(([, said]) => said)).toEqual([
    'Error: invalid arguments: /n: must be integer', 'Structured output recorded.', recorded('structured_output')
  ])
})

test('9.6 a barrier: earlier siblings finish first and run normally, later ones are refused and never begin', async () => {
  const order: string[] = []
  const slow = serviceTool('slow', async () => {
    await new Promise((resolve) => { setImmediate(resolve) })
    order.push('slow ended')
    return 'slow ran'
  })
  const look = serviceTool('look', () => { order.push('look ran'); return 'looked' })
  const { result, log } = await play([callsAll([{ id: '1', name: 'slow' }, { id: '2', name: 'look' }, reports(5, '3'), { id: '4', name: 'look' }, { id: '5', name: 'nope' }, { id: '6', name: 'ask' }, reports(6, '7')])], [slow, look])
  expect(order).toEqual(['look ran', 'slow ended'])
  expect(result).toMatchObject({ stopReason: 'completed', structured: { n: 5 } })
  expect(new Map(results(log).map(([id, said]) => [id, said]))).toEqual(new Map([
    ['1', 'slow ran'], ['2', 'looked'], ['3', 'Structured output recorded.'],
    ['4', recorded('look')], ['5', recorded('nope')], ['6', recorded('ask')], ['7', recorded('structured_output')]
  ]))
  const began = log.flatMap((event) => event.type === 'tool/call' ? [event.data.toolCallId] : [])
  expect(began.toSorted()).toEqual(['1', '2', '3'])
  const at = (id: string, type: string) => log.findIndex((event) => event.type === type && (event.data as { toolCallId?: string }).toolCallId === id)
  expect(at('3', 'tool/call')).toBeGreaterThan(Math.max(at('1', 'tool/result'), at('2', 'tool/result')))
})

test('9.6 a report that fails opens nothing and closes nothing: the later siblings run', async () => {
  const { log, tools } = await play([callsAll([reports('bad', '1'), { id: '2', name: 'look' }]), callsAll([reports(1, '3')])])
  expect(results(log).map(([id, said]) => [id, said])).toEqual([['1', 'Error: invalid arguments: /n: must be integer'], ['2', 'look ran'], ['3', 'Structured output recorded.']])
  expect(tools[0]?.inputs).toHaveLength(1)
})

test('9.6 a call of the host before the report is answered first; one after it never becomes pending', async () => {
  const room = await openDriver(onTestFinished, { acts: [callsAll([{ id: 'before', name: 'ask' }, reports(1, 'r'), { id: 'after', name: 'ask' }])] })
  const pending: string[][] = []
  const run = await room.start({ outputSchema: SCHEMA, service: { hostTools } })
  const waiting = Promise.withResolvers<undefined>()
  run.log.observe((events) => {
    pending.push(run.projection.record.pendingToolCalls.map((call) => call.toolCallId))
    if (events.some((event) => event.type === 'tool/call')) waiting.resolve(undefined)
  })
  await waiting.promise
  expect(run.hostCalls.pending().map((call) => call.toolCallId)).toEqual(['before'])
  expect((await room.log(run)).some((event) => event.type === 'run/structured')).toBe(false)
  run.hostCalls.answer([{ toolCallId: 'before', content: [text('answer')], isError: false }])
  expect(await run.result).toMatchObject({ stopReason: 'completed', structured: { n: 1 } })
  expect(pending.flat()).not.toContain('after')
  expect(() => run.hostCalls.answer([{ toolCallId: 'after', content: [], isError: false }])).toThrow('tool call "after" is not pending: unknown')
})

test('9.8 a clean turn without a report is an error, and the driver never asks again', async () => {
  const { result, room } = await play([says('plain text instead'), says('never')])
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'NO_STRUCTURED_OUTPUT', retryable: false }, output: [text('plain text instead')] })
  expect(result).not.toHaveProperty('structured')
  expect(room.models.requests).toHaveLength(1)
  expect(room.models.requests[0]?.messages.filter((message) => message.role === 'user')).toHaveLength(1)
})

test('9.8 cancelled without a report is aborted; a stop at the token cap keeps its reason', async () => {
  const room = await openDriver(onTestFinished, { acts: [hangs(), says('so far', { stop: 'max-tokens' })] })
  const run = await room.start({ outputSchema: SCHEMA })
  await room.models.received(0)
  await run.dispose()
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
  expect(await (await room.start({ outputSchema: SCHEMA })).result).toMatchObject({ stopReason: 'max-tokens' })
})

test('9.8 captured, then cancelled, is aborted and keeps the value', async () => {
  const controller = new AbortController()
  const room = await openDriver(onTestFinished, { acts: [callsAll([reports(7), { name: 'look' }])] })
  const before = timers()
  const run = await room.start({ outputSchema: SCHEMA, signal: controller.signal })
  const original = run.log.append.bind(run.log)
  run.log.append = (type, data) => {
    const event = original(type, data)
    if (type === 'run/structured') queueMicrotask(() => controller.abort(new Error('enough')))
    return event
  }
  expect(await run.result).toMatchObject({ stopReason: 'aborted', structured: { n: 7 } })
  expect(await room.row(run)).toMatchObject({ result: { structured: { n: 7 } }, cancel: { reason: 'enough' } })
  await expectNothingLeft(room, run, { signal: controller.signal, timers: before })
})

test('9.8 cancelled while an earlier sibling runs, nothing is captured', async () => {
  const wait = serviceTool('wait', untilAborted)
  const room = await openDriver(onTestFinished, { tools: [wait], acts: [callsAll([{ id: 'w', name: 'wait' }, reports(1, 'r')])] })
  const run = await room.start({ outputSchema: SCHEMA })
  await wait.began()
  await run.dispose()
  expect(await run.result).not.toHaveProperty('structured')
  expect(results(await room.log(run)).at(-1)).toEqual(['r', 'Error: tool call aborted before dispatch', true])
})

test('9.9 two concurrent children never see each other\'s schema or capture, and a plain one beside them sees neither', async () => {
  const room = await openDriver(onTestFinished)
  const schemas = ['a', 'b'].map((key) => ({ type: 'object', properties: { [key]: { type: 'integer' } }, required: [key], additionalProperties: false }))
  const gate = Promise.withResolvers<undefined>()
  const both: Act = async function * (request, signal) {
    await gate.promise
    const tool = request.tools.find(({ name }) => name === 'structured_output')
    const [key = ''] = Object.keys((tool?.inputSchema as { properties?: object } | undefined)?.properties ?? {})
    yield * (key === '' ? says('plain') : calls('structured_output', { [key]: 1 }))(request, signal) as Iterable<never>
  }
  room.models.enqueue(both, both, both)
  const runs = [...await Promise.all(schemas.map((outputSchema) => room.start({ outputSchema }))), await room.start()]
  await room.models.received(2)
  gate.resolve(undefined)
  expect((await Promise.all(runs.map((run) => run.result))).map((result) => [result.stopReason, result.structured])).toEqual([['completed', { a: 1 }], ['completed', { b: 1 }], ['completed', undefined]])
  expect(room.models.requests.map((request) => request.tools.map((tool) => tool.inputSchema))).toEqual([[schemas[0]], [schemas[1]], []])
})

/** The scope by itself, for what no loop of today does: a final result that overrules the tool's own. */
function scope (captured?: Json) {
  const told: [Execution, Json][] = []
  const structured = createStructuredOutput({ schema: SCHEMA, compile: createSchemaCompiler(), onCapture: (...args) => told.push(args), ...(captured === undefined ? {} : { captured }) })
  const run = (execution: Execution): Promise<ToolOutcome> => structured.tool.execute(execution.input, { toolCallId: execution.toolCallId, execution, runId: 'r', tenant: 't', signal: new AbortController().signal })
  return { ...structured, told, run }
}
const execution = (n: number): Execution => ({ toolCallId: 'same', name: 'structured_output', input: { n } })
const fine: ToolOutcome = { content: [], isError: false }

test('9.4 staged arguments are captured by the final result of that very execution, and dropped by an error', async () => {
  const { run, scope: { guard, onResult, stopsTurn }, told } = scope()
  const [first, second] = [execution(1), execution(2)]
  expect(await run(first)).toEqual({ content: [text('Structured output recorded.')], isError: false, structured: { recorded: true } })
  expect([guard('look'), stopsTurn()]).toEqual([recorded('look').slice('Error: '.length), false])
  onResult(second, fine)
  onResult({ ...first }, fine)
  expect([told, stopsTurn()]).toEqual([[], false])
  onResult(first, { content: [], isError: true })
  expect([told, stopsTurn(), guard('look')]).toEqual([[], false, undefined])
  await run(second)
  onResult(second, fine)
  onResult(second, fine)
  expect([told.length, told[0]?.[0] === second, told[0]?.[1], stopsTurn()]).toEqual([1, true, { n: 2 }, true])
})

test('9.6 once captured the guard never opens again; a second report while one is pending is refused', async () => {
  const { run, scope: { guard, onResult, stopsTurn }, told } = scope()
  const [first, second] = [execution(1), execution(2)]
  await run(first)
  expect(await run(second)).toMatchObject({ isError: true, content: [{ text: recorded('structured_output') }] })
  onResult(second, { content: [], isError: true })
  onResult(first, fine)
  onResult(first, { content: [], isError: true })
  expect([guard('look') === undefined, stopsTurn(), told.length]).toEqual([false, true, 1])
})

test('9.6 a value captured before a restart keeps the guard shut and the turn stopped', async () => {
  const { run, scope: { guard, stopsTurn } } = scope({ n: 1 })
  expect(await run(execution(2))).toMatchObject({ isError: true })
  expect([guard('look') === undefined, stopsTurn()]).toEqual([false, true])
})
