import { expect, test } from 'vitest'
import { assistant, fork, lifecycle, replay, result, streamed, toolResult, toolUse, words } from '../providers/claude-code/play.ts'
import { opens, sent, startDrive, story } from './host.ts'

const UUID = /^[0-9a-f-]{36}$/

test.concurrent('D1 every user line carries a uuid of ours, the first has no priority, and the log holds it once with its messageId', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: [...streamed('m', 'hi'), replay('{{user:1}}', 'go'), result({ user_message_uuid: '{{user:1}}' })] }]
  })
  const id = await drive.start()
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'hi' }] })
  const [line] = drive.cli.entries('in')
  expect(line?.frame).toEqual({ type: 'user', uuid: expect.stringMatching(UUID), message: { role: 'user', content: 'go' }, parent_tool_use_id: null })
  const log = await drive.log(id)
  expect(story(log)).toEqual(['turn 1 task', 'user go', 'says hi', 'end 1 completed', 'settled completed'])
  expect(log.find(({ type }) => type === 'user/message')?.data).toMatchObject({ messageId: line?.frame['uuid'] })
})

test.concurrent('D1 content blocks go as they are, a command as it was typed', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const image = { type: 'image', mimeType: 'image/png', data: 'aGk=' }
  await drive.result(await drive.start({ task: [{ type: 'text', text: 'see' }, image] }))
  await drive.result(await drive.start({ task: [{ type: 'text', text: '/probe now' }] }))
  expect(drive.cli.entries('in').map(({ frame }) => (frame['message'] as { content: unknown }).content)).toEqual([
    [{ type: 'text', text: 'see' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } }], '/probe now'
  ])
})

test.concurrent('D2 a message goes next while a tool is open, and now else; D3 each is confirmed by its start or its replay, and logged once', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: assistant(toolUse('a', 'Bash')) }, { user: true },
      { emit: [toolResult('a', 'x'), lifecycle('{{user:2}}', 'started'), replay('{{user:2}}', '{{text:2}}')] },
      { user: true }, { emit: [replay('{{user:3}}', '{{text:3}}'), lifecycle('{{user:3}}', 'started'), ...streamed('m', 'done'), result()] }
    ]
  })
  const id = await drive.start()
  await drive.journaled(id, 5)
  const second = await drive.say(id, 'while it runs')
  expect(second).toMatchObject({ status: 202, body: { messageId: expect.stringMatching(UUID) } })
  await drive.logged(id, 'user/message', 2)
  const third = await drive.say(id, 'at once')
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  expect(sent(drive.cli)).toEqual(['first go', 'next while it runs', 'now at once'])
  const log = await drive.log(id)
  expect(story(log)).toEqual([
    'turn 1 task', 'user go', 'message while it runs', 'says <tool-call>', 'call Bash', 'result Bash x', 'user while it runs', 'message at once',
    'user at once', 'says done', 'end 1 completed', 'settled completed'
  ])
  const [, , line, next] = [undefined, ...drive.cli.entries('in')].map((entry) => entry?.frame['uuid'])
  expect([line, next]).toEqual([second.body.messageId, third.body.messageId])
  expect(log.flatMap((event) => event.type === 'user/message' ? [event.data.messageId] : []).slice(1)).toEqual([line, next])
})

test.concurrent('D2 a pending typed fork counts as an open tool', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [{ user: true }, { emit: [lifecycle('{{user:1}}', 'started'), fork('t-1')] }, { user: true }, { emit: [lifecycle('{{user:2}}', 'started'), result()] }]
  })
  const id = await drive.start({ task: '/fan' })
  await drive.logged(id, 'subagent/start')
  await drive.say(id, 'wait for it')
  await drive.result(id)
  expect(sent(drive.cli)).toEqual(['first /fan', 'next wait for it'])
})

test.concurrent('D2 send-now: the turn is interrupted, and the message follows its end; what is said after it does not overtake it', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [
      ...opens(1), { emit: assistant(words('long')) }, { request: 'interrupt', answer: false }, { delay: 60 },
      { emit: { type: 'control_response', response: { subtype: 'success', request_id: '{{request:1}}', response: { still_queued: [] } } } },
      { emit: result({ subtype: 'error_during_execution', is_error: true, user_message_uuid: '{{user:1}}' }) },
      ...opens(2), { user: true }, { emit: [lifecycle('{{user:3}}', 'started'), ...streamed('m', 'instead'), result()] }
    ]
  })
  const id = await drive.start()
  await drive.journaled(id, 5)
  const answers = [await drive.say(id, 'stop that', { mode: 'interrupt' }), await drive.say(id, 'and this')]
  expect(answers.map(({ status }) => status)).toEqual([202, 202])
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'instead' }] })
  expect(sent(drive.cli)).toEqual(['first go', 'interrupt', 'now stop that', 'now and this'])
  expect(story(await drive.log(id)).filter((line) => !line.startsWith('message'))).toEqual([
    'turn 1 task', 'user go', 'says long', 'end 1 aborted', 'turn 2 message', 'user stop that', 'user and this', 'says instead', 'end 2 completed',
    'settled completed'
  ])
})

test.concurrent('D2 send-now twice interrupts one turn once; with no turn open it is a message like others', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { request: 'interrupt', answer: { still_queued: [] } }, { delay: 40 }, { emit: result() }, ...opens(2), { user: true }, { emit: [lifecycle('{{user:3}}', 'started'), result()] }, { demo: true }]
  })
  const id = await drive.start({ keepOpen: true })
  await drive.logged(id, 'user/message')
  await Promise.all([drive.say(id, 'one', { mode: 'interrupt' }), drive.say(id, 'two', { mode: 'interrupt' })])
  await drive.logged(id, 'turn/end', 2)
  await drive.until(id, 'idle')
  await drive.say(id, 'three', { mode: 'interrupt' })
  await drive.logged(id, 'turn/end', 3)
  expect(sent(drive.cli).toSorted()).toEqual(['first go', 'interrupt', 'now one', 'now three', 'now two'])
  await drive.cancel(id)
  await drive.result(id)
})

test.concurrent('D4 a held end is let go after 5 s without a frame', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { user: true }, { emit: [...streamed('m', 'hi'), result()] }, { silent: true }] })
  const id = await drive.start()
  await drive.logged(id, 'user/message')
  await drive.say(id, 'never begun')
  await drive.journaled(id, 12)
  drive.clock.pass(4999)
  expect(story(await drive.log(id)).at(-1)).toBe('says hi')
  drive.clock.pass(1)
  expect(story(await drive.logged(id, 'turn/end')).slice(-2)).toEqual(['says hi', 'end 1 completed'])
  expect(await drive.run(id)).toMatchObject({ status: 'running' })
  await drive.cancel(id)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'hi' }] })
})
