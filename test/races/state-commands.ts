import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect } from 'vitest'
import type { RunView } from '../../src/runs/api.ts'
import type { Answer, Service } from '../support/service.ts'
import { logged, readEvents } from '../support/sse.ts'
import { agreed, ME, type createGates } from './schedules.ts'
import {
  answered, answerTo, cancelled, deleted, followUpTo, isOpen, opened, pick, PLACES, restarted, started, treeOf, type Kind,
    type Model, type ModelRun
} from './state-model.ts'

/** A host's commands to a real service over HTTP, and what the model says that each is answered with. */

export interface Real { service: Service, gates: ReturnType<typeof createGates>, restart (): Promise<void> }
type Command = fc.AsyncCommand<Model, Real>

const SCRIPTS: Readonly<Record<Kind, object[]>> = {
  say: [{ say: 'done' }], fail: [{ fail: { code: 'MODEL_AUTH' } }], gate: [{ call: { name: 'gate' } }, { say: 'done' }],
  ask: [{ call: { name: 'ask', id: 'c1' } }, { say: 'done' }], hang: [{ say: 'so far', hang: true }]
}
const bodyOf = (kind: Kind, id: string, parent: ModelRun | undefined): object => ({
  id, task: 'a task', label: `of ${kind}`, agentOptions: { script: SCRIPTS[kind] }, tools: [{ name: 'ask' }],
    ...(parent ? { parent: { runId: parent.id } } : {})
})

/** A command that does `run`, then waits until the service is as the model says, and checks what always holds. */
function command (name: string, check: (model: Model) => boolean, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check,
    async run (model, real) {
      await run(model, real)
      await settleDown(model, real, name)
    },
    toString: () => name
  }
}
const on = (name: string, index: number, run: (model: Model, real: Real, target: ModelRun) => Promise<void>,
  check: (target: ModelRun, model: Model) => boolean = () => true): Command =>
  command(`${name}(${index})`, (model) => model.runs.length > 0 && check(pick(model, index) as ModelRun, model), (model,
    real) => run(model, real, pick(model, index) as ModelRun))

function expectCode ({ status, body, text }: Answer, expected: number, code?: string): void {
  expect(status, text).toBe(expected)
  if (code !== undefined) expect(body.code).toBe(code)
}

const start = (kind: Kind, withKey: boolean,
  under: number | undefined): Command => command(`start(${kind}, ${withKey ? 'key' : 'no key'}, under ${under})`, () => true,
  async (model, { service }) => {
  const parent = under === undefined ? undefined : pick(model, under)
  const id = randomUUID()
  const key = withKey ? `key of ${id}`.replaceAll(' ', '-') : undefined
  const answer = await service.call('POST', '/v1/runs', bodyOf(kind, id, parent),
    key === undefined ? {} : { 'idempotency-key': key })
  if (parent?.state === 'deleted') return expectCode(answer, 404, 'RUN_NOT_FOUND')
  if (parent?.cancelled) return expectCode(answer, 409, 'PARENT_ABORTED')
  expectCode(answer, 201)
  started(model, { id, kind, parent, key })
})

const again = (index: number, same: boolean): Command => on(same ? 'start again' : 'start with the same key', index, async (_,
  { service }, run) => {
  const answer = await service.call('POST', '/v1/runs', { ...bodyOf(run.kind, run.id, run.parent),
    ...(same ? {} : { task: 'another' }) }, { 'idempotency-key': run.key ?? '' })
  if (!same) return expectCode(answer, 422, 'IDEMPOTENCY_MISMATCH')
  if (run.state === 'deleted') return expectCode(answer, 404, 'RUN_NOT_FOUND')
  expectCode(answer, 200)
  expect(answer.headers.get('idempotency-replayed')).toBe('true')
  expect(answer.body.id).toBe(run.id)
}, ({ key }) => key !== undefined)

const taken = (index: number): Command => on('start with its id', index, async (_, { service }, run) => {
  expectCode(await service.call('POST', '/v1/runs', bodyOf('say', run.id, undefined)), 409, 'RUN_EXISTS')
}, ({ state }) => state !== 'deleted')

const cancel = (index: number): Command => on('cancel', index, async (model, { service }, run) => {
  const answer = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`, { reason: 'enough' })
  if (run.state === 'deleted') return expectCode(answer, 404, 'RUN_NOT_FOUND')
  expectCode(answer, 200)
  cancelled(model, run)
  expect([answer.body.status, answer.body.stopReason, answer.body.runningChildren]).toEqual(['settled', run.stopReason, 0])
})

const cancelMany = (by: 'ids' | 'root' | 'label', index: number): Command => on(`cancel many by ${by}`, index, async (model,
  { service }, run) => {
  const list = by === 'ids' ? model.runs.filter((_, i) => (i + index) % 2 === 0) : by === 'root' ? treeOf(model,
    run) : model.runs.filter(({ kind }) => kind === run.kind)
  const which = by === 'ids' ? { ids: list.map(({ id }) => id) } : by === 'root' ? { root: run.id } : { label: `of ${run.kind}` }
  const matched = list.filter(isOpen).length
  const answer = await service.call('POST', '/v1/runs/cancel', which)
  expectCode(answer, 202)
  expect(answer.body).toEqual({ matched })
  cancelled(model, ...list.filter((each) => each.state !== 'deleted' && (by === 'ids' || isOpen(each))))
}, (run, model) => by !== 'ids' ? run.parent === undefined && run.session === run.id : model.runs.length > 1)

const answer = (index: number, content: 'right' | 'other'): Command => on(`answer ${content}`, index, async (model, { service },
  run) => {
  const expected = answerTo(run, content)
  const toolCallId = run.session === run.id ? 'c1' : (await service.call('GET',
    `/v1/runs/${run.id}`)).body?.pendingToolCalls?.[0]?.toolCallId ?? 'nothing'
  const got = await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results: [{ toolCallId, content }] })
  expectCode(got, expected.status)
  if (expected.reason !== undefined) expect(got.body.reason).toBe(expected.reason)
  // The other content is taken as well where it is the first.
  if (expected.status === 200 && run.call === 'pending') answered(model, run)
}, (run) => (content === 'right' || run.call !== 'pending') && (run.session === run.id || run.call === 'pending'))

const wrongAnswer = (index: number): Command => on('answer what was not asked', index, async (_, { service }, run) => {
  const got = await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results: [{ toolCallId: 'nothing',
    content: 'x' }] })
  if (run.state === 'deleted') return expectCode(got, 404, 'RUN_NOT_FOUND')
  expectCode(got, 409, 'TOOL_CALL_NOT_PENDING')
  expect(got.body.reason).toBe('unknown')
})

const steer = (index: number): Command => on('steer', index, async (_, { service }, run) => {
  const got = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'mind this' })
  if (run.state === 'deleted') return expectCode(got, 404, 'RUN_NOT_FOUND')
  if (!isOpen(run)) return expectCode(got, 409, 'RUN_SETTLED')
  expectCode(got, 202)
})

const followUp = (index: number): Command => on('follow up', index, async (model, { service }, run) => {
  const got = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'and now?', mode: 'follow-up' })
  const expected = followUpTo(model, run)
  expectCode(got, expected)
  if (expected !== 201) return
  expect(got.body).toMatchObject({ continues: run.id, sessionId: run.session })
  started(model, { id: got.body.id, kind: run.kind, parent: run.parent, key: undefined, session: run.session })
})

const remove = (index: number): Command => on('delete', index, async (model, { service }, run) => {
  expectCode(await service.call('DELETE', `/v1/runs/${run.id}`), 204)
  if (run.state !== 'deleted') deleted(model, run)
  expectCode(await service.call('DELETE', `/v1/runs/${run.id}`), 204)
})

const openGate = (index: number): Command => on('open the gate', index, async (model, { gates }, run) => {
  gates.open(run.id)
  opened(model, run)
}, ({ kind, state }) => kind === 'gate' && state === 'running')

const read = (index: number): Command => on('read', index, async (_, { service }, run) => {
  const [row, result, tree, page] = await Promise.all(['', '/result', '/tree', '/events'].map((path) => service.call('GET',
    `/v1/runs/${run.id}${path}`)))
  if (run.state === 'deleted') return [row, result, tree, page].forEach((each) => { if (each) expectCode(each, 404,
    'RUN_NOT_FOUND') })
  expect([row?.status, result?.status, tree?.status, page?.status]).toEqual([200, isOpen(run) ? 202 : 200, 200, 200])
  expect(row?.body.status).toBe(run.state)
  expect(page?.body.settled).toBe(!isOpen(run))
  if (!isOpen(run)) await agreed(service, run.id)
})

/** A reader that lost its connection after `index` events gets the rest once and in order. */
const reconnect = (index: number): Command => on('reconnect', index, async (_, { service }, run) => {
  const { body: all } = await service.call('GET', `/v1/runs/${run.id}/events?limit=1000`)
  const { body: some } = await service.call('GET', `/v1/runs/${run.id}/events?limit=${1 + index}`)
  const rest = all.events.slice(some.events.length)
  const reader = await readEvents(service, run.id, { lastEventId: some.after })
  if (rest.length === 0 && !isOpen(run)) return expect(reader.status).toBe(204)
  const events = rest.length === 0 ? [] : logged(await reader.until(({ id,
    data }) => id !== undefined && data.seq === rest.at(-1).seq))
  expect(events.map(({ data }) => [data.seq, data.type])).toEqual(rest.map((event: { seq: number, type: string }) => [event.seq,
    event.type]))
  if (isOpen(run)) reader.leave()
  else expect(await reader.next()).toBeUndefined()
}, ({ state }) => state !== 'deleted')

const restart: Command = command('restart', ({ restarts, runs }) => restarts < 2 && runs.filter(isOpen).length > 1, async (model, real) => {
  await real.restart()
  restarted(model)
})

/** Waits until every run is as the model says; then checks what holds after each command. */
async function settleDown (model: Model, { service }: Real, after: string): Promise<void> {
  const expected = model.runs.filter(({ state }) => state !== 'deleted').map(({ id, state,
    stopReason }) => `${id} ${state} ${stopReason ?? '-'}`).toSorted()
  const ids = new Set(model.runs.map(({ id }) => id))
  const end = performance.now() + 5000
  for (;;) {
    const { runs } = await service.app.runs.list(ME, {}, { limit: 200 })
    const mine = runs.filter(({ id }) => ids.has(id))
    const found = mine.map(({ id, status, stopReason }) => `${id} ${status} ${stopReason ?? '-'}`).toSorted()
    // A settled run is released in the moment after its row tells of it.
    const live = service.app.registry.liveRuns().length
    if (JSON.stringify(found) === JSON.stringify(expected) && live === model.runs.filter(isOpen).length) return await checkAlways(model, service, mine)
    if (performance.now() > end) expect([...found, `${live} live`], `after ${after}`).toEqual([...expected,
      `${model.runs.filter(isOpen).length} live`])
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

async function checkAlways (model: Model, service: Service, rows: readonly RunView[]): Promise<void> {
  const live = new Set(service.app.registry.liveRuns().map(({ id }) => id))
  expect(live).toEqual(new Set(model.runs.filter(isOpen).map(({ id }) => id)))
  expect(model.runs.filter(({ state }) => state === 'running').length).toBeLessThanOrEqual(PLACES)
  for (const run of model.runs) {
    if (run.state !== 'settled') continue
    // What is counted over its tree is not its own.
    const row = { ...rows.find(({ id }) => id === run.id) as RunView, treeUsage: null, runningChildren: null }
    // A settled run never changes.
    if (run.last === undefined) {
      expect(row.cancel !== null).toBe(run.cancelled)
      await agreed(service, run.id, { first: 'a', micro: 0, turns: 0 })
    } else expect(JSON.stringify(row)).toBe(run.last)
    run.last = JSON.stringify(row)
  }
}

const index = fc.nat(7)
const anyKind = fc.constantFrom<Kind>('say', 'fail', 'gate', 'gate', 'ask', 'ask', 'hang')
const starts = fc.tuple(anyKind, fc.boolean(), fc.option(index, { nil: undefined, freq: 2 })).map((of) => start(...of))

export const commands = (size: number): fc.Arbitrary<Iterable<Command>> => fc.commands<Model, Real, false>([
  starts, starts, starts, starts, fc.tuple(index, fc.boolean()).map((of) => again(...of)), index.map(taken), index.map(cancel),
  fc.tuple(fc.constantFrom('ids', 'root', 'label'), index).map((of) => cancelMany(...of)), fc.tuple(index,
    fc.constantFrom('right', 'other')).map((of) => answer(...of)),
  index.map((at) => answer(at, 'right')), index.map(wrongAnswer), index.map(steer), index.map(followUp), index.map(followUp),
    index.map(remove),
  index.map(openGate), index.map(openGate), index.map(read), index.map(reconnect), fc.constant(restart)
], { maxCommands: size, size: 'max' }) as fc.Arbitrary<Iterable<Command>>
