import { expect, test } from 'vitest'
import { isAlive } from '../support/fake-claude.ts'
import { agentCall, assistant, fork, lifecycle, notified, result, streamed, taskStart, toolResult, toolUse, words } from '../providers/claude-code/play.ts'
import { opens, pidsOf, sent, startDrive, story } from './host.ts'

const child = [agentCall('a-1'), taskStart('t-1', { tool_use_id: 'a-1' })]
/** The CLI's answer to the n-th request. */
const refused = (n: number): object => ({ type: 'control_response', response: { subtype: 'error', request_id: `{{request:${n}}}`, error: 'no such task' } })

test.concurrent('D5 cancel: the open turn is interrupted, its result ends it as aborted, and the process ends', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: child }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: [notified('t-1', 'stopped'), result({ subtype: 'error_during_execution', is_error: true })] }, { silent: true }]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  expect(await drive.cancel(id)).toMatchObject({ status: 200, body: { cancel: { by: 'request' } } })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'aborted' })
  expect(sent(drive.cli)).toEqual(['first go', 'interrupt'])
  expect(await drive.children(id)).toMatchObject([{ status: 'settled', stopReason: 'aborted' }])
  expect(story(await drive.log(id)).slice(-3)).toEqual(['result Agent error Error: no result: the turn ended first', 'end 1 aborted', 'settled aborted'])
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
})

test.concurrent('D5 cancel: an answer but no result within 3 s: the turn ends as aborted, its tools and its fork with it', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: [assistant(toolUse('a', 'Bash')), fork('t-1'), notified('t-1', 'completed')] },
      { request: 'interrupt', answer: { still_queued: [] } }, { silent: true }
    ]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  await drive.cancel(id)
  await drive.journaled(id, 8)
  drive.clock.pass(2999)
  expect(await drive.run(id)).toMatchObject({ status: 'running' })
  drive.clock.pass(1)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'aborted' })
  expect(await drive.children(id)).toMatchObject([{ label: 'Agent: /fan', stopReason: 'completed' }])
  expect(story(await drive.log(id)).filter((line) => /^(result|end|settled)/.test(line))).toEqual(['result Agent', 'result Bash error Error: no result: the turn ended first', 'end 1 aborted', 'settled aborted'])
})

test.concurrent('D5 send-now without a result within 3 s: the process stays usable, the message goes now, the late result is dropped', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: assistant(toolUse('a', 'Bash')) }, { request: 'interrupt', answer: { still_queued: [] } },
      { user: true }, { emit: [result({ result: 'late', user_message_uuid: '{{user:1}}' }), lifecycle('{{user:2}}', 'started'), ...streamed('m', 'yes'), result({ user_message_uuid: '{{user:2}}' })] }
    ]
  })
  const id = await drive.start()
  await drive.journaled(id, 5)
  await drive.say(id, 'instead', { mode: 'interrupt' })
  await drive.journaled(id, 6)
  drive.clock.pass(3000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'yes' }] })
  expect(sent(drive.cli)).toEqual(['first go', 'interrupt', 'now instead'])
  expect(story(await drive.log(id)).filter((line) => /^(turn|end|settled)/.test(line))).toEqual(['turn 1 task', 'end 1 aborted', 'turn 2 message', 'end 2 completed', 'settled completed'])
})

test.concurrent('D5 cancel without an answer: SIGTERM, then SIGKILL to the whole group', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    settings: { graceMs: 60 },
    script: [{ ignore: 'SIGTERM' }, { ignore: 'end' }, { grandchild: { ignoresTerm: true } }, ...opens(1), { emit: child }, { request: 'interrupt', answer: false }, { silent: true }]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  await drive.cancel(id)
  expect(sent(drive.cli).slice(0, 1)).toEqual(['first go'])
  await drive.cli.entry('in', 2)
  drive.clock.pass(3000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'aborted' })
  expect(drive.cli.entries('signal')).toEqual([{ kind: 'signal', signal: 'SIGTERM' }])
  expect(await drive.children(id)).toMatchObject([{ stopReason: 'aborted' }])
  expect(pidsOf(drive.cli)).toHaveLength(2)
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
})

test.concurrent('D5 send-now without an answer ends the run, as an error that says so', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { request: 'interrupt', answer: false }, { silent: true }] })
  const id = await drive.start()
  await drive.logged(id, 'user/message')
  await drive.say(id, 'instead', { mode: 'interrupt' })
  await drive.cli.entry('in', 2)
  drive.clock.pass(3000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'INTERRUPTED', message: 'the CLI did not answer an interrupt' } })
})

test.concurrent('D5 cancel before the CLI said a word, and between turns, ends the process at once', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [{ silent: true }] })
  const id = await drive.start()
  await drive.cli.entry('start')
  await drive.cancel(id)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(sent(drive.cli)).not.toContain('interrupt')
})

test.concurrent('D6 cancel of one child stops its task: it is aborted, and the chat goes on', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: child }, { request: 'stop_task' },
      { emit: [notified('t-1', 'stopped'), toolResult('a-1', 'stopped'), ...streamed('m', 'went on'), result()] }
    ]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  const [{ id: childId }] = await drive.children(id)
  expect(await drive.cancel(childId)).toMatchObject({ status: 200 })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'went on' }] })
  expect(await drive.children(id)).toMatchObject([{ stopReason: 'aborted', cancel: { by: 'request' } }])
  expect(drive.cli.entries('in')[1]?.frame).toMatchObject({ type: 'control_request', request: { subtype: 'stop_task', task_id: 't-1' } })
})

test.concurrent('D6 a child that the CLI refuses to stop, cannot name, or does not stop within 3 s is given up; what still comes of it is dropped', async ({ onTestFinished }) => {
  const late = assistant(words('late'), { tag: 'a-1' })
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: [...child, agentCall('a-2'), agentCall('a-3'), taskStart('t-3', { tool_use_id: 'a-3' })] },
      { request: 'stop_task', answer: false }, { emit: refused(1) }, { request: 'stop_task' }, { user: true },
      { emit: [late, lifecycle('{{user:2}}', 'started'), ...streamed('m', 'went on'), result()] }
    ]
  })
  const id = await drive.start()
  await drive.journaled(id, 9)
  const [one, two, three] = await drive.children(id)
  for (const [node, settles] of [[one, true], [two, true], [three, false]] as const) {
    await drive.cancel(node.id)
    if (settles) await drive.until(node.id, 'settled')
  }
  await drive.journaled(id, 11)
  expect(await drive.run(three.id)).toMatchObject({ status: 'running' })
  drive.clock.pass(3000)
  expect(await drive.until(three.id, 'settled')).toMatchObject({ stopReason: 'aborted' })
  expect(await drive.run(id)).toMatchObject({ status: 'running', runningChildren: 0 })
  await drive.say(id, 'go on')
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed' })
  expect(story(await drive.log(one.id))).toEqual(['turn 1 task', 'user please a-1', 'run/cancel', 'end 1 aborted', 'settled aborted'])
})

test.concurrent('D6 a cancelled chat asks for no child of it: one interrupt is all', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: child }, { request: 'interrupt', answer: { still_queued: [] } }, { delay: 30 }, { emit: result() }, { silent: true }]
  })
  const id = await drive.start()
  await drive.logged(id, 'subagent/start')
  await drive.cancel(id)
  await drive.result(id)
  expect(sent(drive.cli)).toEqual(['first go', 'interrupt'])
})
