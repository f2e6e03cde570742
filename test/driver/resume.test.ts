import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import { CancelReason, SuspendReason } from '../../src/core/live.ts'
import { openTurn } from '../../src/core/turn.ts'
import type { ChildRun } from '../../src/driver/child-run.ts'
import { expectNothingLeft, openDriver, timers, type RequestChanges, type Room, type RoomOptions } from '../support/driver-room.ts'
import { calls, callsAll, delta, hangs, says, type Act } from '../support/recording-model.ts'
import { makeFolder } from '../support/service.ts'
import { never, serviceTool } from '../support/service-tool.ts'

/** What a restart finds and cannot build, or cannot go on with: an outcome, its log balanced (driver.md §4.4, 2.7, 2.8). */

interface Stopped { path: string, run: ChildRun }

/** A run of a process that stopped in the middle of it, once `until` resolves. */
async function stopped (acts: Act[], request: RequestChanges, options: RoomOptions & { until?: (room: Room, run: ChildRun) => Promise<unknown> } = {}): Promise<Stopped> {
  const { until = (room) => room.models.received(acts.length - 1), ...more } = options
  const path = join(makeFolder(onTestFinished), 'store.db')
  const room = await openDriver(onTestFinished, { path, acts, ...more })
  const run = await room.start(request)
  await until(room, run)
  run.abort(new SuspendReason())
  await run.stopped
  await room.store.close()
  return { path, run }
}

async function takenUp ({ path, run: { id } }: Stopped, options: RoomOptions = {}) {
  const before = timers()
  const room = await openDriver(onTestFinished, { path, ...options })
  const record = (await room.store.unsettledRuns())[0]
  const spec = await room.store.getSpec('default', id)
  if (!record || !spec) throw new Error('nothing was left open')
  const run = await room.driver.resumeInProcessRun(record, spec) as ChildRun
  return { room, run, before: { signal: new AbortController().signal, timers: before } }
}

const look = () => serviceTool('look')
const outputSchema = { type: 'object', properties: { n: { type: 'integer' } } }

test('2.8 a suspended run logs nothing more, keeps no listener, and goes on at the next start', async () => {
  const left = await stopped([hangs(delta('lost'))], {})
  const { room, run, before } = await takenUp(left, { acts: [says('after the restart')] })
  expect(await run.result).toMatchObject({ stopReason: 'completed', output: [text('after the restart')] })
  expect((await room.log(run)).map((event) => event.type)).toEqual([
    'turn/start', 'user/message', 'request/header', 'step/start', 'run/resumed', 'step/end', 'step/start', 'assistant/message', 'step/end', 'turn/end', 'run/settled'
  ])
  await expectNothingLeft(room, run, before)
})

test('§4.4 where a restart cannot build the agent the run settles: error SETUP_FAILED with the reason, what was said and used stays', async () => {
  const left = await stopped([callsAll([{ id: 'c', name: 'look' }], { text: 'so far', tokens: { inputTokens: 5 } }), hangs()], { toolFilter: { allow: ['look'] } }, { tools: [look()] })
  const { room, run, before } = await takenUp(left, { tools: [serviceTool('other')] })
  const message = 'toolFilter names unknown tool "look"; known tools: other'
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'SETUP_FAILED', message }, diagnostic: message, output: [text('so far')], usage: { inputTokens: 5, steps: 1 } })
  const log = await room.log(run)
  expect(log.slice(-4).map((event) => event.type)).toEqual(['run/resumed', 'step/end', 'turn/end', 'run/settled'])
  expect(log.at(-2)).toMatchObject({ data: { reason: 'error', error: { code: 'SETUP_FAILED' } } })
  expect(room.models.requests).toEqual([])
  await expectNothingLeft(room, run, before)
})

test('2.7 a call that was running when its agent cannot be built again is answered: outcome unknown, and what never started says so', async () => {
  const deaf = serviceTool('look', never, { idempotent: false })
  const many = [...Array.from({ length: 10 }, (_, i) => ({ id: `c${i}`, name: 'look' })), { id: 'late', name: 'look' }]
  const left = await stopped([callsAll(many)], { toolFilter: { allow: ['look'] } }, { tools: [deaf], until: () => deaf.began(9) })
  const { room, run, before } = await takenUp(left, { tools: [] })
  expect(await run.result).toMatchObject({ error: { code: 'SETUP_FAILED' } })
  const told = (await room.log(run)).flatMap((event) => event.type === 'tool/result' && event.data.content[0]?.type === 'text' ? [event.data.content[0].text] : [])
  expect(told).toEqual([...Array(10).fill('Error: the tool call was interrupted: outcome unknown: check before retrying'), 'Error: the tool call never started: the run was interrupted before dispatch'])
  await expectNothingLeft(room, run, before)
})

test('§4.4 a bug while the agent is built again is logged, and its text is not shown', async () => {
  const left = await stopped([hangs()], {})
  const again = await openDriver(onTestFinished, { path: left.path })
  const record = (await again.store.unsettledRuns())[0]
  if (!record) throw new Error('nothing was left open')
  again.models.resolve = () => { throw new TypeError('a secret of this machine') }
  const taken = await again.driver.resumeInProcessRun(record, left.run.spec)
  expect(await taken.result).toMatchObject({ stopReason: 'error', error: { code: 'SETUP_FAILED', message: 'the agent could not be built' } })
  expect(again.faults).toMatchObject([{ message: 'the agent of a run could not be built again', error: { message: 'a secret of this machine' } }])
  expect(JSON.stringify(await again.log(record))).not.toContain('secret')
})

test('5.1 a cancellation that the stopped process took is honoured, even where the agent cannot be built', async () => {
  for (const tools of [[look()], []]) {
    const left = await stopped([hangs()], { toolFilter: { deny: ['look'] } }, {
      tools: [look()],
      async until (room, run) {
        await room.models.received(0)
        run.log.append('run/cancel', { at: 1, reason: 'enough', by: 'request' })
        run.projection.patch({ cancel: { at: 1, reason: 'enough', by: 'request' } })
        await run.log.durable()
      }
    })
    const { room, run, before } = await takenUp(left, { tools })
    expect(await run.result).toMatchObject({ stopReason: 'aborted' })
    expect(room.models.requests).toEqual([])
    expect(openTurn(await room.log(run))).toBeUndefined()
    await expectNothingLeft(room, run, before)
  }
})

test('2.8 the third start in vain gives the run up: error INTERRUPTED, its turn closed', async () => {
  let left = await stopped([hangs()], {})
  for (let i = 0; i < 2; i++) {
    const { room, run } = await takenUp(left, { acts: [hangs()] })
    await room.models.received(0)
    run.abort(new SuspendReason())
    await run.stopped
    await room.store.close()
    left = { ...left, run }
  }
  const { room, run, before } = await takenUp(left, { acts: [says('never')] })
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERRUPTED', message: 'the service stopped 3 times before the run made progress' } })
  expect(room.models.requests).toEqual([])
  await expectNothingLeft(room, run, before)
})

test('9.6 a captured value survives a restart: nothing more is asked or run', async () => {
  const left = await stopped([callsAll([{ id: 'r', name: 'structured_output', input: { n: 1 } }, { id: 'l', name: 'look' }])], { outputSchema }, {
    tools: [look()],
    async until (room, run) {
      const original = run.log.append.bind(run.log)
      const seen = Promise.withResolvers<undefined>()
      run.log.append = (type, data) => {
        const event = original(type, data)
        if (type === 'run/structured') { run.abort(new SuspendReason()); seen.resolve(undefined) }
        return event
      }
      await seen.promise
      await room.models.received(0)
    }
  })
  const other = look()
  const { room, run, before } = await takenUp(left, { tools: [other], acts: [says('never')] })
  expect(await run.result).toMatchObject({ stopReason: 'completed', structured: { n: 1 } })
  expect([other.inputs, room.models.requests]).toEqual([[], []])
  await expectNothingLeft(room, run, before)
})

test('a call of the host that was open when the process stopped, then cancelled, is closed as cancelled', async () => {
  const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]
  const left = await stopped([callsAll([{ id: 'h', name: 'ask' }])], { service: { hostTools } }, {
    async until (_, run) {
      const waiting = Promise.withResolvers<undefined>()
      run.onStatus(() => { if (run.projection.record.status === 'waiting') waiting.resolve(undefined) })
      await waiting.promise
    }
  })
  const { room, run, before } = await takenUp(left)
  await run.underway
  expect(run.hostCalls.pending()).toMatchObject([{ toolCallId: 'h' }])
  await run.dispose()
  expect((await room.log(run)).find((event) => event.type === 'tool/result')).toMatchObject({ data: { toolCallId: 'h', ended: 'cancelled', content: [text('Error: tool call aborted')] } })
  await expectNothingLeft(room, run, before)
})

test('a resumed run keeps its header: the working directory and the lineage its forks inherit', async () => {
  const left = await stopped([hangs()], { label: 'l', parent: { cwd: '/w', sessionId: 's', depths: { stored: 3 } } })
  const { room, run } = await takenUp(left, { acts: [says('done')] })
  expect(run.log.header).toEqual(left.run.log.header)
  expect(run.log.header).toMatchObject({ cwd: '/w', parentSession: 's', delegationDepth: 4, label: 'l' })
  await run.result
  expect(room.registry.liveRuns()).toEqual([])
})

test('a run that ended its turn before the process stopped stays what it was, even where its agent cannot be built', async () => {
  const left = await stopped([calls('look'), says('done')], { toolFilter: { allow: ['look'] } }, {
    tools: [look()],
    store: (real) => ({ ...real, append: (append) => append.events.some((event) => event.type === 'run/settled') ? new Promise(() => {}) : real.append(append) }),
    async until (_, run) {
      const ended = Promise.withResolvers<undefined>()
      const original = run.log.append.bind(run.log)
      run.log.append = (type, data) => {
        const event = original(type, data)
        if (type === 'turn/end') run.abort(new SuspendReason())
        return event
      }
      run.stopped.then(() => ended.resolve(undefined), () => {})
      await ended.promise
    }
  })
  const { room, run, before } = await takenUp(left, { tools: [] })
  expect(await run.result).toMatchObject({ stopReason: 'completed', output: [text('done')] })
  await expectNothingLeft(room, run, before)
})

test('2.5 a deadline that passed while no process ran the run is over at once: LIMIT_TIME, and the model is not asked', async () => {
  const left = await stopped([hangs()], { service: { limits: { timeoutMs: 60_000 } } })
  const { room, run } = await takenUp(left, { acts: [says('too late')], now: () => Date.now() + 3_600_000 })
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME' }, diagnostic: 'timeoutMs 60000 reached' })
  expect(room.models.requests).toEqual([])
})

const connecting = { list: (signal: AbortSignal): Promise<never> => new Promise((_resolve, reject) => {
  const onAbort = (): void => reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
}) }

test('2.8, 5.2 a run that is cancelled while its tools connect anew ends aborted, its turn too: that is no fault', async () => {
  for (const when of ['before the restart', 'after it']) {
    const left = await stopped([hangs()], {}, {
      async until (room, run) {
        await room.models.received(0)
        if (when === 'after it') return
        run.log.append('run/cancel', { at: 1, reason: 'enough', by: 'request' })
        await run.log.durable()
      }
    })
    const { room, run, before } = await takenUp(left, { source: connecting })
    if (when === 'after it') run.abort(new CancelReason('request', 'enough'))
    expect(await run.result).toMatchObject({ stopReason: 'aborted' })
    expect((await room.log(run)).at(-2)).toMatchObject({ type: 'turn/end', data: { turn: 1, reason: 'aborted' } })
    await expectNothingLeft(room, run, before)
  }
})

test('2.8 a run whose process stops while its tools connect anew is left as it was for the next start', async () => {
  const first = await stopped([hangs()], {})
  const { room, run } = await takenUp(first, { source: connecting })
  run.abort(new SuspendReason())
  await run.stopped
  await run.log.durable()
  expect((await room.log(run)).at(-1)).toMatchObject({ type: 'run/resumed' })
  expect(room.faults).toEqual([])
  await room.store.close()
  const last = await takenUp(first, { acts: [says('at last')] })
  expect(await last.run.result).toMatchObject({ stopReason: 'completed', output: [text('at last')] })
})

test('2.5 a time limit that passes while tools connect anew is that limit\'s error', async () => {
  const left = await stopped([hangs()], { service: { limits: { timeoutMs: 60_000 } } })
  const { room, run, before } = await takenUp(left, { source: connecting, now: () => Date.now() + 60_001 })
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME', message: 'timeoutMs 60000 reached' } })
  await expectNothingLeft(room, run, before)
})
