import { getEventListeners } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import type { LiveRun } from '../../src/core/live.ts'
import { expectNothingLeft, openDriver, timers, type Room } from '../support/driver-room.ts'
import { calls, callsAll, delta, hangs, says } from '../support/recording-model.ts'
import { serviceTool, untilAborted } from '../support/service-tool.ts'

test('5.3 dispose cancels, waits until all is quiet and releases; the result still resolves', async () => {
  const wait = serviceTool('wait', untilAborted)
  const room = await openDriver(onTestFinished, { tools: [wait], acts: [calls('wait')] })
  const { signal } = new AbortController()
  const before = { signal, timers: timers() }
  const run = await room.start({ signal })
  await wait.began()
  await run.dispose()
  expect(wait.contexts[0]?.signal.aborted).toBe(true)
  await expectNothingLeft(room, run, before)
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
  expect(await room.row(run)).toMatchObject({ cancel: { by: 'dispose', reason: null } })
})

test('5.3 dispose takes the live listener off at once: a later abort of the signal is not heard', async () => {
  const room = await openDriver(onTestFinished, { acts: [hangs()] })
  const controller = new AbortController()
  const run = await room.start({ signal: controller.signal })
  const disposed = run.dispose()
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  controller.abort(new Error('not heard'))
  await disposed
  expect(await room.row(run)).toMatchObject({ cancel: { by: 'dispose', reason: null } })
})

test('5.3 a second dispose gets the same promise, while the first is under way and after it', async () => {
  const room = await openDriver(onTestFinished, { acts: [hangs()] })
  const run = await room.start()
  const first = run.dispose()
  expect(run.dispose()).toBe(first)
  await first
  expect(run.dispose()).toBe(first)
  const log = await room.log(run)
  expect(log.filter((event) => event.type === 'run/cancel')).toHaveLength(1)
})

test('5.3 a finished run stays what it was', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done')] })
  const run = await room.start()
  const result = await run.result
  const row = await room.row(run)
  await run.dispose()
  expect(await run.result).toBe(result)
  expect(await room.row(run)).toEqual(row)
})

test('5.3 a failure to release belongs to dispose; the result is the run\'s own, and every other part is released', async () => {
  let released = 0
  const room: Room = await openDriver(onTestFinished, {
    acts: [says('done')],
    reserve: () => ({ free: true, ready: true, acquire: () => Promise.resolve(), release: () => { released++; throw new Error('the slot is stuck') } }),
    retire: (run: LiveRun) => { room.registry.retire(run); throw new Error('the registry is stuck') }
  })
  const controller = new AbortController()
  const run = await room.start({ signal: controller.signal })
  expect(await run.result).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  const error: unknown = await run.dispose().catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(AggregateError)
  expect((error as AggregateError).errors.map((each: Error) => each.message)).toEqual(['the slot is stuck', 'the registry is stuck'])
  await expect(run.dispose()).rejects.toBe(error)
  expect(released).toBe(1)
  expect(room.registry.liveRuns()).toEqual([])
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  expect(await room.row(run)).toMatchObject({ stopReason: 'completed' })
  expect(room.faults.map(({ message }) => message)).toEqual(Array(2).fill('a run could not be released'))
})

test('5.3 a failure of the run belongs to the result: dispose fulfils', async () => {
  const room = await openDriver(onTestFinished, { acts: [() => { throw new Error('a bug') }] })
  const run = await room.start()
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL' } })
  await expect(run.dispose()).resolves.toBeUndefined()
})

test('5.3 a lost store fails the run, not its release: the result resolves, and nothing of it stays in memory', async () => {
  let lost = false
  const room = await openDriver(onTestFinished, {
    acts: [hangs(delta('half'))],
    store: (real) => ({ ...real, append: (append) => lost ? Promise.reject(refuse('STORE_UNAVAILABLE', { retryAfter: 5 })) : real.append(append) })
  })
  const controller = new AbortController()
  const before = timers()
  const run = await room.start({ signal: controller.signal, service: { limits: { timeoutMs: 60_000 } } })
  await room.models.received(0)
  await run.log.durable()
  lost = true
  controller.abort()
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL' } })
  await expect(run.dispose()).resolves.toBeUndefined()
  expect(room.registry.liveRuns()).toEqual([])
  expect(room.slots.running).toBe(0)
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  expect(timers()).toBeLessThanOrEqual(before)
  expect(await room.row(run)).toMatchObject({ status: 'running' })
  expect(run.projection.record).toMatchObject({ status: 'running', result: null, settledAt: null })
})

test('5.3 a store that is lost while calls run ends them all: those that run, and those that wait for the host', async () => {
  const wait = serviceTool('wait', untilAborted)
  const once = serviceTool('once', () => 'ran', { idempotent: false })
  const room = await openDriver(onTestFinished, {
    tools: [wait, once], acts: [callsAll([{ name: 'ask' }, { name: 'wait' }, { name: 'once' }])],
    store: (real) => ({ ...real, append: (append) => append.events.some((event) => event.type === 'tool/call')
      ? Promise.reject(refuse('STORE_UNAVAILABLE', { retryAfter: 5 }))
      : real.append(append) })
  })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ signal, service: { hostTools: [{ name: 'ask', description: '', inputSchema: {} }], limits: { toolTimeoutMs: 60_000 } } })
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL' } })
  expect(wait.contexts[0]?.signal.aborted).toBe(true)
  expect(once.inputs).toEqual([])
  expect(run.hostCalls.pending()).toEqual([])
  expect(room.registry.liveRuns()).toEqual([])
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(timers()).toBeLessThanOrEqual(before)
})

test('5.4 a signal that many runs share holds no listener of a settled one', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('a'), says('b'), hangs(), says('d')], slots: { running: 1, queued: 9 } })
  const controller = new AbortController()
  const runs = [await room.start({ signal: controller.signal }), await room.start({ signal: controller.signal })]
  for (const run of runs) await run.result
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  const open = await room.start({ signal: controller.signal })
  const queued = await room.start({ signal: controller.signal })
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(2)
  await open.dispose()
  await queued.result
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
})

test('2.3 an observer of a status or of settled runs that throws is contained: it fails no append and starves no other', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done')], slots: { running: 1, queued: 1 }, onSettled: () => { throw new Error('a bug') } })
  const run = await room.start()
  const heard: string[] = []
  run.onStatus(() => { throw new Error('a bug') })
  run.onStatus(() => { heard.push(run.projection.record.status) })
  expect(await run.result).toMatchObject({ stopReason: 'completed' })
  expect(heard.at(-1)).toBe('settled')
  expect(room.faults.map(({ message }) => message)).toContain('an observer of a status threw')
  expect(await room.row(run)).toMatchObject({ status: 'settled', stopReason: 'completed' })
})
