import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { text, type NewEvent, type SessionEvent } from '../../src/core/events.ts'
import { completedTurnPrefix } from '../../src/core/prefix.ts'
import type { ParentAgent, Seed } from '../../src/core/provider.ts'
import type { ChildRun } from '../../src/driver/child-run.ts'
import { openDriver, type Room } from '../support/driver-room.ts'
import { calls, callsAll, fails, hangs, says } from '../support/recording-model.ts'
import { makeFolder, startService } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

/** The agent of a run of this room, as a delegating parent. */
function agentOf (run: ChildRun): Partial<ParentAgent> {
  const { segment, rootId } = run.projection.record
  return {
    runId: run.id, sessionId: run.id, rootId, depths: { stored: run.projection.record.depth }, model: run.spec.model,
    completedTurns (): Seed | undefined {
      const length = run.log.completedLength
      return length === 0 ? undefined : { stored: { segment, length }, turns: run.log.completedTurns, events: length }
    }
  }
}
const fork = async (room: Room, parent: ChildRun, prompt = 'the child\'s task'): Promise<ChildRun> =>
  await room.providers.start('fork', room.request({ prompt: [text(prompt)], parent: agentOf(parent) })) as ChildRun
const roles = (room: Room, n: number) => room.models.requests[n]?.messages.map((message) =>
  [message.role, message.content.map((part) => part.type === 'text' ? part.text : part.type).join()])

test('3.1–3.3 a fork gets the completed turns at the start call: not the run\'s later events, and the parent\'s log is not changed', async () => {
  const room = await openDriver(onTestFinished, { tools: [serviceTool('look')], acts: [calls('look'), says('found'), says('a'), says('b')] })
  const parent = await room.start()
  await parent.result
  const before = await room.log(parent)
  const children = await Promise.all(['one', 'two'].map((task) => fork(room, parent, task)))
  await Promise.all(children.map((child) => child.result))
  expect(await room.log(parent)).toEqual(before)
  const seeds = await Promise.all(children.map(async (child) => (await room.log(child)).slice(0, child.log.seedLength)))
  expect(seeds).toEqual([completedTurnPrefix(before), completedTurnPrefix(before)])
  expect(before.at(-1)?.type).toBe('run/settled')
  expect(seeds[0]?.at(-1)?.type).toBe('turn/end')
  expect(roles(room, 2)?.slice(0, -1)).toEqual(roles(room, 3)?.slice(0, -1))
  expect([roles(room, 2)?.at(-1), roles(room, 3)?.at(-1)].map((last) => String(last?.[1])).toSorted()).toEqual(['one', 'two'])
})

test('3.2, 3.4 while the parent\'s first turn is open its prefix is empty: the child is a fresh spawn, with no seedLength', async () => {
  const look = serviceTool('look', () => new Promise<string>(() => {}))
  const room = await openDriver(onTestFinished, { tools: [look], acts: [callsAll([{ name: 'look' }, { name: 'look' }]), says('the child')] })
  const parent = await room.start()
  await look.began(1)
  const child = await fork(room, parent)
  expect(await child.result).toMatchObject({ output: [text('the child')] })
  expect(roles(room, 1)).toEqual([['user', 'the child\'s task']])
  expect((await room.store.getSession('default', child.id))?.header).not.toHaveProperty('seedLength')
  expect(await room.row(child)).toMatchObject({ seed: { turns: 0, events: 0 }, firstSeq: 0, provider: 'fork' })
  expect((await room.log(child))[0]).toMatchObject({ type: 'turn/start', data: { turn: 1 } })
})

test('3.3 what the parent logs after the start call does not reach the child, even before it is published', async () => {
  const room: Room = await openDriver(onTestFinished, {
    acts: [says('first'), says('child')],
    reserve (...args) {
      parents[0]?.log.appendAll([{ type: 'turn/start', data: { turn: 2, origin: 'service' } }, { type: 'turn/end', data: { turn: 2, reason: 'completed' } }])
      return room.slots.reserve(...args)
    }
  })
  const parents: ChildRun[] = []
  const started = await room.start()
  await started.result
  const agent = agentOf(started)
  const length = started.log.completedLength
  parents.push(started)
  const child = await room.providers.start('fork', room.request({ parent: agent })) as ChildRun
  expect(started.log.completedLength).toBeGreaterThan(length)
  await child.result
  expect(child.log.seedLength).toBe(length)
  expect(await room.row(child)).toMatchObject({ seed: { turns: 1, events: length } })
})

test('3.5 turn numbers continue after the seed, generation by generation, and the seed brings no authority', async () => {
  const room = await openDriver(onTestFinished, { tools: [serviceTool('look'), serviceTool('write')], persona: 'deployment', acts: [says('1'), says('2'), says('3')] })
  const parent = await room.start({ persona: 'the parent\'s', toolFilter: { allow: ['look'] } })
  await parent.result
  const child = await fork(room, parent)
  await child.result
  const grandchild = await fork(room, child)
  await grandchild.result
  const turns = (await room.log(grandchild)).flatMap((event) => event.type === 'turn/start' ? [event.data.turn] : [])
  expect(turns).toEqual([1, 2, 3])
  expect([await room.row(child), await room.row(grandchild)].map((row) => [row?.depth, row?.seed.turns])).toEqual([[2, 1], [3, 2]])
  expect(room.models.requests.map((request) => [request.system[0]?.text, request.tools.map((tool) => tool.name)])).toEqual([
    ['the parent\'s', ['look']], ['deployment', ['look', 'write']], ['deployment', ['look', 'write']]
  ])
})

test('3.5 a structured contract of the parent binds no child', async () => {
  const room = await openDriver(onTestFinished, { acts: [calls('structured_output', { n: 1 }), says('free')] })
  const parent = await room.start({ outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } })
  expect(await parent.result).toMatchObject({ structured: { n: 1 } })
  const child = await fork(room, parent)
  const result = await child.result
  expect(result).toMatchObject({ stopReason: 'completed', output: [text('free')] })
  expect(result).not.toHaveProperty('structured')
  expect(room.models.requests[1]).toMatchObject({ tools: [], system: [] })
})

test('7.1 a fork that says nothing has no output, whatever its parent said', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('the parent said this'), hangs()] })
  const parent = await room.start()
  await parent.result
  const child = await fork(room, parent)
  await room.models.received(1)
  await child.dispose()
  expect(await child.result).toMatchObject({ stopReason: 'aborted', output: [], usage: { steps: 0 } })
})

test('2.6 a turn that brought no message is inherited as its task and `(no answer: <reason>)`, so that roles alternate', async () => {
  const room = await openDriver(onTestFinished, { acts: [fails('MODEL_AUTH'), says('a child')] })
  const parent = await room.start()
  expect(await parent.result).toMatchObject({ stopReason: 'error', output: [] })
  await (await fork(room, parent)).result
  expect(roles(room, 1)).toEqual([['user', 'the task'], ['assistant', '(no answer: error)'], ['user', 'the child\'s task']])
})

test('3.6 for every kind of transcript the child gets the balanced prefix, the open delegation and its siblings cut off', async () => {
  const service = await startService(onTestFinished)
  const user = (content: string) => ({ role: 'user', content })
  const said = (content: string) => ({ role: 'assistant', content })
  const ask = { type: 'function', function: { name: 'delegate', arguments: '{}' } }
  const formats: Record<string, unknown[]> = {
    'openai-chat': [user('q'), said('a'), user('q2'), { role: 'assistant', content: null, tool_calls: [{ id: '1', ...ask }, { id: '2', ...ask }] }, { role: 'tool', tool_call_id: '1', content: 'x' }],
    anthropic: [user('q'), said('a'), user('q2'), { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'delegate', input: {} }] }],
    'openai-responses': [user('q'), said('a'), user('q2'), { type: 'function_call', call_id: '1', name: 'delegate', arguments: '{}' }],
    'ai-sdk': [user('q'), said('a'), user('q2'), { role: 'assistant', content: [{ type: 'tool-call', toolCallId: '1', toolName: 'delegate', input: {} }] }]
  }
  for (const [format, messages] of Object.entries(formats)) {
    const child = await service.start({ provider: 'fork', task: 'go', parent: { model: 'scripted/demo', transcript: { format, messages } }, agentOptions: { script: [{ say: 'ok' }] } })
    expect([format, child.seed.turns]).toEqual([format, 1])
    await service.result(child.id)
    const log = await service.log(child.id)
    const own = log.findIndex((event) => event.type === 'turn/start' && event.data.origin === 'task')
    const seed = log.slice(0, own)
    expect(seed.at(-1)?.type).toBe('turn/end')
    expect(seed.flatMap((event) => event.type === 'user/message' ? event.data.content : [])).toEqual([text('q')])
    expect(JSON.stringify(seed)).not.toContain('delegate')
    expect(log[own]).toMatchObject({ data: { turn: 2 } })
  }
})

/** Rows of a store that is closed: an open one keeps its file to itself. */
function rows (path: string): { events: number, segments: number } {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const count = (table: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n)
    return { events: count('events'), segments: count('segments') }
  } finally {
    db.close()
  }
}

test.each([1, 60])('3.7 a seed is shared: a fork writes its own events only, after a parent of %i steps too', async (steps) => {
  const path = join(makeFolder(onTestFinished), 'store.db')
  const first = await openDriver(onTestFinished, { path, acts: [...Array.from({ length: steps }, () => calls('nothing')), says('found')] })
  const parent = await first.start()
  await parent.result
  await first.store.close()
  const before = rows(path)
  const second = await openDriver(onTestFinished, { path, acts: [says('a fork'), says('a fork of it')] })
  const child = await fork(second, parent)
  await child.result
  const grandchild = await fork(second, child)
  await grandchild.result
  expect(second.models.requests[1]?.messages).toHaveLength(2 + 2 * steps + 3)
  await second.store.close()
  expect([child.log.own.length, grandchild.log.own.length]).toEqual([8, 8])
  expect(rows(path)).toEqual({ events: before.events + 16, segments: before.segments + 2 })
})

test('3.7 an inline transcript is kept once, for its fork and for every fork of that', async () => {
  const path = join(makeFolder(onTestFinished), 'store.db')
  const service = await startService(onTestFinished, { env: { DATABASE_URL: `sqlite:${path}` } })
  const messages = Array.from({ length: 200 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `message ${i}` }))
  const start = async (parent: object) => {
    const run = await service.start({ provider: 'fork', task: 'go', parent, agentOptions: { script: [{ say: 'ok' }] } })
    await service.result(run.id)
    return run
  }
  const first = await start({ model: 'scripted/demo', transcript: { format: 'openai-chat', messages } })
  const second = await start({ runId: first.id })
  const third = await start({ runId: second.id })
  expect([first, second, third].map((run) => run.seed.turns)).toEqual([100, 101, 102])
  await service.stop()
  expect(rows(path).events).toBe(first.seed.events + 3 * 8)
})

test('3.1 the prefix of a log that grows event by event is the log up to its last turn/end', () => {
  const turn = (n: number): NewEvent[] => [{ type: 'turn/start', data: { turn: n, origin: 'task' } }, { type: 'turn/end', data: { turn: n, reason: 'completed' } }]
  fc.assert(fc.property(fc.integer({ min: 0, max: 5 }), fc.nat(1), (turns, open) => {
    const events = [...Array.from({ length: turns }, (_, i) => turn(i + 1)).flat(), ...turn(9).slice(0, open)].map((event, seq) => ({ ...event, seq, time: 0 }) as SessionEvent)
    expect(completedTurnPrefix(events)).toEqual(events.slice(0, turns * 2))
  }))
})
