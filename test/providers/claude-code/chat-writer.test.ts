import { expect, test } from 'vitest'
import type { SessionEvent } from '../../../src/core/events.ts'
import { SessionLog } from '../../../src/core/log.ts'
import type { Observation } from '../../../src/core/store.ts'
import { ChatWriter } from '../../../src/providers/claude-code/chat-writer.ts'

const settle = (): Promise<void> => new Promise((resolve) => { setImmediate(() => setImmediate(resolve)) })

/** A chat of two logs, each line of which makes one event. */
function chat () {
  const observed: Observation[] = []
  const writer = new ChatWriter({ observe: async (observation) => { observed.push(observation); return new Map() } }, { tenant: 't', id: 'a', lines: 0 })
  const logs = new Map(['a', 'b'].map((id) => [id, new SessionLog({
    header: { id, tenant: 't', createdAt: 0 }, now: () => 0, onObserverFault: () => {},
    commit: async (events) => { await writer.hand({ id, events }) }
  })]))
  let lines = 0
  const take = (id: string): void => {
    logs.get(id)?.append('user/message', { content: [{ type: 'text', text: `${lines}` }] })
    writer.note(id)
    writer.journal([`${lines++}`])
  }
  return { observed, take, writer }
}

test('a line and what it made are one write, however close behind another line it comes', async () => {
  for (const [first, second] of [['a', 'a'], ['a', 'b'], ['b', 'a'], ['b', 'b']] as const) {
    for (let microtasks = 0; microtasks < 12; microtasks++) {
      const { observed, take, writer } = chat()
      take(first)
      for (let i = 0; i < microtasks; i++) await Promise.resolve()
      take(second)
      await settle()
      await writer.written()
      const told = observed.map(({ frames, writes }) => ({ lines: frames?.lines ?? [], events: writes.flatMap(({ events }) => events.map((event) => (event.data as { content: { text: string }[] }).content[0]?.text)) }))
      for (const { lines, events } of told) expect([microtasks, events]).toEqual([microtasks, lines])
      expect(told.flatMap(({ lines }) => lines)).toEqual(['0', '1'])
      expect(observed.flatMap(({ writes }) => writes.map(({ id }) => id)).join('')).toBe(first === second && observed.length === 1 ? first : first + second)
    }
  }
})

test('events of several runs keep their order in a write, and a run\'s patch goes with its last piece', async () => {
  const { observed, take, writer } = chat()
  for (const id of ['a', 'b', 'b', 'a', 'b']) take(id)
  void writer.hand({ id: 'b', events: [], patch: { status: 'idle' } })
  await settle()
  expect(observed.map(({ writes }) => writes.map(({ id, events, patch }) => [id, events.map(({ seq }) => seq), patch?.status]))).toEqual([
    [['a', [0], undefined], ['b', [0, 1], undefined], ['a', [1], undefined], ['b', [2], 'idle']]
  ])
})

test('what a write that failed took with it is told, and no later line is taken for known', async () => {
  const lost: unknown[] = []
  const writer = new ChatWriter({ observe: async () => { throw new Error('disk full') } }, { tenant: 't', id: 'a', lines: 0 })
  writer.onLost = (error) => lost.push(error)
  writer.journal(['0'])
  await expect(writer.written()).rejects.toThrow('disk full')
  expect(lost).toMatchObject([{ message: 'disk full' }])
})

test('S1 a run may hand over more events than a call takes arguments, and in as many turns with another', async () => {
  const observed: Observation[] = []
  const writer = new ChatWriter({ observe: async (observation) => { observed.push(observation); return new Map() } }, { tenant: 't', id: 'a', lines: 0 })
  const events = Array.from({ length: 200_000 }, (_, seq) => ({ type: 'step/end', seq, time: 0, data: { turn: 1, step: seq } }) as SessionEvent)
  for (let i = 0; i < events.length; i++) for (const id of ['a', 'b']) writer.note(id)
  for (const id of ['a', 'b']) for (const half of [events.slice(0, 1), events.slice(1)]) void writer.hand({ id, events: half })
  const began = performance.now()
  await writer.written()
  expect(performance.now() - began).toBeLessThan(5000)
  expect(observed[0]?.writes.length).toBe(400_000)
  expect(observed[0]?.writes.slice(-2).map((write) => [write.id, write.events[0]?.seq])).toEqual([['a', 199_999], ['b', 199_999]])
})

test('S1 a throw where a write is made rejects that write, as one of the store does', async () => {
  const lost: unknown[] = []
  const writer = new ChatWriter({ observe: () => { throw new RangeError('too large') } }, { tenant: 't', id: 'a', lines: 0 })
  writer.onLost = (error) => lost.push(error)
  await expect(writer.hand({ id: 'a', events: undefined as never })).rejects.toThrow(TypeError)
  await expect(writer.hand({ id: 'a', events: [] })).rejects.toThrow('too large')
  expect(lost).toHaveLength(2)
})
