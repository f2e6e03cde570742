import { expect, onTestFinished, test, vi } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { foldMessages } from '../../src/core/fold.ts'
import { SuspendReason } from '../../src/core/live.ts'
import { SessionLog } from '../../src/core/log.ts'
import type { ToolProgress } from '../../src/core/tool.ts'
import type { Agent } from '../../src/loop/agent.ts'
import { executeTool } from '../../src/loop/execution.ts'
import { expectNothingLeft, openDriver, timers } from '../support/driver-room.ts'
import { calls, says } from '../support/recording-model.ts'
import { serviceTool, untilAborted } from '../support/service-tool.ts'

/** An execution under way that tells of its progress whenever the test wants; what the log has of it. */
async function underWay () {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => { vi.useRealTimers() })
  const header = { id: 's', tenant: 't', createdAt: 0 }
  const log = new SessionLog({ header, commit: () => Promise.resolve(), now: () => 0, onObserverFault: (error) => { throw error } })
  const agent = { runId: 'r', tenant: 't', limits: {}, log } as unknown as Agent
  const controller = new AbortController()
  const done = Promise.withResolvers<string>()
  const tool = serviceTool('work', (input, context) => Promise.race([done.promise, untilAborted(input, context)]))
  const outcome = executeTool(agent, tool, { toolCallId: 'c', name: 'work', input: {} }, controller.signal)
  const tell = (...news: ToolProgress[]): void => { for (const each of news) tool.contexts[0]?.progress?.(each) }
  const finish = async (): Promise<void> => {
    done.resolve('ok')
    await outcome
  }
  return { tell, finish, abort: (reason: Error) => { controller.abort(reason) }, told: () => log.own.map(({ type, data }) => ({ type, ...data })) }
}
const at = (progress: number, more: object = {}): object => ({ type: 'tool/progress', toolCallId: 'c', progress, ...more })

test('progress is logged at once, then at most once a second with what is newest, and the last of it before the result', async () => {
  const { tell, told, finish } = await underWay()
  tell({ progress: 1, total: 9, message: 'begun' })
  expect(told()).toEqual([at(1, { total: 9, message: 'begun' })])
  tell({ progress: 2 }, { progress: 3 })
  vi.advanceTimersByTime(999)
  expect(told()).toHaveLength(1)
  vi.advanceTimersByTime(1)
  expect(told().slice(1)).toEqual([at(3)])
  vi.advanceTimersByTime(5000)
  tell({ progress: 4 }, { progress: 5 })
  expect(told().slice(2)).toEqual([at(4)])
  await finish()
  expect(told().slice(3)).toEqual([at(5)])
  expect(vi.getTimerCount()).toBe(0)
  tell({ progress: 6 })
  expect(told()).toHaveLength(4)
})

test('a chatty tool adds one event a second', async () => {
  const { tell, told, finish } = await underWay()
  for (let ms = 0; ms < 10_000; ms++) {
    tell({ progress: ms })
    vi.advanceTimersByTime(1)
  }
  await finish()
  expect(told()).toHaveLength(11)
  expect(told().at(-1)).toEqual(at(9999))
})

test.for([
  ['of a call that is aborted the last progress is logged', new Error('enough'), [at(1), at(2)]],
  ['2.8 after a suspension no progress is logged', new SuspendReason(), [at(1)]]
] as const)('%s', async ([, reason, expected]) => {
  const { tell, told, finish, abort } = await underWay()
  tell({ progress: 1 }, { progress: 2 })
  abort(reason)
  tell({ progress: 3 })
  expect(told()).toEqual(expected)
  await finish()
  expect(told()).toEqual(expected)
  expect(vi.getTimerCount()).toBe(0)
})

test('news that no log can hold is dropped, a long message is cut', async () => {
  const { tell, told, finish } = await underWay()
  tell({ progress: Infinity }, { progress: 1, total: NaN }, { progress: 1, message: 'ä'.repeat(10_000) })
  await finish()
  expect(told()).toEqual([at(1, { message: expect.stringMatching(/^ä+\n\[\.\.\. \d+ of 20000 bytes are missing here \.\.\.\]\nä+$/) })])
  expect(Buffer.byteLength((told()[0] as unknown as { message: string }).message)).toBeLessThanOrEqual(1000)
})

test('2.6 the model does not see progress; a turn with it leaves nothing behind', async () => {
  const tool = serviceTool('work', (_, { progress }) => {
    progress?.({ progress: 1 })
    progress?.({ progress: 2 })
    return 'worked'
  })
  const room = await openDriver(onTestFinished, { tools: [tool], acts: [calls('work'), says('done')] })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ signal })
  await run.result
  const log = await room.log(run)
  expect(log.flatMap(({ type }) => type.startsWith('tool/') ? [type] : [])).toEqual(['tool/call', 'tool/progress', 'tool/progress', 'tool/result'])
  const without: SessionEvent[] = log.filter(({ type }) => type !== 'tool/progress')
  expect(foldMessages(log)).toEqual(foldMessages(without))
  expect(room.models.requests[1]?.messages).toEqual(foldMessages(without).slice(0, 3))
  await expectNothingLeft(room, run, { signal, timers: before })
})
