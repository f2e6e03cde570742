import { expect, test } from 'vitest'
import { agentCall, lifecycle, result, streamed } from '../providers/claude-code/play.ts'
import { isAlive } from '../support/fake-claude.ts'
import { opens, pidsOf, sent, startBody, startDrive, story } from './host.ts'

const says = (words: string): object => ({ emit: [...streamed(`m-${words}`, words), result()] })

test.concurrent('keepOpen: idle between turns, a waiting message returns at idle, cancel ends it with its last answer', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const { status, body } = await drive.call('POST', '/v1/runs', startBody({ task: 'one', keepOpen: true }), { prefer: 'wait=20' })
  expect([status, body.status]).toEqual([201, 'idle'])
  const id = body.id as string
  for (const [n, words] of ['two', 'three'].entries()) {
    expect(await drive.say(id, words, {}, { prefer: 'wait=20' })).toMatchObject({ status: 202 })
    expect(await drive.run(id)).toMatchObject({ status: 'idle', stopReason: null })
    expect(story(await drive.log(id)).filter((line) => line.startsWith('end'))).toHaveLength(n + 2)
  }
  await drive.cancel(id)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'You said: three' }] })
  expect(drive.cli.entries('start')).toHaveLength(1)
  expect(sent(drive.cli)).toEqual(['first one', 'now two', 'now three'])
  expect(await drive.say(id, 'four')).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
})

test.concurrent('keepOpen: the process\' exit settles the chat with its last answer', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), says('hi') as never, { delay: 50 }, { exit: 3 }] })
  const id = await drive.start({ keepOpen: true })
  await drive.until(id, 'settled')
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'hi' }] })
})

test.concurrent('without keepOpen a waiting start returns the result: the run is at work until its process has ended', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), says('hi') as never, { delay: 150 }] })
  const { status, body } = await drive.call('POST', '/v1/runs', startBody(), { prefer: 'wait=20' })
  expect([status, body.status, body.stopReason]).toEqual([201, 'settled', 'completed'])
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
})

test.concurrent('follow-up: a new run on the same session with --resume, its turns counted on, undelivered messages first', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: { start: [...opens(1), { user: true }, { emit: [...streamed('m', 'one'), lifecycle('{{user:2}}', 'x')] }, { exit: 1 }], resume: [...opens(1), says('two') as never] }
  })
  const id = await drive.start({ label: 'work', metadata: { a: 'b' }, persona: 'short', limits: { steps: 9 } })
  await drive.logged(id, 'user/message')
  await drive.say(id, 'not delivered')
  await drive.until(id, 'settled')
  const { status, body } = await drive.say(id, 'go on', { mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(status).toBe(201)
  const first = await drive.run(id)
  expect(body).toMatchObject({ continues: id, sessionId: first.sessionId, status: 'settled', stopReason: 'completed', label: 'work', metadata: { a: 'b' } })
  expect(body.id).not.toBe(id)
  const [one, two] = drive.cli.entries('start')
  expect(two?.argv).toEqual([...one?.argv.slice(0, 10) ?? [], '--resume', first.externalId, ...one?.argv.slice(10) ?? []])
  expect(two?.cwd).toBe(one?.cwd)
  expect(drive.cli.entries('in').at(-1)?.frame).not.toHaveProperty('priority')
  expect(story(await drive.log(body.id as string)).slice(-5)).toEqual(['turn 2 message', 'user not deliveredgo on', 'says two', 'end 2 completed', 'settled completed'])
  expect(await drive.run(body.id as string)).toMatchObject({ externalId: first.externalId })
  const third = await drive.say(body.id as string, 'and on', { mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(story(await drive.log(third.body.id as string)).slice(-5, -3)).toEqual(['turn 3 message', 'user and on'])
})

test.concurrent('follow-up: a message that was not delivered goes with the next run of the session, once, whichever of its runs is followed up', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: { start: [...opens(1), { user: true }, { emit: [...streamed('m', 'one'), lifecycle('{{user:2}}', 'x')] }, { exit: 1 }], resume: [...opens(1), { user: true }, { exit: 1 }] }
  })
  const first = await drive.start()
  await drive.logged(first, 'user/message')
  await drive.say(first, 'lost at first')
  await drive.until(first, 'settled')
  let runs = 1
  const follow = async (id: string, content: string, lost?: string): Promise<string> => {
    const { body } = await drive.say(id, content, { mode: 'follow-up' })
    await drive.logged(body.id as string, 'turn/start', ++runs)
    if (lost === undefined) await drive.cancel(body.id as string)
    else await drive.say(body.id as string, lost)
    drive.clock.pass(6000)
    await drive.until(body.id as string, 'settled')
    return body.id as string
  }
  const second = await follow(first, 'second', 'lost at second')
  await follow(first, 'third', 'lost at third')
  await follow(second, 'fourth')
  await follow(first, 'fifth')
  const tasks = drive.cli.entries('in').filter(({ frame }) => frame['type'] === 'user' && !('priority' in frame)).map(({ frame }) => frame['message'])
  const words = (tasks as { content: string | { text: string }[] }[]).map(({ content }) => typeof content === 'string' ? content : content.map(({ text }) => text).join(' + '))
  expect(words).toEqual(['go', 'lost at first + second', 'lost at second + third', 'lost at third + fourth', 'fifth'])
})

test.concurrent('follow-up: what a run was given that never began goes with the next one', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    env: { MAX_RUNNING: '1' }, script: { start: [...opens(1), { user: true }, { emit: [...streamed('m', 'one'), lifecycle('{{user:2}}', 'x')] }, { exit: 1 }], resume: [...opens(1), says('two') as never] }
  })
  const first = await drive.start()
  await drive.logged(first, 'user/message')
  await drive.say(first, 'lost at first')
  await drive.until(first, 'settled')
  const other = await drive.start({ keepOpen: true })
  await drive.until(other, 'running')
  const { body: { id: second } } = await drive.say(first, 'second', { mode: 'follow-up' })
  await drive.say(second as string, 'and this')
  await drive.cancel(second as string)
  await drive.until(second as string, 'settled')
  await drive.cancel(other)
  drive.clock.pass(6000)
  await drive.until(other, 'settled')
  const { body } = await drive.say(first, 'third', { mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(story(await drive.log(body.id as string)).slice(-4, -2)).toEqual(['user lost at firstand thisthird', 'says two'])
})

test.concurrent('follow-up of one that ended before its CLI said a word keeps the session; of a chat without one, and of an ingested chat, it is refused', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: { start: [...opens(1), says('one') as never], resume: [{ user: true }, { exit: 1 }] } })
  const id = await drive.start()
  await drive.result(id)
  const second = await drive.say(id, 'two', { mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(second.body).toMatchObject({ status: 'settled', stopReason: 'error' })
  const third = await drive.say(second.body.id as string, 'three', { mode: 'follow-up' }, { prefer: 'wait=20' })
  expect(third.status).toBe(201)
  const resumed = drive.cli.entries('start').map(({ argv }) => argv[argv.indexOf('--resume') + 1])
  expect(resumed[2]).toBe(resumed[1])
  const none = await startDrive(onTestFinished, { script: [{ exit: 1 }] })
  const mute = await none.start()
  await none.result(mute)
  expect(await none.say(mute, 'x', { mode: 'follow-up' })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
  const { body: { id: ingested } } = await none.call('POST', '/v1/runs', { provider: 'claude-code', ingest: true })
  expect(await none.say(ingested as string, 'x')).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
  await none.cancel(ingested as string)
  expect(await none.say(ingested as string, 'x', { mode: 'follow-up' })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
})

test.concurrent('follow-up of an open chat is refused, and of two at once one wins', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const id = await drive.start({ keepOpen: true })
  await drive.until(id, 'idle')
  expect(await drive.say(id, 'x', { mode: 'follow-up' })).toMatchObject({ status: 409, body: { code: 'SESSION_CONFLICT' } })
  await drive.cancel(id)
  await drive.result(id)
  const answers = await Promise.all([drive.say(id, 'a', { mode: 'follow-up' }), drive.say(id, 'b', { mode: 'follow-up' })])
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409])
  for (const { status, body } of answers) {
    if (status !== 201) continue
    await drive.until(body.id as string, 'idle')
    await drive.cancel(body.id as string)
  }
})

test.concurrent('Idempotency-Key: a start, a message and a follow-up that come twice are one', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const key = (name: string): Record<string, string> => ({ 'idempotency-key': name })
  const starts = await Promise.all([1, 2].map(() => drive.call('POST', '/v1/runs', startBody({ keepOpen: true }), key('s'))))
  expect(starts.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 201])
  const id = starts[0]?.body.id as string
  expect(starts[1]?.body.id).toBe(id)
  await drive.until(id, 'idle')
  const said = [await drive.say(id, 'more', {}, key('m')), await drive.say(id, 'more', {}, key('m'))]
  expect(said[1]?.body).toEqual(said[0]?.body)
  await drive.logged(id, 'turn/end', 2)
  await drive.cancel(id)
  await drive.result(id)
  expect(sent(drive.cli)).toEqual(['first go', 'now more'])
  const next = [await drive.say(id, 'on', { mode: 'follow-up' }, key('f')), await drive.say(id, 'on', { mode: 'follow-up' }, key('f'))]
  expect(next.map(({ status }) => status)).toEqual([201, 200])
  expect(next[1]?.body.id).toBe(next[0]?.body.id)
  await drive.until(next[0]?.body.id as string, 'idle')
  await drive.cancel(next[0]?.body.id as string)
  await drive.until(next[0]?.body.id as string, 'settled')
  expect(drive.cli.entries('start')).toHaveLength(2)
})

test.concurrent('MAX_RUNNING=1 queues a second chat: cancelled there it is aborted and says nothing, else it begins when the first has ended', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { env: { MAX_RUNNING: '1' } })
  const first = await drive.start({ keepOpen: true })
  await drive.until(first, 'idle')
  const [second, third] = [await drive.start({ task: 'second' }), await drive.start({ task: 'third' })]
  expect(await drive.run(second)).toMatchObject({ status: 'queued', startedAt: null })
  expect(await drive.say(second, 'and more')).toMatchObject({ status: 202 })
  await drive.cancel(third)
  expect(await drive.result(third)).toMatchObject({ stopReason: 'aborted', output: [] })
  expect(story(await drive.log(third))).toEqual(['run/cancel', 'settled aborted'])
  expect(drive.cli.entries('start')).toHaveLength(1)
  await drive.cancel(first)
  expect(await drive.result(second)).toMatchObject({ stopReason: 'completed', output: [{ text: 'You said: and more' }] })
  expect(sent(drive.cli)).toEqual(['first go', 'first second', 'now and more'])
  expect(await drive.run(second)).toMatchObject({ startedAt: expect.any(String) })
})

test.concurrent('a queued chat is ended by its time limit, and a full queue refuses', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { env: { MAX_RUNNING: '1', MAX_QUEUED: '1' } })
  const first = await drive.start({ keepOpen: true })
  const second = await drive.start({ limits: { timeoutMs: 1000 } })
  expect(await drive.call('POST', '/v1/runs', startBody())).toMatchObject({ status: 503, body: { code: 'OVERLOADED' } })
  drive.clock.pass(1000)
  expect(await drive.result(second)).toMatchObject({ stopReason: 'error', output: [], error: { code: 'LIMIT_TIME' } })
  await drive.cancel(first)
  await drive.until(first, 'settled')
})

test.concurrent('a typed fork, live: its child settles just before the turn\'s end, two runs of one command are two children', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const id = await drive.start({ task: '/probe deep', keepOpen: true })
  await drive.until(id, 'idle')
  await drive.say(id, '/probe again', {}, { prefer: 'wait=20' })
  const log = story(await drive.log(id))
  expect(log.slice(0, 7)).toEqual(['turn 1 task', 'user /probe deep', 'call Agent', 'subagent/start', 'says Report of probe.', 'subagent/end completed', 'result Agent Report of probe.'])
  expect(log.filter((line) => line.startsWith('end'))).toEqual(['end 1 completed', 'end 2 completed'])
  const children = await drive.children(id)
  expect(children).toMatchObject([1, 2].map(() => ({ label: 'Agent: /probe', status: 'settled', stopReason: 'completed', externalId: expect.stringMatching(/^forked-command-probe-/) })))
  expect(story(await drive.log(children[0].id))).toEqual(['turn 1 task', 'user The skill probe.\nARGUMENTS: deep', 'says Report of probe.', 'end 1 completed', 'settled completed'])
  await drive.cancel(id)
  await drive.until(id, 'settled')
})

test.concurrent('the client that waits goes away: the chat of a start without a key ends with it', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: agentCall('a-1') }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: result() }, { silent: true }] })
  const gone = new AbortController()
  const waiting = fetch(`${drive.url}/v1/runs`, {
    method: 'POST', body: JSON.stringify(startBody()), headers: { 'content-type': 'application/json', prefer: 'wait=20' }, signal: gone.signal
  })
  await drive.cli.entry('in')
  const [{ id }] = (await drive.call('GET', '/v1/runs')).body.runs
  await drive.logged(id, 'subagent/start')
  gone.abort()
  await expect(waiting).rejects.toThrow()
  await drive.until(id, 'settled')
  expect(await drive.run(id)).toMatchObject({ stopReason: 'aborted', cancel: { by: 'disconnect' } })
})
