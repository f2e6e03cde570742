import { expect, test } from 'vitest'
import { agentCall, notified, result, streamed, taskStart, toolResult } from '../providers/claude-code/play.ts'
import { isAlive } from '../support/fake-claude.ts'
import { createGate, passes } from '../support/gate.ts'
import { readEvents } from '../support/sse.ts'
import { opens, pidsOf, startDrive } from './host.ts'

test.concurrent('5 the tree shows in-process and CLI children alike, in its events too; cancel of the in-process root ends the CLI', async ({ onTestFinished }) => {
  const gate = createGate()
  const drive = await startDrive(onTestFinished, {
    tools: [gate.tool],
    script: [
      ...opens(1), { emit: [agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), agentCall('a-2', { run_in_background: true })] },
      { request: 'interrupt', answer: { still_queued: [] } }, { emit: [notified('t-1', 'stopped'), result()] }, { silent: true }
    ]
  })
  onTestFinished(() => gate.open())
  const { body: root } = await drive.call('POST', '/v1/runs', passes('done'))
  const { body: sibling } = await drive.call('POST', '/v1/runs', { ...passes('done'), parent: { runId: root.id } })
  const chat = await drive.start({ parent: { runId: root.id }, label: 'cli' })
  await drive.logged(chat, 'subagent/start', 2)
  const { body: tree } = await drive.call('GET', `/v1/runs/${root.id}/tree`)
  expect(tree).toMatchObject({
    id: root.id, provider: 'spawn', depth: 1, runningChildren: 2,
    children: expect.arrayContaining([
      expect.objectContaining({ id: sibling.id, provider: 'spawn', depth: 2, children: [] }),
      expect.objectContaining({
        id: chat, provider: 'claude-code', label: 'cli', depth: 2, status: 'running', runningChildren: 2, parent: { runId: root.id, sessionId: root.sessionId },
        children: [
          expect.objectContaining({ label: 'Agent: do a-1', depth: 3, status: 'running', externalId: 'a-1', rootId: root.id, provider: 'claude-code' }),
          expect.objectContaining({ label: 'Agent: do a-2', depth: 3, status: 'running', externalId: 'a-2' })
        ]
      })
    ])
  })
  await drive.call('POST', `/v1/runs/${root.id}/cancel`)
  await drive.until(chat, 'settled')
  await drive.until(root.id, 'settled')
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
  const { body: after } = await drive.call('GET', `/v1/runs/${chat}/tree`)
  expect(after).toMatchObject({ stopReason: 'aborted', cancel: { by: 'parent' }, runningChildren: 0, children: [{ stopReason: 'aborted', cancel: { by: 'parent' } }, { stopReason: 'aborted', cancel: { by: 'parent' } }] })
  const { body: { events } } = await drive.call('GET', `/v1/runs/${root.id}/events?tree=true&limit=500`)
  const settled = (events as { runId: string, type: string }[]).filter(({ type }) => type === 'run/settled' || type === 'settled').map(({ runId }) => runId)
  expect(new Set(settled)).toEqual(new Set([root.id, sibling.id, chat, ...after.children.map(({ id }: { id: string }) => id)]))
  expect(settled).toHaveLength(5)
})

test.concurrent('5 events of the tree stream live: the chat\'s words, and each child\'s start and end', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { user: true }, { emit: [agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), notified('t-1', 'completed', { summary: 'found' }), toolResult('a-1', 'found')] },
      { emit: [{ type: 'command_lifecycle', command_uuid: '{{user:2}}', state: 'started' }, ...streamed('m', 'all done'), result()] }
    ]
  })
  const id = await drive.start()
  const reader = await readEvents(drive, id, { tree: true })
  await drive.say(id, 'begin')
  const events = await reader.until(({ event }) => event === 'settled')
  reader.leave()
  const seen = events.map(({ event }) => event)
  expect(seen).toEqual(expect.arrayContaining(['subagent/start', 'subagent/end', 'delta', 'run/settled', 'settled']))
})
