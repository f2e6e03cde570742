import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DeltaFeed, type Delta, type DeltaKind, type DeltaPlace, type SnapshotPart } from '../../src/core/deltas.ts'

/** A reader as http-api.md 6.2 tells one to be: it watches, a snapshot replaces what it has, deltas are added. */
function reader (feed: DeltaFeed) {
  feed.onChange(() => {})
  let place: DeltaPlace | undefined
  let parts: SnapshotPart[] = []
  const add = ({ kind, text, toolCallId }: Delta): void => {
    const last = parts.at(-1)
    if (last !== undefined && last.kind === kind && last.toolCallId === toolCallId) last.text += text
    else parts.push({ kind, text, ...toolCallId === undefined ? {} : { toolCallId } })
  }
  return {
    snapshots: 0,
    indexes: [] as number[],
    get parts () { return parts },
    read () {
      const seen = feed.since(place)
      if (seen === undefined) return undefined
      if (seen.snapshot) {
        this.snapshots++
        parts = structuredClone(seen.snapshot.parts)
      }
      for (const delta of seen.deltas) {
        add(delta)
        this.indexes.push(delta.index)
      }
      place = seen.place
      return seen
    }
  }
}

const kind = fc.constantFrom<DeltaKind>('text', 'reasoning', 'tool-arguments')
const push = fc.record({ do: fc.constant('push' as const), kind, text: fc.string({ maxLength: 3 }), call: fc.constantFrom('a', 'b') })
const read = fc.record({ do: fc.constant('read' as const), who: fc.nat(2) })
const begin = fc.record({ do: fc.constant('begin' as const) })
type Action = typeof push extends fc.Arbitrary<infer P> ? P | { do: 'read', who: number } | { do: 'begin' } : never
const actions: fc.Arbitrary<Action[]> = fc.array(fc.oneof({ weight: 8, arbitrary: push }, { weight: 5, arbitrary: read }, { weight: 1, arbitrary: begin }), { maxLength: 60 })

/** What was written since the model call began, adjacent pieces of one kind and call joined. */
function written (pushes: readonly { kind: DeltaKind, text: string, call: string }[]): SnapshotPart[] {
  const parts: SnapshotPart[] = []
  for (const { kind, text, call } of pushes) {
    if (text === '') continue
    const toolCallId = kind === 'tool-arguments' ? { toolCallId: call } : {}
    const last = parts.at(-1)
    if (last?.kind === kind && last.toolCallId === toolCallId.toolCallId) last.text += text
    else parts.push({ kind, text, ...toolCallId })
  }
  return parts
}

test('6.2 whoever reads, whenever and however often, has the text so far after each read', () => {
  fc.assert(fc.property(actions, (list) => {
    const feed = new DeltaFeed()
    const readers = [reader(feed), reader(feed), reader(feed)]
    let attempt = 1
    let pushes: { kind: DeltaKind, text: string, call: string }[] = []
    feed.begin(1, attempt)
    for (const action of list) {
      if (action.do === 'push') {
        pushes.push(action)
        feed.push(action.kind, action.text, action.kind === 'tool-arguments' ? action.call : undefined)
      } else if (action.do === 'begin') {
        pushes = []
        feed.begin(1, ++attempt)
      } else {
        readers[action.who]?.read()
        expect(readers[action.who]?.parts).toEqual(written(pushes))
      }
    }
  }))
})

test('6.2 a reader that follows gets each delta once, in order, and one snapshot at the start', () => {
  fc.assert(fc.property(fc.array(fc.tuple(fc.string({ minLength: 1 }), fc.boolean())), (pieces) => {
    const feed = new DeltaFeed()
    feed.begin(1, 1)
    const follower = reader(feed)
    follower.read()
    for (const [text, reads] of pieces) {
      feed.push('text', text)
      if (reads) follower.read()
    }
    follower.read()
    expect(follower.indexes).toEqual(pieces.map((_, i) => i))
    expect(follower.snapshots).toBe(1)
    expect(follower.read()).toBeUndefined()
  }))
})

test('6.2 who joins in mid-message gets one snapshot that stands for every delta so far', () => {
  const feed = new DeltaFeed()
  feed.begin(2, 1)
  feed.push('reasoning', 'hm')
  feed.push('text', 'a')
  feed.push('text', 'b')
  expect(feed.since(undefined)).toEqual({
    snapshot: { step: 2, attempt: 1, index: 2, parts: [{ kind: 'reasoning', text: 'hm' }, { kind: 'text', text: 'ab' }] },
    deltas: [],
    place: { message: 1, step: 2, attempt: 1, index: 2 }
  })
})

test('6.4 a slow reader gets a snapshot instead of a backlog, and its text is whole', () => {
  const feed = new DeltaFeed()
  feed.begin(1, 1)
  const slow = reader(feed)
  slow.read()
  for (let i = 0; i < 50_000; i++) feed.push('text', String(i % 10))
  const seen = slow.read()
  expect(seen?.snapshot?.index).toBe(49_999)
  expect(seen?.deltas).toEqual([])
  expect(slow.parts).toEqual([{ kind: 'text', text: '0123456789'.repeat(5_000) }])
})

test('6.4 a reader a few thousand deltas behind still gets the deltas, and the feed hands out no more than it keeps', () => {
  const feed = new DeltaFeed()
  feed.begin(1, 1)
  const behind = reader(feed)
  behind.read()
  for (let i = 0; i < 4_000; i++) feed.push('text', 'x')
  expect(behind.read()?.deltas).toHaveLength(4_000)
  for (let i = 0; i < 100_000; i++) feed.push('text', 'x')
  expect(feed.since({ message: 1, step: 1, attempt: 1, index: 90_000 })?.deltas.length ?? 0).toBeLessThanOrEqual(8_192)
})

test('6.2 a new attempt starts with an empty snapshot', () => {
  const feed = new DeltaFeed()
  feed.begin(1, 1)
  const live = reader(feed)
  feed.push('text', 'void')
  live.read()
  feed.begin(1, 2)
  expect(live.read()).toEqual({ snapshot: { step: 1, attempt: 2, index: -1, parts: [] }, deltas: [], place: { message: 2, step: 1, attempt: 2, index: -1 } })
  feed.push('text', 'new')
  live.read()
  expect(live.parts).toEqual([{ kind: 'text', text: 'new' }])
  expect(feed.since({ message: 1, step: 1, attempt: 1, index: 0 })?.snapshot).toBeDefined()
})

test('6.2 a message of a later turn is another one, though its step and attempt are the same', () => {
  const feed = new DeltaFeed()
  const live = reader(feed)
  for (const said of ['first', 'second']) {
    feed.begin(1, 1)
    for (const letter of said) feed.push('text', letter)
    live.read()
    expect(live.parts).toEqual([{ kind: 'text', text: said }])
    feed.end()
  }
  expect(live.indexes).toEqual([0, 1, 2, 3, 4, 5])
})

test('6.2 before a message and after it there is nothing to follow, and what comes late is dropped', () => {
  const feed = new DeltaFeed()
  feed.push('text', 'early')
  expect(feed.since(undefined)).toBeUndefined()
  feed.begin(1, 1)
  feed.push('text', 'a')
  feed.end()
  feed.push('text', 'late')
  expect(feed.since(undefined)).toBeUndefined()
})

test('6.2 a snapshot is the moment it was taken: what is written later does not reach into it', () => {
  const feed = new DeltaFeed()
  feed.begin(1, 1)
  feed.push('text', 'a')
  const taken = feed.since(undefined)
  feed.push('text', 'b')
  expect(taken?.snapshot?.parts).toEqual([{ kind: 'text', text: 'a' }])
})

test('6.2 a reader that saw another message before gets an empty snapshot and each delta, so many at a time as it takes', () => {
  const feed = new DeltaFeed()
  const before = feed.join()
  feed.onChange(() => {})
  feed.begin(1, 1)
  for (const text of ['a', 'b', 'c']) feed.push('text', text)
  expect(feed.join()).toBeUndefined()
  const first = feed.since(before, 2)
  expect(first?.snapshot).toEqual({ step: 1, attempt: 1, index: -1, parts: [] })
  expect(first?.deltas.map(({ index }) => index)).toEqual([0, 1])
  const second = feed.since(first?.place, 2)
  expect([second?.snapshot, second?.deltas.map(({ index }) => index)]).toEqual([undefined, [2]])
  expect(feed.since(second?.place, 2)).toBeUndefined()
})

test('6.4 deltas that nobody watches are not kept: who comes then gets a snapshot', () => {
  const feed = new DeltaFeed()
  const stop = feed.onChange(() => {})
  feed.begin(1, 1)
  feed.push('text', 'a')
  stop()
  feed.push('text', 'b')
  expect(feed.since({ message: 1, step: 1, attempt: 1, index: -1 })).toMatchObject({ snapshot: { index: 1, parts: [{ text: 'ab' }] }, deltas: [] })
})

test('readers are woken by each piece and each attempt until they stop listening', () => {
  const feed = new DeltaFeed()
  let wakes = 0
  const stop = feed.onChange(() => { wakes++ })
  feed.begin(1, 1)
  feed.push('text', 'a')
  feed.push('text', '')
  stop()
  feed.push('text', 'b')
  expect(wakes).toBe(2)
})

test('who is told once is told again after it asked, until it stops; others are told all the while', () => {
  const feed = new DeltaFeed()
  const wakes = { once: 0, always: 0 }
  const once = (): void => { wakes.once++ }
  const stop = feed.onChange(once, true)
  feed.onChange(() => { wakes.always++ })
  feed.begin(1, 1)
  feed.push('text', 'a')
  expect(wakes).toEqual({ once: 1, always: 2 })
  feed.again(once)
  feed.again(once)
  feed.push('text', 'b')
  feed.push('text', 'c')
  expect(wakes).toEqual({ once: 2, always: 4 })
  feed.again(once)
  stop()
  feed.again(once)
  feed.push('text', 'd')
  expect(wakes).toEqual({ once: 2, always: 5 })
})

test('a message of more text than a string holds is shown as far as a bound goes, also to who comes then', () => {
  const feed = new DeltaFeed()
  const large = 'x'.repeat(8 * 1024 * 1024)
  for (const more of [() => large, () => ({ text: large, call: 'a' })]) {
    feed.begin(1, 1)
    for (let i = 0; i < 80; i++) {
      const next = more()
      if (typeof next === 'string') feed.push('text', next)
      else feed.push('tool-arguments', next.text, `${next.call}-${i}`)
    }
    const parts = feed.since(undefined)?.snapshot?.parts ?? []
    expect(parts.reduce((sum, part) => sum + part.text.length, 0)).toBe(3 * large.length)
  }
  feed.begin(2, 1)
  feed.push('text', 'short')
  expect(feed.since(undefined)?.snapshot?.parts).toEqual([{ kind: 'text', text: 'short' }])
})
