import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { completedLength, completedTurns } from '../../src/core/prefix.ts'
import type { Store } from '../../src/core/store.ts'
import type { NewStore } from './contract.ts'
import { at, childOf, publish, type Published, said, settle, T, turn } from './support.ts'

/** What a store must hold, kept in plain memory: whole logs, copied. */
interface ModelRun { run: Published, parent: string | null, log: SessionEvent[], settled: boolean }
interface Model { runs: ModelRun[], order: { runId: string, event: SessionEvent }[], store: Store, pending: Promise<unknown>[] }

type Step = (model: Model, pick: (n: number) => number) => Promise<void>

const add = (model: Model, owner: ModelRun, events: SessionEvent[]): void => {
  owner.log.push(...events)
  model.order.push(...events.map((event) => ({ runId: owner.run.id, event })))
}

const STEPS: Record<string, Step> = {
  async spawn (model, pick) {
    const parent = model.runs[pick(model.runs.length)]
    const child = parent !== undefined && pick(2) === 0
    const run = await publish(model.store, child ? { run: childOf(parent.run) } : {})
    model.runs.push({ run, parent: child ? parent.run.id : null, log: [], settled: false })
  },
  async fork (model, pick) {
    const parent = model.runs[pick(model.runs.length)]
    if (!parent) return
    const length = pick(parent.log.length + 1)
    const run = await publish(model.store, { run: childOf(parent.run), seed: { segment: parent.run.segment, length } })
    expect(run.firstSeq).toBe(length)
    model.runs.push({ run, parent: parent.run.id, log: parent.log.slice(0, length), settled: false })
  },
  async transcript (model, pick) {
    const events = [...turn(1), ...turn(2)].slice(0, 3 + pick(4))
    const run = await publish(model.store, { seed: { events } })
    model.runs.push({ run, parent: null, log: at(0, events, 1_000_000), settled: false })
  },
  async append (model, pick) {
    const owner = model.runs[pick(model.runs.length)]
    if (!owner || owner.settled) return
    const added = pick(2) === 0 ? turn(completedTurns(owner.log) + 1) : [said('a'), said('b')].slice(pick(2))
    const events = at(owner.log.length, added)
    model.pending.push(model.store.append({ segment: owner.run.segment, events }))
    add(model, owner, events)
  },
  async settle (model, pick) {
    const owner = model.runs[pick(model.runs.length)]
    if (!owner || owner.settled) return
    const seq = owner.log.length
    await settle(model.store, owner.run, seq)
    add(model, owner, await model.store.readEvents(owner.run.segment, seq))
    expect(owner.log).toHaveLength(seq + 1)
    owner.settled = true
  },
  async forget (model, pick) {
    const gone = model.runs[pick(model.runs.length)]
    if (!gone?.settled) return
    model.pending.push(model.store.deleteRuns(T, [gone.run.id]))
    model.runs.splice(model.runs.indexOf(gone), 1)
  },
  async sweep (model) {
    expect(await model.store.sweep(0)).toBe(0)
  }
}

const OFTEN = ['spawn', 'fork', 'fork', 'transcript', 'append', 'append', 'append', 'settle', 'forget', 'sweep']

async function check ({ runs, order, store, pending }: Model, page: number): Promise<void> {
  await Promise.all(pending)
  for (const { run, log } of runs) {
    expect(await store.readEvents(run.segment, 0)).toEqual(log)
    expect(await store.getSession(T, run.sessionId)).toMatchObject({
      length: log.length, completedLength: completedLength(log), turns: completedTurns(log)
    })
    const tree = new Set([run.id])
    for (const other of runs) if (other.parent !== null && tree.has(other.parent)) tree.add(other.run.id)
    const read = []
    for (let pos = 0; ;) {
      const events = await store.readTree(T, run.id, pos, page)
      read.push(...events)
      pos = events.at(-1)?.pos ?? pos
      if (events.length < page) break
    }
    expect(read.map(({ runId, event }) => ({ runId, event }))).toEqual(order.filter(({ runId }) => tree.has(runId)))
  }
}

export function describeModel (name: string, newStore: NewStore): void {
  describe(`${name}: against a model`, () => {
    test('3.7 whatever is appended, forked, settled, deleted and swept: each log left is what copies would hold', async () => {
      await fc.assert(fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom(...OFTEN), fc.infiniteStream(fc.nat())), { minLength: 5, maxLength: 60 }),
        fc.integer({ min: 1, max: 7 }),
        async (steps, page) => {
          const model: Model = { runs: [], order: [], store: await newStore(), pending: [] }
          for (const [step, numbers] of steps) {
            await STEPS[step]?.(model, (n) => n === 0 ? 0 : (numbers.next().value ?? 0) % n)
          }
          await check(model, page)
          await model.store.close()
        }
      ), { numRuns: 40 })
    })
  })
}
