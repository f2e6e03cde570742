import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, startService, type Service } from '../support/service.ts'
import { agentCall, assistant, init, notified, replay, result, streamed, taskStart, toolResult, toolUse, words } from '../providers/claude-code/play.ts'
import { eventsOf, journalOf, linesOf, openPiece, post, runOf, startChat, treeOf, untilAccepted } from './chats.ts'

const opening = [init(), replay('u-1', 'go')]
const background = (id: string, task: string) => [
  agentCall(id, { run_in_background: true }), taskStart(task, { tool_use_id: id, is_backgrounded: true }), toolResult(id, 'launched', { tool_use_result: { isAsync: true } })
]
const resumed = (task: string, call: string, prompt: string) => [
  assistant(toolUse(call, 'SendMessage')), taskStart(task, { tool_use_id: call, prompt, is_backgrounded: true }), toolResult(call, 'sent')
]
const inFile = () => ({ env: { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` } })
const said = async (service: Service, id: string | undefined): Promise<string[]> => (await eventsOf(service, id ?? '', false))
  .flatMap(({ type, data }) => type === 'assistant/message' || type === 'user/message' ? [data.content[0]?.text ?? ''] : [])
const from = async (service: Service, id: string): Promise<number> => (await runOf(service, id)).framesAccepted as number

test('5.2 a cancelled chat ends with all its children as aborted, and takes no more lines', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const piece = openPiece(service, id)
  await piece.send(linesOf(...opening, ...background('a-1', 't-1'), ...background('a-2', 't-2'), ...streamed('m', 'in the middle').slice(0, 4)))
  await untilAccepted(service, id, 12)
  const cancelled = await service.call('POST', `/v1/runs/${id}/cancel?wait=5`, { reason: 'enough' })
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { reason: 'enough', by: 'request' }, runningChildren: 0, framesAccepted: 12 })
  const tree = await treeOf(service, id)
  expect(tree.children.map(({ status, stopReason, cancel }) => [status, stopReason, cancel.by])).toEqual([['settled', 'aborted', 'parent'], ['settled', 'aborted', 'parent']])
  await piece.send(linesOf(result()))
  expect(await piece.answer).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  expect(await post(service, id, linesOf(result()), { from: 12 })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  expect(await journalOf(service, id)).toHaveLength(12)
  expect(await service.call('POST', `/v1/runs/${id}/cancel`)).toMatchObject({ status: 200, body: { cancel: { reason: 'enough' } } })
})

test('5.2 a child that is cancelled alone is aborted, and what the CLI still tells of it is the journal\'s', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(...opening, ...background('a-1', 't-1'), ...background('a-2', 't-2'), assistant(words('early'), { tag: 'a-1' })))
  const [one, two] = (await treeOf(service, id)).children
  await service.call('POST', `/v1/runs/${one?.id}/cancel?wait=5`)
  expect(await treeOf(service, id)).toMatchObject({ status: 'running', runningChildren: 1, cancel: null, children: [{ status: 'settled', stopReason: 'aborted' }, { status: 'running' }] })
  const late = linesOf(assistant(words('late'), { tag: 'a-1' }), notified('t-1', 'completed'), assistant(words('south'), { tag: 'a-2' }), notified('t-2', 'completed'), result())
  expect(await post(service, id, late, { from: await from(service, id) })).toMatchObject({ status: 200 })
  expect(await said(service, one?.id)).toEqual(['please a-1', 'early'])
  expect(await said(service, two?.id)).toEqual(['please a-2', 'south'])
  expect(await treeOf(service, id)).toMatchObject({ status: 'idle', runningChildren: 0, children: [{ stopReason: 'aborted' }, { stopReason: 'completed' }] })
  expect(await journalOf(service, id)).toHaveLength(14)
})

test('B4 a child that was cancelled alone goes on in a new run, before a restart and after one', async () => {
  const options = inFile()
  let service = await startService(onTestFinished, options)
  const id = await startChat(service)
  await post(service, id, linesOf(...opening, ...background('a-1', 't-1'), assistant(words('early'), { tag: 'a-1' })))
  const first = (await treeOf(service, id)).children[0]
  await service.call('POST', `/v1/runs/${first?.id}/cancel?wait=5`)
  await post(service, id, linesOf(...resumed('t-1', 's-1', 'more'), assistant(words('later'), { tag: 'a-1' }), ...background('a-2', 't-2')), { from: await from(service, id) })
  const before = await treeOf(service, id)
  expect(before.children.map(({ externalId, continues, status }) => [externalId, continues, status])).toEqual([
    ['a-1', null, 'settled'], ['s-1', first?.id, 'running'], ['a-2', null, 'running']
  ])
  await service.stop()
  service = await startService(onTestFinished, options)
  expect(await treeOf(service, id)).toEqual(before)
  await post(service, id, linesOf(assistant(words('last'), { tag: 'a-1' }), notified('t-1', 'completed'), ...resumed('t-1', 's-2', 'again'), ...background('a-3', 't-3'), notified('t-2', 'failed')), { from: await from(service, id) })
  const after = await treeOf(service, id)
  expect(after.children.map(({ externalId, status, stopReason }) => [externalId, status, stopReason])).toEqual([
    ['a-1', 'settled', 'aborted'], ['s-1', 'settled', 'completed'], ['a-2', 'settled', 'error'], ['s-2', 'running', null], ['a-3', 'running', null]
  ])
  expect(await said(service, after.children[1]?.id)).toEqual(['more', 'later', 'last'])
  expect(after.children[3]).toMatchObject({ continues: after.children[1]?.id, sessionId: first?.sessionId })
})

test('a child that was deleted is forgotten: its chat goes on, also where the CLI resumes it, before a restart and after one', async () => {
  const options = inFile()
  let service = await startService(onTestFinished, options)
  const id = await startChat(service)
  await post(service, id, linesOf(...opening, ...background('a-1', 't-1'), ...background('a-2', 't-2'), ...background('a-3', 't-3'), notified('t-1', 'completed'), notified('t-2', 'completed')))
  const [one, two, three] = (await treeOf(service, id)).children
  for (const run of [one, two, three]) expect((await service.call('DELETE', `/v1/runs/${run?.id}`)).status).toBe(204)
  expect(await treeOf(service, id)).toMatchObject({ runningChildren: 0, children: [] })
  expect(await post(service, id, linesOf(...resumed('t-1', 's-1', 'more'), assistant(words('later'), { tag: 'a-1' })), { from: await from(service, id) })).toMatchObject({ status: 200 })
  expect((await treeOf(service, id)).children).toMatchObject([{ externalId: 's-1', continues: null, status: 'running' }])
  await service.stop()
  service = await startService(onTestFinished, options)
  expect((await treeOf(service, id)).children).toMatchObject([{ externalId: 's-1', status: 'running' }])
  expect(await post(service, id, linesOf(...resumed('t-2', 's-2', 'more'), ...resumed('t-3', 's-3', 'more'), notified('t-1', 'completed')), { from: await from(service, id) })).toMatchObject({ status: 200 })
  const { children } = await treeOf(service, id)
  expect(children).toMatchObject([{ externalId: 's-1', status: 'settled' }, { externalId: 's-2', continues: null, status: 'running' }, { externalId: 's-3', continues: null, status: 'running' }])
  expect(await said(service, children[0]?.id)).toEqual(['more', 'later'])
  const turns = (await eventsOf(service, id)).filter(({ runId, data }) => children.some((child) => child.id === runId) && data.turn !== undefined)
  expect(turns.length).toBeGreaterThan(5)
  expect(new Set(turns.map(({ data }) => data.turn as number))).toEqual(new Set([1]))
})

test('9 a deleted chat takes its children and its journal with it, the journal in the sweeps that follow', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(...opening, ...background('a-1', 't-1'), 'x'.repeat(4_000_000)))
  const { children } = await treeOf(service, id)
  const run = await service.app.store.getRun('default', id)
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  expect((await service.call('DELETE', `/v1/runs/${id}`)).status).toBe(204)
  for (const gone of [id, children[0]?.id]) expect(await service.call('GET', `/v1/runs/${gone}`)).toMatchObject({ status: 404 })
  expect(await post(service, id, linesOf(result()), { from: 6 })).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
  await service.app.store.sweep(Date.now())
  expect(await service.app.store.readEvents(run?.segment ?? 0, 0)).toEqual([])
})

test('3 SIGTERM while a body is open: its host is told to come again, nothing acknowledged is lost, and the next start goes on', async () => {
  const options = inFile()
  const service = await startService(onTestFinished, options)
  const id = await startChat(service)
  const [busy, quiet] = [openPiece(service, id), openPiece(service, id)]
  await busy.send(linesOf(...opening, ...background('a-1', 't-1'), assistant(words('early'), { tag: 'a-1' })))
  await untilAccepted(service, id, 6)
  await quiet.send(linesOf(...opening))
  const stopped = service.app.stop(AbortSignal.abort())
  for (const piece of [busy, quiet]) expect(await piece.answer).toMatchObject({ status: 503, body: { code: 'SHUTTING_DOWN' } })
  await stopped
  const next = await startService(onTestFinished, options)
  expect(await treeOf(next, id)).toMatchObject({ status: 'running', framesAccepted: 6, runningChildren: 1, stopReason: null })
  expect(await post(next, id, linesOf(notified('t-1', 'completed'), result()), { from: 6, end: true })).toMatchObject({ status: 200, body: { accepted: 8 } })
  expect(await treeOf(next, id)).toMatchObject({ status: 'settled', stopReason: 'completed', children: [{ stopReason: 'completed' }] })
})

test('ingest: a host that went away is no fault of the service', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const piece = openPiece(service, id)
  await piece.send(linesOf(...opening).slice(0, -20))
  await untilAccepted(service, id, 1)
  piece.drop()
  expect(await post(service, id, linesOf(...opening, ...streamed('m', 'ok'), result()), { end: true })).toMatchObject({ status: 200 })
  expect(await service.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'ok' }] })
})
