import { expect, test } from 'vitest'
import { init, lifecycle, result, streamed } from '../providers/claude-code/play.ts'
import { opens, sent, startBody, startDrive } from './host.ts'

const DEEP = `${'{"a":['.repeat(400)}-0${']}'.repeat(400)}`
const INPUTS = [
  DEEP, '{"zero":-0,"point":1.0,"big":12345678901234567890,"over":1e999,"small":1E-7}', '{"b":1,"a":2,"10":3,"2":4}', '{"__proto__":{"x":1},"twice":1,"twice":2}',
  '{ "space" :\t[ 1 , 2 ] }', '{"text":"\\u00e9\\ud800 \\/ \\u2028 \u2028","input":{"input":0},"}{":"],[\\"\\\\"}', '"a text"', 'null', '[]'
]

test.concurrent('A7 the input of a permitted call goes back as the CLI wrote it, to the letter', async ({ onTestFinished }) => {
  const ask = (input: string): string => `{"request":{"x":{"input":1},"input":${input},"tool_name":"Read","subtype":"can_use_tool"},"type":"control_request","request_id":"q"}\n`
  const drive = await startDrive(onTestFinished, {
    settings: { permissions: { allow: ['Read'] } },
    script: [...opens(1), ...INPUTS.flatMap((input) => [{ write: ask(input) }, { response: true as const }]), { emit: [...streamed('m', 'done'), result()] }]
  })
  expect(await drive.result(await drive.start())).toMatchObject({ stopReason: 'completed' })
  const answers = drive.cli.entries('in').flatMap(({ line }) => line ?? [])
  expect(answers).toEqual(INPUTS.map((input) =>
    `{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"behavior":"allow","updatedInput":${input}}}}`))
})

test.concurrent('A7 a call without an input is permitted with an empty one', async ({ onTestFinished }) => {
  const ask = { type: 'control_request', request_id: 'q', request: { subtype: 'can_use_tool', tool_name: 'Read' } }
  const drive = await startDrive(onTestFinished, {
    settings: { permissions: { allow: ['Read'] } }, script: [...opens(1), { emit: ask }, { response: true }, { emit: result() }]
  })
  await drive.result(await drive.start())
  expect(drive.cli.entries('in').at(-1)?.frame).toMatchObject({ response: { response: { behavior: 'allow', updatedInput: {} } } })
})

const COMMAND = 'a text that begins with "/" is a command to Claude Code, and what tools such a one may use is not told before it has run: ' +
  'no toolFilter can be held; put it in other words, or start without a filter'

test.concurrent('C, D a typed command cannot be held to a toolFilter: its start is refused, and nothing is run', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const toolFilter = { allow: ['Read'] }
  for (const [more, pointer] of [
    [{ task: '/probe', toolFilter }, '/task'], [{ task: ' \n/probe src', toolFilter: { deny: ['Bash'] } }, '/task'],
    [{ task: [{ type: 'text', text: 'a' }, { type: 'text', text: '/probe' }], toolFilter }, '/task']
  ] as const) {
    expect(await drive.call('POST', '/v1/runs', startBody(more))).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', detail: COMMAND, errors: [{ pointer, detail: COMMAND }] } })
  }
  expect((await drive.call('GET', '/v1/runs')).body.runs).toEqual([])
  expect(drive.cli.entries('start')).toEqual([])
  expect(await drive.result(await drive.start({ task: 'see /probe', toolFilter: { deny: ['Bash'] } }))).toMatchObject({ stopReason: 'completed' })
  expect(await drive.result(await drive.start({ task: '/probe' }))).toMatchObject({ stopReason: 'completed' })
})

test.concurrent('C, D a typed command as a message, or as a follow-up, to a run with a toolFilter is refused too', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: { start: [{ user: true }, { emit: [lifecycle('{{user:1}}', 'started'), init({ session_id: '{{session}}', tools: ['Read'] }), ...streamed('m', 'one'), result()] }, { silent: true }], resume: [...opens(1), { emit: result() }] }
  })
  const refused = { status: 400, body: { code: 'INVALID_REQUEST', detail: COMMAND, errors: [{ pointer: '/content', detail: COMMAND }] } }
  const id = await drive.start({ toolFilter: { allow: ['Read'] }, keepOpen: true })
  await drive.until(id, 'idle')
  for (const mode of ['steer', 'interrupt']) expect(await drive.say(id, '/probe', { mode })).toMatchObject(refused)
  expect((await drive.log(id)).filter(({ type }) => type === 'run/message')).toEqual([])
  await drive.cancel(id)
  await drive.result(id)
  expect(await drive.say(id, '/probe', { mode: 'follow-up' })).toMatchObject(refused)
  expect(sent(drive.cli)).toEqual(['first go'])
})
