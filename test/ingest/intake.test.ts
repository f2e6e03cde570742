import { expect, onTestFinished, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import { CancelReason, type FrameSink, type LiveRun } from '../../src/core/live.ts'
import type { Observation } from '../../src/core/store.ts'
import { resumeIngest, startIngest, storedOf } from '../../src/providers/claude-code/ingest.ts'
import type { ExternalOptions } from '../../src/providers/claude-code/external-run.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { agentCall, assistant, init, notified, replay, result, words } from '../providers/claude-code/play.ts'
import { newId, publication, T } from '../store/support.ts'
import { linesOf } from './chats.ts'

const bytes = (text: string): Buffer => Buffer.from(text)
const opening = linesOf(init(), replay('u-1', 'go'), agentCall('a-1'))

/** A chat over a store of its own, whose writes a test may hold or fail. */
async function room () {
  const real = await openSqliteStore({ path: ':memory:', now: () => 1 })
  onTestFinished(() => real.close())
  const live = new Set<LiveRun>()
  const faults: string[] = []
  const writes = { before: async (_: Observation): Promise<void> => {} }
  const clock = { now: () => 1 }
  const options: ExternalOptions = {
    store: { ...real, observe: async (observation) => { await writes.before(observation); return await real.observe(observation) } },
    now: () => clock.now(), newId, retentionMs: 1000, maxDepth: 8,
    announce: (run) => { live.add(run) },
    retire: (run) => { live.delete(run) },
    onFault: (message) => { faults.push(message) },
    reserve: () => { throw new Error('an observed run takes no slot') }
  }
  const made = publication({ run: { provider: 'claude-code', status: 'idle', external: { framesAccepted: 0 } } })
  made.spec.external = { way: 'ingest', nonce: newId() }
  const place = await real.publish(made)
  const run = startIngest(options, { publication: made, place, task: [], signal: new AbortController().signal })
  const open = (from: number, of: LiveRun = run): Promise<FrameSink> => of.frames?.open(from) ?? Promise.reject(new Error('no way in'))
  const post = async (from: number, text: string, last = false): Promise<number> => {
    const sink = await open(from)
    await sink.push(bytes(text))
    return await sink.end(last)
  }
  return { real, options, run, live, faults, writes, clock, open, post, id: made.run.id }
}

test('ingest: an end that is said again while the first one is being written waits for that', async () => {
  const { post, run, writes } = await room()
  await post(0, opening + linesOf(result()))
  const written = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  writes.before = async () => { reached.resolve(); await written.promise }
  const first = post(4, '', true)
  await reached.promise
  let told = false
  const again = post(3, linesOf(result()), true).finally(() => { told = true })
  await expect(post(4, linesOf(result()))).rejects.toMatchObject({ code: 'RUN_SETTLED' })
  await expect(post(5, '')).rejects.toMatchObject({ code: 'RUN_SETTLED' })
  expect(told).toBe(false)
  written.resolve()
  expect(await Promise.all([first, again])).toEqual([4, 4])
  expect(await run.result).toMatchObject({ stopReason: 'completed' })
})

test('ingest: nothing is acknowledged before it is durable, and an end not before its run has settled', async () => {
  const { post, real, id } = await room()
  expect(await post(0, opening)).toBe(3)
  expect(await real.getRun(T, id)).toMatchObject({ status: 'running', external: { framesAccepted: 3 } })
  expect(await post(3, linesOf(assistant(words('x'), { tag: 'a-1' }), result()), true)).toBe(5)
  expect(await real.getRun(T, id)).toMatchObject({ status: 'settled', external: { framesAccepted: 5 } })
  expect(await real.runningChildren(T, [id])).toEqual(new Map([[id, 0]]))
})

test('ingest: lines of a write that failed are never acknowledged: the chat is left to the next start, which takes them then', async () => {
  const { post, real, run, live, writes, options, open, id } = await room()
  await post(0, opening)
  writes.before = async () => { throw refuse('STORE_UNAVAILABLE', { retryAfter: 5 }) }
  const lost = linesOf(assistant(words('lost?'), { tag: 'a-1' }))
  await expect(post(3, lost)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  writes.before = async () => {}
  await expect(post(3, lost)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  await run.stopped
  expect([...live]).toEqual([])
  const [record, spec] = [await real.getRun(T, id), await real.getSpec(T, id)]
  if (!record || !spec) throw new Error('the chat is gone')
  const session = await real.getSession(T, id)
  const again = resumeIngest(options, { record, spec, header: session?.header ?? { id, tenant: T, createdAt: 0 }, stored: storedOf(session as never) })
  const sink = await open(3, again)
  await sink.push(bytes(lost + linesOf(notified('t', 'completed', { tool_use_id: 'a-1' }), result())))
  expect(await sink.end(true)).toBe(6)
  const [child] = await real.descendants(T, id)
  expect(child).toMatchObject({ status: 'settled', stopReason: 'completed', result: { output: [{ text: 'lost?' }] } })
  expect((await real.readEvents(child?.segment ?? 0, 0)).map(({ seq }) => seq)).toEqual([...Array(child ? 7 : 0).keys()])
})

test('5.2 a chat that is cancelled while its journal is read again ends as soon as it was', async () => {
  const { post, real, options, open, id } = await room()
  await post(0, opening)

  const [record, spec, session] = await Promise.all([real.getRun(T, id), real.getSpec(T, id), real.getSession(T, id)])
  if (!record || !spec || !session) throw new Error('the chat is gone')
  const again = resumeIngest(options, { record, spec, header: session.header, stored: storedOf(session) })

  again.abort(new CancelReason('request', 'enough'))
  await expect(open(3, again)).resolves.toBeDefined()
  expect(await again.result).toMatchObject({ stopReason: 'aborted' })
  expect(await real.descendants(T, id)).toMatchObject([{ status: 'settled', stopReason: 'aborted' }])
})

test('ingest: a line that meets a fault of ours ends its chat: it is taken, and to send it again is answered for good', async () => {
  const { post, real, run, clock, id } = await room()
  await post(0, opening)
  clock.now = () => { clock.now = () => 1; throw new RangeError('too much') }
  const poison = linesOf(assistant(words('x'), { tag: 'a-1', message: { id: 'm', content: [words('x')], stop_reason: 'end_turn' } }))
  await expect(post(3, poison)).rejects.toThrow('too much')
  expect(await run.result).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL' } })
  expect(await post(3, poison)).toBe(4)
  await expect(post(3, poison + linesOf(result()))).rejects.toMatchObject({ code: 'RUN_SETTLED' })
  expect(await real.getRun(T, id)).toMatchObject({ status: 'settled', external: { framesAccepted: 4 } })
  expect(await real.runningChildren(T, [id])).toEqual(new Map([[id, 0]]))
})

test('A3 the row bears the CLI\'s session from the first frame that tells it, before init', async () => {
  const { post, real, id } = await room()
  await post(0, linesOf({ type: 'command_lifecycle', command_uuid: 'u-1', state: 'queued', session_id: 's-9' }))
  expect(await real.getRun(T, id)).toMatchObject({ external: { id: 's-9' } })
})
