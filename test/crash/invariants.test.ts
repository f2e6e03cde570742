import { expect, test } from 'vitest'
import type { Facts, RunFacts } from './facts.ts'
import type { Host, Seen } from './host.ts'
import { violationsOf } from './invariants.ts'
import type { Message, World } from './world.ts'

/** The checks of the crash harness, each shown to fail: one that cannot tells nothing. */
interface Case { run: RunFacts, host: Host, asked: Message[][], facts: Facts }

const RESULT = { stopReason: 'completed', output: [{ text: 'done' }], structured: null, error: null, usage: {} }
const log = (): Seen[] => [
  ['turn/start', {}], ['step/start', {}], ['assistant/message', {}], ['tool/call', { toolCallId: 'c1' }], ['tool/result', { toolCallId: 'c1' }], ['step/end', {}],
  ['user/message', { messageId: 'm1' }], ['turn/end', {}], ['run/settled', RESULT]
].map(([type, data], seq) => ({ runId: 'r1', seq, type: type as string, data }))

function sound (): Case {
  const run = {
    id: 'r1', status: 'settled', stopReason: 'completed', error: null, label: null, createdAt: '', continues: null, parent: { runId: null }, rootId: 'r1',
    metadata: { key: 'k' }, seed: { events: 0 }, cancel: { reason: 'r' }, runningChildren: 0, result: RESULT, listed: { ...RESULT }, text: 'done', structured: null,
    events: log(), streamed: log(), toolResult: () => ({ text: 'kept', isError: false }), told: () => 0
  } as RunFacts & { listed: unknown }
  const host = {
    readers: [{ id: 'r1', tree: false, events: log(), done: Promise.resolve(''), tries: 1 }, { id: 'r1', tree: true, events: log(), done: Promise.resolve(''), tries: 1 }],
    told: {
      runs: new Set(['r1']), results: [{ id: 'r1', body: { ...RESULT } }], cancels: new Set(['r1']), deleted: new Set<string>(),
      answers: [{ id: 'r1', toolCallId: 'c1', content: 'kept' }], messages: [{ id: 'r1', messageId: 'm1' }]
    }
  } as unknown as Host
  const runs = [run]
  const facts = { runs, byId: (id: string) => runs.find((each) => each.id === id), byKey: () => runs } as unknown as Facts
  return { run, host, asked: [[{ role: 'user', content: 'a' }], [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }]], facts }
}

const judged = ({ facts, host, asked }: Case): string[] => violationsOf(facts, host, { asked: () => asked } as unknown as World)
const change = (events: Seen[], at: number, ...by: Seen[]): void => { events.splice(at, 1, ...by) }
const event = (events: Seen[], at: number): Seen => events[at] as Seen

test('a sound end has no violation', () => { expect(judged(sound())).toEqual([]) })

test.for<[string, RegExp, (of: Case) => void]>([
  ['an open run', /is running in the end/, ({ run }) => { run.status = 'running' }],
  ['two ends', /settles 2 times/, ({ run }) => { run.events.push({ ...event(run.events, 8), seq: 9 }) }],
  ['another end in the row', /ended aborted, and completed/, ({ run }) => { run.stopReason = 'aborted' }],
  ['another end in the list', /list has another end/, ({ run }) => { Object.assign(run, { listed: { ...RESULT, stopReason: 'error' } }) }],
  ['another end in the log', /log of .* has another end/, ({ run }) => { event(run.events, 8).data = { ...RESULT, output: [] } }],
  ['a running child', /has 1 running children/, ({ run }) => { run.runningChildren = 1 }],
  ['a hole in the log', /has event 4 where 3 follows/, ({ run }) => change(run.events, 3)],
  ['an event twice', /has event 3 where 4 follows/, ({ run }) => change(run.events, 3, event(run.events, 3), event(run.events, 3))],
  ['a stream unlike the pages', /other events than its pages/, ({ run }) => change(run.streamed, 3)],
  ['a call without a result', /not balanced: 1 starts of c1, 0 results/, ({ run }) => { event(run.events, 4).type = 'run/retry' }],
  ['a result twice', /not balanced: 2 results of c1/, ({ run }) => { Object.assign(event(run.events, 2), { type: 'tool/result', data: { toolCallId: 'c1' } }) }],
  ['an open step', /not balanced/, ({ run }) => { event(run.events, 5).type = 'run/retry' }],
  ['a request that rewrites history', /changes what an earlier one said/, ({ asked }) => { asked[0] = [{ role: 'user', content: 'other' }] }],
  ['a reader that missed an event', /^a reader of/, ({ host }) => change((host.readers[0] as { events: Seen[] }).events, 3)],
  ['a tree reader that got one twice', /a tree reader of/, ({ host }) => { const { events } = host.readers[1] as { events: Seen[] }; change(events, 3, event(events, 3), event(events, 3)) }],
  ['a lost run', /acknowledged run r2 is gone/, ({ host }) => { host.told.runs.add('r2') }],
  ['a deleted run', /deleted run r1 is back/, ({ host }) => { host.told.deleted.add('r1') }],
  ['a result that changed', /was another one before a crash/, ({ host }) => { host.told.results[0] = { id: 'r1', body: { ...RESULT, output: [] } } }],
  ['a lost cancellation', /cancellation of r1 is lost/, ({ run }) => { run.cancel = null }],
  ['a lost answer', /answer to c1 of r1 is lost/, ({ run }) => { run.toolResult = () => undefined }],
  ['a lost message', /message to r1 is in its log 0 times/, ({ run }) => { event(run.events, 6).data = {} }]
])('%s is a violation', ([, violation, spoil]) => {
  const spoiled = sound()
  spoil(spoiled)
  expect(judged(spoiled)).toContainEqual(expect.stringMatching(violation))
})
