import { expect, test } from 'vitest'
import { assistant, fork, lifecycle, notified, result, toolUse, userText, words } from '../providers/claude-code/play.ts'
import { startDrive, story } from './host.ts'

const TAG = 'forked-command-fan'
const ask = { type: 'control_request', request_id: 'q-1', request: { subtype: 'can_use_tool', tool_name: 'Bash', input: {} } }

test.concurrent('C5, C6, C12 the notified status is kept until the turn\'s end, the transcript comes after it, and a refusal shows in the fork\'s log', async ({ onTestFinished }) => {
  const denied = { type: 'user', parent_tool_use_id: TAG, message: { content: [{ type: 'tool_result', tool_use_id: 'b', content: 'not in a fork', is_error: true }] } }
  const drive = await startDrive(onTestFinished, {
    script: [
      { user: true }, { emit: [lifecycle('{{user:1}}', 'started'), fork('t-1'), ask] }, { response: true },
      { emit: [notified('t-1', 'failed'), userText('Fan out.\n', TAG), assistant(toolUse('b', 'Bash'), { tag: TAG }), denied, assistant(words('no luck'), { tag: TAG }), userText('Fan out.\n', TAG), result()] }
    ]
  })
  const id = await drive.start({ task: '/fan' })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed' })
  expect(story(await drive.log(id)).slice(-5)).toEqual(['subagent/start', 'subagent/end error', 'result Agent error no luck', 'end 1 completed', 'settled completed'])
  const [child] = await drive.children(id)
  expect(child).toMatchObject({ label: 'Agent: /fan', externalId: 'forked-command-fan-t-1', stopReason: 'error' })
  expect(story(await drive.log(child.id))).toEqual([
    'turn 1 task', 'user Fan out.\n', 'says <tool-call>', 'call Bash', 'result Bash error not in a fork', 'says no luck', 'user Fan out.\n', 'end 1 error', 'settled error'
  ])
})

test.concurrent('C7, C8 a result while a message is queued settles the fork at once; the turn goes on with the steer, and what comes late is dropped', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      { user: true }, { emit: [lifecycle('{{user:1}}', 'started'), fork('t-1')] }, { user: true }, { emit: result() }, { request: 'interrupt', answer: false },
      { emit: [notified('t-1', 'failed'), userText('Fan out.\n', TAG), lifecycle('{{user:2}}', 'started'), assistant(words('steered')), result({ result: 'steered' })] }
    ]
  })
  const id = await drive.start({ task: '/fan' })
  await drive.logged(id, 'subagent/start')
  await drive.say(id, 'and then')
  const boundary = story(await drive.logged(id, 'subagent/end'))
  expect(boundary.slice(-2)).toEqual(['subagent/end completed', 'result Agent'])
  expect(await drive.run(id)).toMatchObject({ status: 'running', runningChildren: 0 })
  await drive.say(id, 'now', { mode: 'interrupt' })
  await drive.logged(id, 'turn/end')
  expect(story(await drive.log(id)).filter((line) => /^(turn|user|says|end)/.test(line))).toEqual(['turn 1 task', 'user /fan', 'user and then', 'says steered', 'end 1 completed'])
  await drive.cancel(id)
  drive.clock.pass(6000)
  await drive.until(id, 'settled')
  expect(await drive.children(id)).toMatchObject([{ stopReason: 'completed' }])
})

test.concurrent('C9, C10, C11 an unreadable result settles the fork too; a second fork settles the first; one command twice is two children', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [{ user: true }, { emit: [lifecycle('{{user:1}}', 'started'), fork('t-1'), notified('t-1', 'completed'), fork('t-2'), fork('t-3'), { type: 'result', subtype: 7 }] }]
  })
  const id = await drive.start({ task: '/fan' })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'INTERNAL', message: 'the CLI gave a result that cannot be read' } })
  expect((await drive.children(id)).map(({ externalId, stopReason }) => [externalId, stopReason])).toEqual([
    ['forked-command-fan-t-1', 'completed'], ['forked-command-fan-t-2', 'aborted'], ['forked-command-fan-t-3', 'error']
  ])
})
