import { expect, onTestFinished, test, vi } from 'vitest'
import { text } from '../../src/core/events.ts'
import type { RunLimits } from '../../src/core/run.ts'
import { expectNothingLeft, openDriver, timers } from '../support/driver-room.ts'
import { calls, callsAll, delta, fails, hangs, says, type Act } from '../support/recording-model.ts'
import { never, serviceTool } from '../support/service-tool.ts'

/** 2.5: a limit ends the turn as an error with its own code, the diagnostic `<limit> <n> reached`; what was said stays. */

const limitError = (code: string, message: string) => ({ stopReason: 'error', diagnostic: message, error: { code, message, retryable: false } })
const tokens = (input: number, output: number) => ({ inputTokens: input, outputTokens: output })
const look = () => serviceTool('look')
const asks = (used: ReturnType<typeof tokens>, said = 'looking'): Act => callsAll([{ name: 'look' }], { text: said, tokens: used })

interface Case { title: string, acts: Act[], limits: RunLimits, requests: number, ends: object }
const cases: Case[] = [
  { title: 'steps', acts: [asks(tokens(1, 1), 'one'), asks(tokens(1, 1), 'two')], limits: { steps: 2 }, requests: 2, ends: { ...limitError('LIMIT_STEPS', 'steps 2 reached'), output: [text('two')] } },
  { title: 'steps, met by an answer at the last one', acts: [asks(tokens(1, 1)), says('done')], limits: { steps: 2 }, requests: 2, ends: { stopReason: 'completed', output: [text('done')] } },
  { title: 'totalTokens', acts: [asks(tokens(60, 40))], limits: { totalTokens: 100 }, requests: 1, ends: limitError('LIMIT_TOKENS', 'totalTokens 100 reached') },
  { title: 'totalTokens, summed over the steps', acts: [asks(tokens(30, 19)), asks(tokens(30, 21))], limits: { totalTokens: 100 }, requests: 2, ends: limitError('LIMIT_TOKENS', 'totalTokens 100 reached') },
  { title: 'totalTokens, not reached', acts: [asks(tokens(60, 39)), says('done')], limits: { totalTokens: 100 }, requests: 2, ends: { stopReason: 'completed' } },
  { title: 'treeTokens', acts: [asks(tokens(60, 40))], limits: { treeTokens: 100 }, requests: 1, ends: limitError('LIMIT_TREE', 'treeTokens 100 reached') },
  { title: 'treeTokens, not reached', acts: [asks(tokens(60, 39)), says('done')], limits: { treeTokens: 100 }, requests: 2, ends: { stopReason: 'completed' } }
]
test.each(cases)('2.5 $title', async ({ acts, limits, requests, ends }) => {
  const room = await openDriver(onTestFinished, { tools: [look()], acts })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ signal, service: { limits } })
  expect(await run.result).toMatchObject(ends)
  expect(room.models.requests).toHaveLength(requests)
  await expectNothingLeft(room, run, { signal, timers: before })
})

test('2.5 a tree\'s tokens are those of the parent and of every descendant', async () => {
  const room = await openDriver(onTestFinished, { tools: [look()], acts: [says('the parent', { tokens: tokens(50, 0) }), asks(tokens(30, 0)), says('never')] })
  const parent = await room.start()
  await parent.result
  const child = await room.start({ parent: { runId: parent.id, rootId: parent.id, limits: { treeTokens: 80 } }, service: { limits: { treeTokens: 1000 } } })
  expect(child.spec.limits).toEqual({ treeTokens: 80 })
  expect(await child.result).toMatchObject(limitError('LIMIT_TREE', 'treeTokens 80 reached'))
})

/** Time that only moves when told. */
function stillTime (): (ms: number) => void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => { vi.useRealTimers() })
  return (ms) => { vi.advanceTimersByTime(ms) }
}
const settle = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })
const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]

test.each<[string, Act, object]>([
  ['while the model streams', hangs(delta('half')), { output: [text('half')] }],
  ['while a tool runs', callsAll([{ name: 'deaf' }], { text: 'calling' }), { output: [text('calling')] }],
  ['while the host is waited for', callsAll([{ name: 'ask' }]), { output: [] }],
  ['between two tries', fails('MODEL_RATE_LIMITED', { retryAfterMs: 50_000 }), { output: [] }]
])('2.5 timeoutMs is a deadline, not a cancellation: %s', async (_, act, more) => {
  const room = await openDriver(onTestFinished, { now: () => 0, tools: [serviceTool('deaf', never)], acts: [act] })
  const { signal } = new AbortController()
  const before = timers()
  const pass = stillTime()
  const run = await room.start({ signal, service: { hostTools, limits: { timeoutMs: 2000 } } })
  await room.models.received(0)
  await settle()
  pass(1999)
  await settle()
  expect(run.projection.record.status).not.toBe('settled')
  pass(1)
  expect(await run.result).toMatchObject({ ...limitError('LIMIT_TIME', 'timeoutMs 2000 reached'), ...more })
  const log = await room.log(run)
  expect(log.at(-2)).toMatchObject({ type: 'turn/end', data: { reason: 'error', error: { code: 'LIMIT_TIME' } } })
  expect(log.map((event) => event.type)).not.toContain('run/cancel')
  expect(await room.row(run)).toMatchObject({ cancel: null })
  expect(vi.getTimerCount()).toBe(0)
  await expectNothingLeft(room, run, { signal, timers: before })
})

test('2.5 timeoutMs counts from publication, the time in the queue included', async () => {
  const room = await openDriver(onTestFinished, { now: () => 0, slots: { running: 0, queued: 1 } })
  const { signal } = new AbortController()
  const before = timers()
  const pass = stillTime()
  const run = await room.start({ signal, service: { limits: { timeoutMs: 2000 } } })
  expect(await room.row(run)).toMatchObject({ status: 'queued' })
  pass(2000)
  expect(await run.result).toMatchObject({ ...limitError('LIMIT_TIME', 'timeoutMs 2000 reached'), output: [] })
  expect((await room.log(run)).map((event) => event.type)).toEqual(['run/settled'])
  expect(room.models.requests).toEqual([])
  expect(vi.getTimerCount()).toBe(0)
  await expectNothingLeft(room, run, { signal, timers: before })
})

test('7.2 past toolTimeoutMs a host call is answered for the host, and the run goes on', async () => {
  const room = await openDriver(onTestFinished, { now: () => 0, acts: [callsAll([{ id: 'h', name: 'ask' }]), says('done')] })
  const pass = stillTime()
  const run = await room.start({ service: { hostTools, limits: { toolTimeoutMs: 500 } } })
  await room.models.received(0)
  await settle()
  expect(run.hostCalls.pending()).toMatchObject([{ toolCallId: 'h', deadline: 500 }])
  pass(500)
  expect(await run.result).toMatchObject({ stopReason: 'completed' })
  expect((await room.log(run)).find((event) => event.type === 'tool/result')).toMatchObject({
    data: { ended: 'expired', isError: true, content: [text('Error: tool call timed out after 500 ms')] }
  })
  expect(vi.getTimerCount()).toBe(0)
})

test('2.5 a cancellation after the deadline changes nothing: the first reason wins', async () => {
  const deaf = serviceTool('deaf', never)
  const room = await openDriver(onTestFinished, { now: () => 0, tools: [deaf], acts: [calls('deaf')] })
  const controller = new AbortController()
  const pass = stillTime()
  const run = await room.start({ signal: controller.signal, service: { limits: { timeoutMs: 2000 } } })
  await deaf.began()
  pass(2000)
  controller.abort(new Error('too late'))
  expect(await run.result).toMatchObject({ error: { code: 'LIMIT_TIME' } })
  expect(await room.row(run)).toMatchObject({ cancel: null })
})
