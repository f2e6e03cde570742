import { getEventListeners } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import type { ToolDefinition } from '../../src/core/events.ts'
import type { Publication } from '../../src/core/store.ts'
import { expectNothingLeft, expectNothingMade, openDriver, timers, type RequestChanges, type Room, type RoomOptions } from '../support/driver-room.ts'
import { callsAll, hangs, says } from '../support/recording-model.ts'
import { serviceTool } from '../support/service-tool.ts'

const ID = '00000000-0000-4000-8000-000000000001'
const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } } }
const aborted = AbortSignal.abort(new Error('gone'))
const rejection = async (work: Promise<unknown>): Promise<{ code: string, message: string }> =>
  await work.then(() => { throw new Error('it was started') }, (error: unknown) => error as { code: string, message: string })

test('§4 the driver checks in order: maxDepth type, aborted signal, the parent\'s depth, safe range, cap', async () => {
  const room = await openDriver(onTestFinished)
  // Each request holds every later fault as well; the earlier one is told.
  const driver = (changes: RequestChanges) => rejection(room.driver.startInProcessRun(room.request(changes), { provider: 'spawn' }))
  expect(await driver({ maxDepth: -1, signal: aborted, parent: { depths: { runtime: null } } })).toMatchObject({ code: 'MAX_DEPTH_INVALID' })
  expect(await driver({ maxDepth: 0, signal: aborted, parent: { depths: { runtime: null } } })).toMatchObject({ code: 'START_ABORTED' })
  expect(await driver({ maxDepth: 0, parent: { depths: { runtime: null, stored: Number.MAX_SAFE_INTEGER } } })).toMatchObject({ code: 'DEPTH_INVALID' })
  expect(await driver({ maxDepth: 0, parent: { depths: { stored: Number.MAX_SAFE_INTEGER } } })).toMatchObject({ code: 'DEPTH_RANGE' })
  expect(await driver({ maxDepth: 0 })).toMatchObject({ code: 'DEPTH_EXCEEDED', message: 'subagent depth 1 exceeds maxDepth 0' })
  expect(room.models.requests).toEqual([])
})

test('§4 past the safe range the refusal is a RangeError', async () => {
  const room = await openDriver(onTestFinished)
  const error = await rejection(room.start({ parent: { depths: { runtime: Number.MAX_SAFE_INTEGER } } }))
  expect(error).toBeInstanceOf(RangeError)
  expect(error.message).toBe('subagent child depth exceeds the safe-integer range')
})

test('§4 the child\'s depth stands in its header, its spec and its row; no agent option can change it', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done')] })
  const agentOptions = { maxTokens: 7, depth: 0, subagentDepth: 0, delegationDepth: 0 } as { maxTokens: number }
  const run = await room.start({ agentOptions, parent: { depths: { stored: 2, runtime: 4 }, model: 'recording/parents', maxTokens: 99, cwd: '/w', sessionId: 's-1' } })
  await run.result
  expect(run.spec).toMatchObject({ depth: 5, model: 'recording/parents' })
  expect(await room.row(run)).toMatchObject({ depth: 5, parentSessionId: 's-1', provider: 'spawn' })
  const session = await room.store.getSession('default', run.id)
  expect(session?.header).toMatchObject({ delegationDepth: 5, cwd: '/w', parentSession: 's-1', provider: 'spawn' })
  expect(session?.header).not.toHaveProperty('seedLength')
})

test('§4 agent options are the parent\'s model and token cap, then the request\'s', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('a'), says('b')] })
  const parent = { model: 'recording/parents', maxTokens: 99 }
  const inherits = await room.start({ parent })
  await inherits.result
  const overrides = await room.start({ parent, agentOptions: { model: 'own', maxTokens: 7 } })
  await overrides.result
  expect(room.models.requests.map((request) => request.maxTokens)).toEqual([99, 7])
  expect([inherits.spec.model, overrides.spec.model]).toEqual(['recording/parents', 'recording/own'])
  expect(overrides.spec.agentOptions).toEqual({ model: 'recording/own', maxTokens: 7 })
})

interface Refused { title: string, code: string | undefined, message?: string, room?: RoomOptions, request?: RequestChanges }

/** A failure at each step of the set-up, in their order. */
const refused: Refused[] = [
  { title: 'the signal is aborted before the call', code: 'START_ABORTED', message: 'subagent request was aborted before child publication', request: { signal: aborted } },
  { title: 'the model is not allowed', code: 'MODEL_FORBIDDEN', request: { service: { id: ID, allowModel: (model) => { throw refuse('MODEL_FORBIDDEN', { model }) } } } },
  {
    title: 'a host tool has the name of a deployment\'s', code: 'TOOL_NAME_TAKEN', message: 'tool name "look" is taken',
    room: { tools: [serviceTool('look')] }, request: { service: { id: ID, hostTools: [{ name: 'look', description: '', inputSchema: {} }] } }
  },
  {
    title: 'a host tool\'s schema does not compile', code: 'INVALID_REQUEST',
    request: { service: { id: ID, hostTools: [{ name: 'look', description: '', inputSchema: { type: 'nonsense' } } as ToolDefinition] } }
  },
  { title: 'the filter names an unknown tool', code: 'TOOL_FILTER_INVALID', request: { toolFilter: { deny: ['nope'] } } },
  {
    title: 'the output schema does not compile', code: 'UNSUPPORTED_SCHEMA',
    message: 'unsupported JSON schema: #/$schema: only drafts 2020-12, 2019-09, 7 and 6 are supported',
    request: { outputSchema: { ...SCHEMA, $schema: 'urn:another' } }
  },
  { title: 'a set-up step throws a bug', code: undefined, message: 'a bug', request: { service: { id: ID, allowModel: () => { throw new TypeError('a bug') } } } },
  { title: 'publish refuses', code: 'TREE_LIMIT', message: 'subagent tree exceeds 0 runs', request: { service: { id: ID, limits: { treeRuns: 0 } } } },
  { title: 'publish finds the parent cancelled or gone', code: 'PARENT_ABORTED', request: { parent: { runId: 'gone', rootId: 'gone' } } },
  {
    title: 'the store is lost at publish', code: 'STORE_UNAVAILABLE',
    room: { store: (real) => ({ ...real, publish: () => Promise.reject(refuse('STORE_UNAVAILABLE', { retryAfter: 5 })) }) }
  }
]

test.each(refused)('4.1 nothing is left, and the id can be used again, when $title', async ({ code, message, room: options = {}, request = {} }) => {
  let mended = false
  const announced: string[] = []
  const room: Room = await openDriver(onTestFinished, {
    ...options,
    acts: [says('now it runs')],
    store (real) {
      const broken = options.store?.(real) ?? real
      return { ...real, publish: (publication) => mended ? real.publish(publication) : broken.publish(publication) }
    },
    announce: (run) => { announced.push(run.id); room.registry.announce(run) }
  })
  const signal = request.signal ?? new AbortController().signal
  const before = timers()
  const error = await rejection(room.start({ ...request, signal, service: { id: ID, ...request.service } }))
  expect(error.code).toBe(code)
  if (message !== undefined) expect(error.message).toBe(message)
  await expectNothingMade(room, ID, signal)
  expect(announced).toEqual([])
  expect(room.faults).toEqual([])
  mended = true
  const again = new AbortController().signal
  const run = await room.start({ signal: again, service: { id: ID } })
  expect(run.id).toBe(ID)
  expect(await run.result).toMatchObject({ stopReason: 'completed' })
  await expectNothingLeft(room, run, { signal: again, timers: before })
})

test('4.1 nothing is left when the queue is full', async () => {
  const room = await openDriver(onTestFinished, { slots: { running: 0, queued: 0 } })
  const { signal } = new AbortController()
  expect(await rejection(room.start({ signal, service: { id: ID } }))).toMatchObject({ code: 'OVERLOADED' })
  await expectNothingMade(room, ID, signal)
})

test('4.1 a step that cannot be undone keeps no other from being undone, and the start rejects with its own cause', async () => {
  const room: Room = await openDriver(onTestFinished, {
    reserve: () => ({ free: true, ready: true, acquire: () => Promise.resolve(), release: () => { throw new Error('it cannot be released') } })
  })
  const { signal } = new AbortController()
  expect(await rejection(room.start({ signal, service: { id: ID, limits: { treeRuns: 0 } } }))).toMatchObject({ code: 'TREE_LIMIT' })
  expect(room.faults).toMatchObject([{ message: 'rollback of a child failed', error: { message: 'it cannot be released' } }])
  await expectNothingMade(room, ID, signal)
})

test('4.1 publication is the instant: neither the row nor the announcement is there before it, both are after it', async () => {
  const seen: unknown[] = []
  const room: Room = await openDriver(onTestFinished, {
    acts: [says('done')],
    store: (real) => ({
      ...real,
      async publish (publication: Publication) {
        seen.push(await real.getRun('default', publication.run.id), room.registry.liveRuns().length)
        const place = await real.publish(publication)
        seen.push(room.registry.liveRuns().length)
        return place
      }
    })
  })
  const run = await room.start()
  expect(seen).toEqual([undefined, 0, 0])
  expect(room.registry.live('default', run.id)).toBe(run)
  expect(await room.row(run)).toMatchObject({ id: run.id })
  await run.result
})

test('4.1 an id that is taken is refused, and the run that has it is untouched', async () => {
  const room = await openDriver(onTestFinished, { acts: [hangs()] })
  const run = await room.start({ service: { id: ID } })
  expect(await rejection(room.start({ service: { id: ID } }))).toMatchObject({ code: 'RUN_EXISTS' })
  expect(room.registry.live('default', ID)).toBe(run)
  expect(room.slots.running).toBe(1)
})

test('4.2 what fails after publication is a result: an announcement that throws, and a model that throws', async () => {
  const room: Room = await openDriver(onTestFinished, {
    acts: [() => { throw new Error('the model has a bug') }],
    announce: (run) => { room.registry.announce(run); throw new Error('the announcement has a bug') }
  })
  const run = await room.start()
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL' } })
  expect(room.faults).toMatchObject([{ message: 'a run could not be announced' }])
  expect(await room.row(run)).toMatchObject({ status: 'settled', stopReason: 'error' })
})

test('4.2 a fault in the middle of a turn settles the run, closes the turn and keeps what was said', async () => {
  const { signal } = new AbortController()
  // A model that breaks its contract: no log can hold the second reply.
  const room = await openDriver(onTestFinished, {
    tools: [serviceTool('look')], acts: [callsAll([{ name: 'look' }], { text: 'first words' }), says('second', { tokens: { inputTokens: NaN } })]
  })
  const before = timers()
  const run = await room.start({ signal })
  expect(await run.result).toMatchObject({ output: [{ text: 'first words' }], stopReason: 'error', error: { code: 'INTERNAL', message: 'internal error' } })
  expect(room.faults.splice(0)).toMatchObject([{ message: 'a run failed' }])
  expect((await room.log(run)).slice(-2)).toMatchObject([{ type: 'turn/end', data: { reason: 'error', error: { code: 'INTERNAL' } } }, { type: 'run/settled' }])
  await expectNothingLeft(room, run, { signal, timers: before })
})

test('4.3 unloading the provider stops new starts and revokes no run', async () => {
  const room = await openDriver(onTestFinished, { acts: [hangs()] })
  const controller = new AbortController()
  const run = await room.start({ signal: controller.signal })
  await room.models.received(0)
  room.providers.unregister('spawn')
  expect(await rejection(room.start())).toMatchObject({ code: 'NO_PROVIDER', message: 'no subagent provider registered for "spawn"' })
  expect(room.registry.live('default', run.id)).toBe(run)
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
  controller.abort(new Error('enough'))
  expect(await run.result).toMatchObject({ stopReason: 'aborted' })
})

test('§4 the task is sent verbatim as one user message, and the turn runs to idle', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done')] })
  const prompt = [{ type: 'text' as const, text: '  spaces \n kept ' }, { type: 'image' as const, data: 'AAAA', mimeType: 'image/png' }]
  const run = await room.start({ prompt })
  await run.result
  expect(room.models.requests[0]?.messages).toEqual([{ role: 'user', content: prompt }])
})
