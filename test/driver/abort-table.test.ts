import { getEventListeners } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import type { SessionEvent } from '../../src/core/events.ts'
import type { Publication } from '../../src/core/store.ts'
import type { ChildRun } from '../../src/driver/child-run.ts'
import { expectNothingLeft, expectNothingMade, openDriver, timers, type Room, type RoomOptions } from '../support/driver-room.ts'
import { argumentsDelta, callsAll, delta, hangs, says } from '../support/recording-model.ts'
import { never, serviceTool, untilAborted } from '../support/service-tool.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { callsAll as fakeCalls, hangs as fakeHang, type FakeAnswer } from '../support/fake-answers.ts'
import { startService } from '../support/service.ts'

/** The rows of the table of driver.md §5, in its order. Each also shows that nothing is left. */

const ID = '00000000-0000-4000-8000-000000000002'
const rejection = async (work: Promise<unknown>): Promise<{ code: string, message: string }> =>
  await work.then(() => { throw new Error('it was started') }, (error: unknown) => error as { code: string, message: string })
const types = (log: readonly SessionEvent[]) => log.map((event) => event.type)
const results = (log: readonly SessionEvent[]) => log.flatMap((event) => event.type === 'tool/result'
  ? [[event.data.toolCallId, event.data.content.map((block) => block.type === 'text' ? block.text : '').join('')]]
  : [])

async function scene (options: RoomOptions = {}) {
  const room = await openDriver(onTestFinished, options)
  const controller = new AbortController()
  return { room, controller, before: { signal: controller.signal, timers: timers() } }
}

test('row 1: aborted before the call, the start rejects with the constant, not the reason', async () => {
  const { room, controller } = await scene()
  controller.abort(new Error('my own reason'))
  const error = await rejection(room.start({ signal: controller.signal, service: { id: ID } }))
  expect(error).toMatchObject({ code: 'START_ABORTED', message: 'subagent request was aborted before child publication' })
  await expectNothingMade(room, ID, controller.signal)
})

/** Each place in the set-up at which somebody else's code runs. */
const places = ['the model is chosen', 'a schema is compiled', 'the slot is reserved', 'the row is written down'] as const
test.each(places.flatMap((place) => [
  { place, reason: new Error('my own reason') as unknown, message: 'my own reason' },
  { place, reason: 'no error' as unknown, message: `agent "${ID}" creation aborted` },
  { place, reason: undefined as unknown, message: 'This operation was aborted' }
]))('row 2: aborted during creation, while $place, the start rolls back and rejects with: $message', async ({ place, reason, message }) => {
  const at = (now: string): void => { if (now === place) controller.abort(reason) }
  const { room, controller } = await scene()
  const hooked: Room = await openDriver(onTestFinished, {
    compile: () => { at('a schema is compiled'); return () => [] },
    reserve: (...args) => { at('the slot is reserved'); return hooked.slots.reserve(...args) },
    now: () => { at('the row is written down'); return Date.now() }
  })
  const outputSchema = { type: 'object', properties: {} }
  const service = { id: ID, allowModel: () => at('the model is chosen') }
  const error = await rejection(hooked.start({ signal: controller.signal, outputSchema, service }))
  expect(error).toMatchObject({ code: 'START_ABORTED', message })
  await expectNothingMade(hooked, ID, controller.signal)
  expect(room.faults).toEqual([])
})

test('row 3: aborted between creation and the live listener, the run exists, settles aborted, and the task is never sent', async () => {
  const { room, controller, before } = await scene({
    store: (real) => ({ ...real, async publish (publication: Publication) {
      const place = await real.publish(publication)
      controller.abort(new Error('in the gap'))
      return place
    } })
  })
  const run = await room.start({ signal: controller.signal, service: { id: ID } })
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(room.models.requests).toEqual([])
  expect(types(await room.log(run))).toEqual(['run/cancel', 'run/settled'])
  expect(await room.row(run)).toMatchObject({ stopReason: 'aborted', cancel: { reason: 'in the gap', by: 'request' } })
  await expectNothingLeft(room, run, before)
})

test('row 4: aborted after publication and before the first step, the task is dropped', async () => {
  const { room, controller, before } = await scene({ slots: { running: 0, queued: 1 } })
  const run = await room.start({ signal: controller.signal })
  expect(await room.row(run)).toMatchObject({ status: 'queued' })
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
  controller.abort()
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(types(await room.log(run))).toEqual(['run/cancel', 'run/settled'])
  await expectNothingLeft(room, run, before)
})

test('row 5: aborted while the model streams, the text so far is logged and is the output; half a tool call is dropped', async () => {
  const { room, controller, before } = await scene({
    acts: [hangs(delta('half '), delta('a sentence'), argumentsDelta('{"path": "a'))]
  })
  const run = await room.start({ signal: controller.signal })
  await room.models.received(0)
  const written = Promise.withResolvers<undefined>()
  const stop = run.deltas.onChange(() => { if ((run.deltas.since(undefined)?.snapshot?.parts.length ?? 0) === 2) written.resolve(undefined) })
  await written.promise
  stop()
  controller.abort(new Error('enough'))
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [text('half a sentence')] })
  expect(room.models.signals[0]?.aborted).toBe(true)
  const log = await room.log(run)
  expect(types(log)).toEqual(['turn/start', 'user/message', 'request/header', 'step/start', 'run/cancel', 'assistant/message', 'step/end', 'turn/end', 'run/settled'])
  expect(log[5]).toMatchObject({ data: { content: [{ type: 'text', text: 'half a sentence' }], stop: 'aborted' } })
  expect(log[7]).toMatchObject({ data: { reason: 'aborted' } })
  await expectNothingLeft(room, run, before)
})

test('row 5: a stream without a word so far leaves no message and no output', async () => {
  const { room, controller, before } = await scene({ acts: [hangs(argumentsDelta('{"a'))] })
  const run = await room.start({ signal: controller.signal })
  await room.models.received(0)
  controller.abort()
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(types(await room.log(run))).not.toContain('assistant/message')
  await expectNothingLeft(room, run, before)
})

test('row 6: aborted while tools run, the running ones get the signal, and the others are answered without having begun', async () => {
  const wait = serviceTool('wait', untilAborted)
  const deaf = serviceTool('deaf', never, { idempotent: false })
  const all = [...Array.from({ length: 10 }, (_, i) => ({ id: `w${i}`, name: 'wait' })), { id: 'late', name: 'wait' }, { id: 'later', name: 'deaf' }]
  const { room, controller, before } = await scene({ tools: [wait, deaf], acts: [callsAll(all, { text: 'calling' })] })
  const run = await room.start({ signal: controller.signal })
  await wait.began(9)
  controller.abort(new Error('enough'))
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [text('calling')] })
  expect(wait.contexts).toHaveLength(10)
  expect(wait.contexts.every(({ signal }) => signal.aborted)).toBe(true)
  for (const { signal } of wait.contexts) expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(deaf.inputs).toEqual([])
  const log = await room.log(run)
  const told = new Map(results(log).map(([id, said]) => [id, said]))
  expect(told.size).toBe(12)
  for (let i = 0; i < 10; i++) expect(told.get(`w${i}`)).toBe('Error: tool call aborted')
  expect([told.get('late'), told.get('later')]).toEqual(Array(2).fill('Error: tool call aborted before dispatch'))
  expect(log.filter((event) => event.type === 'tool/call')).toHaveLength(10)
  expect(room.models.requests).toHaveLength(1)
  await expectNothingLeft(room, run, before)
})

test('row 6: a tool that ignores its signal holds nothing up', async () => {
  const deaf = serviceTool('deaf', never)
  const { room, controller, before } = await scene({ tools: [deaf], acts: [callsAll([{ name: 'deaf' }])] })
  const run = await room.start({ signal: controller.signal, service: { limits: { toolTimeoutMs: 60_000, timeoutMs: 60_000 } } })
  await deaf.began()
  expect(timers()).toBeGreaterThan(before.timers)
  controller.abort()
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
  await expectNothingLeft(room, run, before)
})

test('row 6: a call whose start is not durable yet has not begun', async () => {
  const once = serviceTool('once', () => 'ran', { idempotent: false })
  const { room, controller, before } = await scene({
    tools: [once], acts: [callsAll([{ id: 'c', name: 'once' }])],
    store: (real) => ({ ...real, append (append) {
      if (append.events.some((event) => event.type === 'tool/call')) controller.abort(new Error('now'))
      return real.append(append)
    } })
  })
  const run = await room.start({ signal: controller.signal })
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
  expect(once.inputs).toEqual([])
  expect(results(await room.log(run))).toEqual([['c', 'Error: tool call aborted before dispatch']])
  await expectNothingLeft(room, run, before)
})

test('row 6: a call that waits for the host is closed, and its timer with it', async () => {
  const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]
  const { room, controller, before } = await scene({ acts: [callsAll([{ id: 'h', name: 'ask' }, { id: 's', name: 'nobody' }])] })
  const run = await room.start({ signal: controller.signal, service: { hostTools, limits: { toolTimeoutMs: 60_000 } } })
  const waiting = Promise.withResolvers<undefined>()
  run.onStatus(() => { if (run.projection.record.status === 'waiting') waiting.resolve(undefined) })
  await waiting.promise
  expect(room.slots.running).toBe(0)
  controller.abort()
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
  const log = await room.log(run)
  expect(results(log)).toEqual([['s', 'Error: unknown tool "nobody"'], ['h', 'Error: tool call aborted']])
  expect(log.find((event) => event.type === 'tool/result' && event.data.toolCallId === 'h')).toMatchObject({ data: { ended: 'cancelled' } })
  await expectNothingLeft(room, run, before)
})

test('row 7: aborted after the result nothing changes: completed stays completed', async () => {
  const { room, controller, before } = await scene({ acts: [says('done')] })
  const run = await room.start({ signal: controller.signal })
  const result = await run.result
  expect(result).toMatchObject({ stopReason: 'completed' })
  const [log, row] = [await room.log(run), await room.row(run)]
  controller.abort(new Error('too late'))
  await run.dispose()
  expect(await run.result).toBe(result)
  expect([await room.log(run), await room.row(run)]).toEqual([log, row])
  await expectNothingLeft(room, run, before)
})

test('row 7: aborted while the result is on its way to the store, nothing changes either', async () => {
  const { room, controller, before } = await scene({
    acts: [says('done')],
    store: (real) => ({ ...real, append (append) {
      if (append.events.some((event) => event.type === 'run/settled')) controller.abort(new Error('too late'))
      return real.append(append)
    } })
  })
  const run = await room.start({ signal: controller.signal })
  expect(await run.result).toMatchObject({ stopReason: 'completed' })
  expect(types(run.log.own)).not.toContain('run/cancel')
  expect(run.projection.record.cancel).toBeNull()
  expect(await room.row(run)).toMatchObject({ stopReason: 'completed', cancel: null })
  await expectNothingLeft(room, run, before)
})

test.each([
  ['while the end of its turn is being written', 'step/end', 'completed'],
  ['while its answer is being written', 'step/start', 'aborted']
] as const)('5.1 a cancellation that meets a run %s finds it %s', async (_, last, stopReason) => {
  let run: ChildRun | undefined
  let met = false
  const { room, controller, before } = await scene({
    acts: [says('done')],
    now () {
      if (run?.log.own.at(-1)?.type === last && !met) {
        met = true
        queueMicrotask(() => controller.abort(new Error('enough')))
      }
      return Date.now()
    },
    announce: (live) => { run = live as ChildRun; room.registry.announce(live) }
  })
  await room.start({ signal: controller.signal })
  expect(await run?.result).toMatchObject({ stopReason })
  expect(await room.row(run as ChildRun)).toMatchObject({ stopReason, cancel: { reason: 'enough' } })
  await expectNothingLeft(room, run as ChildRun, before)
})

/** What a real connection shows: the upstream request is gone when the run is. */
const upstreams: { title: string, answers: FakeAnswer[], kind: 'openai' | 'anthropic', n: number, output: unknown[] }[] =
  (['openai', 'anthropic'] as const).flatMap((kind) => [
    { title: `${kind}, mid-stream`, kind, answers: [fakeHang('half a sentence')], n: 0, output: [text('half a sentence')] },
    { title: `${kind}, before the first byte`, kind, answers: [fakeHang()], n: 0, output: [] },
    { title: `${kind}, in the second step`, kind, answers: [fakeCalls([{ name: 'look' }], { text: 'looking' }), fakeHang()], n: 1, output: [text('looking')] }
  ])
test.each(upstreams)('row 5 over HTTP: the upstream connection is closed ($title)', async ({ answers, kind, n, output }) => {
  const upstream = await startFakeModelServer(onTestFinished, { answers })
  const service = await startService(onTestFinished, {
    tools: [serviceTool('look')],
    env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: upstream.openaiUrl, ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: upstream.anthropicUrl }
  })
  const run = await service.start({ task: 'go', agentOptions: { model: `${kind}/m` } })
  const { closed } = await upstream.received(n)
  if (output.length > 0 && n === 0) {
    const stream = await fetch(`${service.url}/v1/runs/${run.id}/events`, { headers: { accept: 'text/event-stream' } })
    for await (const chunk of stream.body ?? []) if (Buffer.from(chunk).toString().includes('half a sentence')) break
  }
  const cancelled = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`, { reason: 'enough' })
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  expect((await closed).complete).toBe(false)
  expect((await service.result(run.id)).output).toEqual(output)
  expect(service.app.registry.liveRuns()).toEqual([])
})
