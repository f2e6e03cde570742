import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { text, type EventMap, type SessionEvent, type SessionHeader } from '../../src/core/events.ts'
import { SessionLog, type Commit, type SessionLogOptions } from '../../src/core/log.ts'
import { balancedLogs, crashedLogs } from './histories.ts'

const header: SessionHeader = { id: 's', tenant: 't', createdAt: 0 }
const message = (value: string): EventMap['user/message'] => ({ content: [text(value)] })

/** A log over a store whose commits the test lets through, one by one. */
function heldLog (options: Partial<SessionLogOptions> = {}) {
  const commits: { events: readonly SessionEvent[], done: () => void, fail: (error: Error) => void }[] = []
  const faults: unknown[] = []
  const commit: Commit = (events) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    commits.push({ events, done: resolve, fail: reject })
    return promise
  }
  const log = new SessionLog({ header, commit, now: () => 42, onObserverFault: (error) => faults.push(error), ...options })
  return { log, commits, faults }
}

/** A log whose store takes everything at once. */
const freeLog = (options: Partial<SessionLogOptions> = {}): SessionLog =>
  new SessionLog({ header, commit: async () => {}, now: () => 42, onObserverFault: (error) => { throw error }, ...options })

/** Lets everything that waits for no timer and no socket happen. */
const settle = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

function unhandledRejections (): unknown[] {
  const seen: unknown[] = []
  const note = (reason: unknown): void => { seen.push(reason) }
  process.on('unhandledRejection', note)
  onTestFinished(() => { process.off('unhandledRejection', note) })
  return seen
}

const cyclic: Record<string, unknown> = {}
cyclic.self = [cyclic]
class Point { x = 1 }
const refused: [string, unknown][] = [
  ['undefined', undefined], ['NaN', NaN], ['Infinity', Infinity], ['-Infinity', -Infinity], ['-0', -0], ['a BigInt', 1n],
  ['a symbol', Symbol('s')], ['a function', () => 1], ['a cycle', cyclic], ['a class instance', new Point()], ['a Map', new Map()],
  ['a Set', new Set()], ['a Date', new Date(0)], ['a RegExp', /x/], ['bytes', new Uint8Array(1)], ['an Error', new Error('x')],
  ['a boxed number', new Number(1)], ['a hole in an array', Object.assign([], { length: 1 })], ['a promise', Promise.resolve()],
  ['an array with properties', 'x'.match(/x/)], ['a symbol key', { [Symbol('s')]: 1 }]
]

test.for(refused)('2.1 %s anywhere in the data is refused and leaves the log untouched', async ([, value]) => {
  const { log, commits } = heldLog()
  log.append('user/message', message('before'))
  for (const bad of [value, [value], { deep: [{ down: value }] }]) {
    const data = { toolCallId: 'c', name: 'n', input: bad, executor: 'service', idempotent: true } as unknown as EventMap['tool/call']
    expect(() => log.append('tool/call', data)).toThrow(TypeError)
  }
  expect(log.length).toBe(1)
  await settle()
  expect(commits.flatMap(({ events }) => events.map((event) => event.type))).toEqual(['user/message'])
  expect(log.append('user/message', message('after')).seq).toBe(1)
})

test('2.1 a refusal names the event and the place in its data', () => {
  const data = { toolCallId: 'c', name: 'n', input: { a: [1, -0] }, executor: 'service', idempotent: true } as const
  expect(() => freeLog().append('tool/call', { ...data, input: { a: [1, -0] } })).toThrow('tool/call at "/input/a/1": -0 does not survive a JSON round trip')
})

test('2.1 seq is the index from 0, without a gap, and goes on after a seed and after stored events', () => {
  fc.assert(fc.property(balancedLogs, crashedLogs, fc.nat(5), (seed, more, stored) => {
    const own = more.slice(0, stored).map((event, i) => ({ ...event, seq: seed.length + i }))
    const log = freeLog({ seed, own: [...own] })
    log.appendAll(more.slice(stored))
    expect([...log].map((event) => event.seq)).toEqual([...seed, ...more].map((_, i) => i))
    expect([...log].map(({ type, data }) => ({ type, data }))).toEqual([...seed, ...more].map(({ type, data }) => ({ type, data })))
    expect(log.length).toBe(seed.length + more.length)
    expect(log.own).toHaveLength(more.length)
  }))
})

test('2.1 an event carries the time of its append', () => {
  let time = 100
  const log = freeLog({ now: () => time++ })
  log.appendAll([{ type: 'user/message', data: message('a') }, { type: 'user/message', data: message('b') }])
  expect([...log].map((event) => event.time)).toEqual([100, 101])
})

test('3.3 the seed is shared as it is and never written again', async () => {
  const seed: SessionEvent[] = [{ type: 'turn/end', seq: 0, time: 1, data: { turn: 4, reason: 'completed' } }]
  Object.freeze(seed)
  const { log, commits } = heldLog({ seed })
  log.append('user/message', message('own'))
  await settle()
  expect(log.seed).toBe(seed)
  expect(commits.map(({ events }) => events.map((event) => event.seq))).toEqual([[1]])
  expect(log.completedLength).toBe(1)
  expect(log.completedTurns).toBe(4)
})

test('3.1 completed turns of the log itself come before those of the seed', () => {
  const seed: SessionEvent[] = [{ type: 'turn/end', seq: 0, time: 1, data: { turn: 1, reason: 'completed' } }]
  const log = freeLog({ seed })
  log.appendAll([{ type: 'turn/start', data: { turn: 2, origin: 'task' } }, { type: 'turn/end', data: { turn: 2, reason: 'error' } }, { type: 'user/message', data: message('x') }])
  expect([log.completedLength, log.completedTurns]).toEqual([3, 2])
})

test('2.3 what is committed can be had from the log itself: own events after a place, none that is not committed', async () => {
  const seed: SessionEvent[] = [{ type: 'turn/end', seq: 0, time: 1, data: { turn: 1, reason: 'completed' } }]
  const own: SessionEvent[] = [{ type: 'user/message', seq: 1, time: 1, data: message('stored') }]
  const { log, commits } = heldLog({ seed, own: [...own] })
  const from = (seq: number, limit = 10): number[] | undefined => log.committedFrom(seq, limit)?.map((event) => event.seq)
  log.append('user/message', message('a'))
  log.append('user/message', message('b'))
  await settle()
  expect([from(0), from(1), from(2)]).toEqual([undefined, [1], []])
  commits[0]?.done()
  await log.durable()
  log.append('user/message', message('c'))
  await settle()
  expect([from(1), from(2), from(1, 2), from(3), from(4), from(9)]).toEqual([[1, 2, 3], [2, 3], [1, 2], [3], [], []])
  expect(log.committedFrom(1, 1)?.[0]).toBe(own[0])
})

test('2.3 an event is in the fold at once and told only after its commit', async () => {
  const { log, commits } = heldLog()
  const told: number[][] = []
  log.observe((events) => told.push(events.map((event) => event.seq)))
  log.append('user/message', message('a'))
  log.append('user/message', message('b'))
  expect(log.length).toBe(2)
  await settle()
  expect(commits).toHaveLength(1)
  expect(told).toEqual([])
  commits[0]?.done()
  await log.durable()
  expect(told).toEqual([[0, 1]])
})

test('2.3 appends of one tick share a commit, those of the next have their own and wait for no earlier one', async () => {
  const { log, commits } = heldLog()
  log.append('user/message', message('a'))
  log.append('user/message', message('b'))
  await settle()
  log.append('user/message', message('c'))
  await settle()
  expect(commits.map(({ events }) => events.map((event) => event.seq))).toEqual([[0, 1], [2]])
})

test('2.3 observers are told in the order of the log, even where a later commit is reported first', async () => {
  const { log, commits } = heldLog()
  const told: number[] = []
  log.observe((events) => told.push(...events.map((event) => event.seq)))
  log.append('user/message', message('a'))
  await settle()
  log.append('user/message', message('b'))
  await settle()
  commits[1]?.done()
  await settle()
  expect(told).toEqual([])
  commits[0]?.done()
  await log.durable()
  expect(told).toEqual([0, 1])
})

test('2.3 durable waits for everything appended before the call, and resolves at once for an empty log', async () => {
  const { log, commits } = heldLog()
  await log.durable()
  log.append('user/message', message('a'))
  await settle()
  let first = false
  const waiting = log.durable().then(() => { first = true })
  log.append('user/message', message('b'))
  await settle()
  commits[0]?.done()
  await waiting
  expect(first).toBe(true)
  let second = false
  const later = log.durable().then(() => { second = true })
  await settle()
  expect(second).toBe(false)
  commits[1]?.done()
  await later
})

test('2.3 a throwing observer is reported and contained: it fails no append and starves no other', async () => {
  const { log, commits, faults } = heldLog()
  const boom = new Error('observer')
  const told: string[] = []
  log.observe(() => { throw boom })
  log.observe((events) => told.push(...events.map((event) => event.type)))
  log.append('user/message', message('a'))
  await settle()
  commits[0]?.done()
  await expect(log.durable()).resolves.toBeUndefined()
  log.append('user/message', message('b'))
  await settle()
  commits[1]?.done()
  await log.durable()
  expect(faults).toEqual([boom, boom])
  expect(told).toEqual(['user/message', 'user/message'])
})

test('2.3 an observer that stops hears nothing more, and may stop while it is told', async () => {
  const log = freeLog()
  const told: string[] = []
  const stop = log.observe(() => { told.push('once'); stop() })
  log.observe(() => told.push('other'))
  log.append('user/message', message('a'))
  await log.durable()
  log.append('user/message', message('b'))
  await log.durable()
  expect(told).toEqual(['once', 'other', 'other'])
})

test('a lost store: durable rejects for ever after, nobody is told of anything since, and no rejection goes unhandled', async () => {
  const unhandled = unhandledRejections()
  const { log, commits } = heldLog()
  const told: number[] = []
  log.observe((events) => told.push(...events.map((event) => event.seq)))
  const lost = new Error('store lost')
  log.append('user/message', message('a'))
  await settle()
  commits[0]?.done()
  await log.durable()
  log.append('user/message', message('b'))
  log.append('user/message', message('c'))
  await settle()
  commits[1]?.fail(lost)
  await settle()
  await expect(log.durable()).rejects.toBe(lost)
  log.append('user/message', message('d'))
  await settle()
  expect(commits).toHaveLength(2)
  await expect(log.durable()).rejects.toBe(lost)
  expect(told).toEqual([0])
  expect(unhandled).toEqual([])
})

test('a commit that was under way when an earlier one failed is not told of: a log has no gap', async () => {
  const { log, commits } = heldLog()
  const told: number[] = []
  log.observe((events) => told.push(...events.map((event) => event.seq)))
  log.append('user/message', message('a'))
  await settle()
  log.append('user/message', message('b'))
  await settle()
  commits[0]?.fail(new Error('store lost'))
  commits[1]?.done()
  await expect(log.durable()).rejects.toThrow('store lost')
  expect(told).toEqual([])
})

test('3.7 a seed may come later: events have their place at once, the history is whole once the seed is attached', () => {
  const seed: SessionEvent[] = [{ type: 'turn/end', seq: 0, time: 1, data: { turn: 3, reason: 'completed' } }]
  const log = freeLog({ laterSeed: { length: 1, turns: 3 } })
  expect(log.append('user/message', message('own')).seq).toBe(1)
  expect([log.length, log.completedLength, log.completedTurns]).toEqual([2, 1, 3])
  expect(() => [...log]).toThrow('not attached')
  expect(() => log.attachSeed([])).toThrow('a seed of 1 events came with 0')
  log.attachSeed(seed)
  expect([...log].map((event) => event.seq)).toEqual([0, 1])
  expect(log.seed).toBe(seed)
})

test('a commit that throws instead of rejecting counts as a lost store', async () => {
  const unhandled = unhandledRejections()
  const log = freeLog({ commit: () => { throw new Error('store lost') } })
  expect(log.append('user/message', message('a')).seq).toBe(0)
  await expect(log.durable()).rejects.toThrow('store lost')
  log.append('user/message', message('b'))
  await settle()
  expect(unhandled).toEqual([])
})
