import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import type { Agent, Execution } from '../../src/loop/agent.ts'
import { executeTool } from '../../src/loop/execution.ts'
import { together } from '../../src/loop/together.ts'
import { timers } from '../support/driver-room.ts'
import { never, serviceTool, untilAborted } from '../support/service-tool.ts'

const agent = { runId: 'r', tenant: 't', limits: { toolTimeoutMs: 60_000 } } as Agent
const execution: Execution = { toolCallId: 'c', name: 'look', input: {} }

test.each([
  ['that answers', serviceTool('look'), undefined, false],
  ['that throws', serviceTool('look', () => { throw new Error('it broke') }), undefined, true],
  ['that is aborted', serviceTool('look', untilAborted), new Error('enough'), true],
  ['that is deaf', serviceTool('look', never), 'no error', true]
])('5.4 no listener on the run\'s signal and no timer stays of a tool %s', async (_, tool, reason, fails) => {
  const controller = new AbortController()
  const before = timers()
  const work = executeTool(agent, tool, execution, controller.signal)
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
  if (reason !== undefined) controller.abort(reason)
  expect(await work).toMatchObject({ isError: fails })
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  expect(timers()).toBe(before)
  if (reason !== undefined) expect(tool.contexts[0]?.signal.reason).toBe(reason)
})

test('work side by side ends together: the first fault stops the others by their signal, and is thrown after they ended', async () => {
  const { signal } = new AbortController()
  const ended: string[] = []
  const other = (shared: AbortSignal): Promise<void> => new Promise((resolve) => {
    shared.addEventListener('abort', () => { ended.push('other'); resolve() }, { once: true })
  })
  const fault = new Error('first')
  const failing = [Promise.reject(fault), Promise.reject(new Error('second'))]
  await expect(together(signal, (shared) => [other(shared), ...failing])).rejects.toBe(fault)
  expect(ended).toEqual(['other'])
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('work side by side follows the signal it is given, an aborted one too', async () => {
  const seen: unknown[] = []
  await together(AbortSignal.abort('before'), (shared) => { seen.push(shared.reason); return [] })
  const controller = new AbortController()
  const work = together(controller.signal, (shared) => [new Promise((resolve) => {
    shared.addEventListener('abort', () => { seen.push(shared.reason); resolve() }, { once: true })
  })])
  controller.abort('during')
  await work
  expect(seen).toEqual(['before', 'during'])
})
