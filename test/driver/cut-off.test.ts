import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { text, type SessionEvent } from '../../src/core/events.ts'
import type { Append, Publication, Store } from '../../src/core/store.ts'
import { openTurn } from '../../src/core/turn.ts'
import type { ChildRun } from '../../src/driver/child-run.ts'
import { openDriver, type RequestChanges, type Room } from '../support/driver-room.ts'
import { callsAll, fails, says, type Act } from '../support/recording-model.ts'
import { serviceTool } from '../support/service-tool.ts'

/** A run is cut off after each of its writes in turn, as a crash would, and taken up from what the store then holds (driver.md 2.8). */

const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
const hostTools = [{ name: 'ask', description: '', inputSchema: {} }]
const tools = () => [serviceTool('idem'), serviceTool('once', () => 'once ran', { idempotent: false })]

interface Scenario { name: string, acts: Act[], request?: RequestChanges, host?: true }
const SCENARIOS: Scenario[] = [
  { name: 'tools', acts: [callsAll([{ name: 'idem' }, { name: 'once' }, { name: 'nope' }], { text: 'hm' }), says('final')] },
  { name: 'host tools', acts: [callsAll([{ name: 'ask' }, { name: 'ask' }, { name: 'idem' }]), says('final')], request: { service: { hostTools } }, host: true },
  {
    name: 'structured output',
    acts: [callsAll([{ name: 'idem' }, { name: 'structured_output', input: { n: 'x' } }, { name: 'structured_output', input: { n: 1 } }, { name: 'once' }])],
    request: { outputSchema }
  },
  { name: 'a retry', acts: [fails('MODEL_ERROR', { retryable: true, retryAfterMs: 1 }), says('final')] },
  { name: 'the token cap', acts: [says('cut', { stop: 'max-tokens' })] },
  { name: 'a refusal', acts: [says('no', { stop: 'refusal' })] },
  { name: 'an error with partial text', acts: [fails('MODEL_ERROR', { text: 'partial', retryable: false })] },
  { name: 'an empty answer', acts: [says('')] },
  { name: 'a limit', acts: [callsAll([{ name: 'idem' }])], request: { service: { limits: { steps: 1 } } } }
]

const answerHost = async (run: ChildRun): Promise<void> => {
  while (run.projection.record.status !== 'settled') {
    const answers = run.hostCalls.pending().map(({ toolCallId }) => ({ toolCallId, content: [text('host says')], isError: false }))
    run.hostCalls.answer(answers.slice(0, 1))
    await turn()
  }
}

/** The run whole, and what it wrote. */
async function whole ({ acts, request, host }: Scenario) {
  const appends: Append[] = []
  let publication: Publication | undefined
  const recording = (real: Store): Store => ({
    ...real,
    publish (made) { publication = structuredClone(made); return real.publish(made) },
    append (made) { appends.push(structuredClone(made)); return real.append(made) }
  })
  const room = await openDriver(onTestFinished, { acts, tools: tools(), store: recording })
  const run = await room.start(request)
  if (host) await answerHost(run)
  return { result: await run.result, asked: room.models.requests.length, appends, publication: publication as Publication }
}

const isCall = (event: SessionEvent): boolean => event.type === 'run/retry' || event.type === 'assistant/message'

async function takenUp ({ acts, host }: Scenario, publication: Publication, written: Append[]): Promise<{ room: Room, run: ChildRun, onceRan: number }> {
  const again = tools()
  const made = written.flatMap(({ events }) => events).filter(isCall).length
  const room = await openDriver(onTestFinished, { acts: [...acts.slice(made), says('asked once too often')], tools: again })
  const { segment } = await room.store.publish(publication)
  for (const append of written) await room.store.append({ ...append, segment })
  const record = (await room.store.unsettledRuns())[0]
  const spec = record && await room.store.getSpec('default', record.id)
  if (!record || !spec) throw new Error('nothing is open')
  const run = await room.driver.resumeInProcessRun(record, spec) as ChildRun
  if (host) await answerHost(run)
  await run.result
  return { room, run, onceRan: again[1]?.inputs.length ?? 0 }
}

test.for(SCENARIOS)('2.8 a run with $name ends the same, wherever a crash cuts it off', async (scenario) => {
  const { result, asked, appends, publication } = await whole(scenario)
  for (let n = 0; n < appends.length; n++) {
    const written = appends.slice(0, n)
    if (written.some(({ events }) => events.some(({ type }) => type === 'run/settled'))) break
    const events = written.flatMap((append) => append.events)
    const { room, run, onceRan } = await takenUp(scenario, publication, written)
    const { stopReason, output, structured } = await run.result
    const log = await room.log(run)
    const at = `after ${events.at(-1)?.type ?? 'publication'}`
    expect([at, { stopReason, output, structured }]).toEqual([at, { stopReason: result.stopReason, output: result.output, structured: result.structured }])
    expect([at, room.models.requests.length]).toEqual([at, asked - events.filter(isCall).length])
    expect([at, openTurn(log)]).toEqual([at, undefined])
    for (const { messages } of room.models.requests) expect([at, messages.at(-1)?.role]).not.toEqual([at, 'assistant'])
    if (events.some((event) => event.type === 'tool/call' && event.data.name === 'once')) expect([at, onceRan]).toEqual([at, 0])
    const calls = log.flatMap((event) => event.type === 'assistant/message' ? event.data.content.flatMap((part) => part.type === 'tool-call' ? [part.toolCallId] : []) : [])
    const results = log.flatMap((event) => event.type === 'tool/result' ? [event.data.toolCallId] : [])
    expect([at, results.toSorted()]).toEqual([at, calls.toSorted()])
    expect(room.faults).toEqual([])
  }
})
