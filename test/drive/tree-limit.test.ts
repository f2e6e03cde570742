import { expect, test } from 'vitest'
import { agentCall, assistant, notified, result, streamed, taskStart, toolUse, words } from '../providers/claude-code/play.ts'
import type { Step } from '../support/fake-claude.ts'
import { opens, startDrive, type Drive } from './host.ts'

const LIMIT = (n: number): object => ({ stopReason: 'error', diagnostic: `treeTokens ${n} reached`, error: { code: 'LIMIT_TREE', message: `treeTokens ${n} reached`, retryable: false } })
const stops: Step[] = [{ request: 'interrupt', answer: { still_queued: [] } }, { emit: result({ is_error: true, subtype: 'error_during_execution' }) }, { silent: true }]
const call = (id: string): object => assistant(toolUse(`call-${id}`, 'Bash'), { id })

/** A run in this process that used so many tokens. */
async function parentOf (drive: Drive, tokens: number, limits: object = {}): Promise<string> {
  const { body } = await drive.call('POST', '/v1/runs', { task: 'x', limits, agentOptions: { script: [{ say: 'done', usage: { inputTokens: tokens, outputTokens: 0 } }] } })
  await drive.result(body.id as string)
  return body.id as string
}

test.concurrent('2.5 treeTokens stops a driven chat as LIMIT_TREE, by an interrupt', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: [call('m1'), call('m2')] }, ...stops] })
  expect(await drive.result(await drive.start({ limits: { treeTokens: 7 } }))).toMatchObject(LIMIT(7))
})

test.concurrent('2.5 the tokens of the CLI\'s subagents count for the tree', async ({ onTestFinished }) => {
  const inChild = (id: string): object => assistant(words(id), { id, tag: 'a-1' })
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: [agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' }), inChild('c1'), inChild('c2'), inChild('c3')] }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: [notified('t-1', 'stopped'), result({ is_error: true })] }, { silent: true }]
  })
  const id = await drive.start({ limits: { treeTokens: 14, totalTokens: 14 } })
  await drive.journaled(id, 9)
  drive.clock.pass(1000)
  expect(await drive.result(id)).toMatchObject(LIMIT(14))
})

test.concurrent('2.5 a child can only tighten the tree\'s limit, and what the tree used before counts', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: [call('m1'), call('m2')] }, ...stops] })
  const runId = await parentOf(drive, 50, { treeTokens: 57 })
  expect(await drive.result(await drive.start({ parent: { runId }, limits: { treeTokens: 1000 } }))).toMatchObject(LIMIT(57))
})

test.concurrent('2.5 a tree that is used up starts no CLI', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const runId = await parentOf(drive, 50)
  const id = await drive.start({ parent: { runId }, limits: { treeTokens: 50 } })
  expect(await drive.result(id)).toMatchObject({ ...LIMIT(50), output: [] })
  expect(drive.cli.entries('start')).toEqual([])
  expect(await drive.result(await drive.start({ parent: { runId }, limits: { treeTokens: 51 } }))).toMatchObject({ stopReason: 'completed' })
})

test.concurrent('2.5 a chat that is kept open does not begin its next turn with a tree that was used up meanwhile', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: [...streamed('m', 'one'), result()] }, ...opens(2), { emit: streamed('n', 'never').slice(0, 3) }, ...stops] })
  const runId = await parentOf(drive, 50)
  const id = await drive.start({ parent: { runId }, keepOpen: true, limits: { treeTokens: 100 } })
  await drive.until(id, 'idle')
  drive.clock.pass(60_000)
  const { body } = await drive.call('POST', '/v1/runs', { task: 'x', parent: { runId }, agentOptions: { script: [{ say: 'done', usage: { inputTokens: 60, outputTokens: 0 } }] } })
  await drive.result(body.id as string)
  expect(await drive.run(id)).toMatchObject({ status: 'idle' })
  await drive.say(id, 'more')
  expect(await drive.result(id)).toMatchObject(LIMIT(100))
})

test.concurrent('2.5 an answer that uses the last of it is the answer', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: streamed('m', 'the answer') }, { delay: 150 }, { emit: result() }] })
  expect(await drive.result(await drive.start({ limits: { treeTokens: 10 } }))).toMatchObject({ stopReason: 'completed', output: [{ text: 'the answer' }] })
})
