import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { says } from '../support/fake-answers.ts'
import { serviceTool } from '../support/service-tool.ts'
import { makeFolder, startService, type Service } from '../support/service.ts'
import { OPEN_DELEGATIONS } from '../support/transcripts.ts'

const FORMATS = Object.entries(OPEN_DELEGATIONS)
const user = (content: string): object => ({ role: 'user', content })
const assistant = (content: string): object => ({ role: 'assistant', content })
const chat = (...messages: object[]): object => ({ transcript: { format: 'openai-chat', messages } })
const create = async (service: Service, body: object = {}): Promise<{ id: string, length: number, turns: number }> => {
  const answer = await service.call('POST', '/v1/sessions', body)
  if (answer.status !== 201) throw new Error(`the session was answered ${answer.status}: ${answer.text}`)
  return answer.body
}
const append = (service: Service, id: string, after: number, ...messages: unknown[]) =>
  service.call('POST', `/v1/sessions/${id}/messages`, { after, messages })
const forkOf = (sessionId: string, more: object = {}): object => ({ provider: 'fork', parent: { sessionId }, task: 'go on', ...more })
/** What the fork's model was told: the texts of user and assistant messages of its log. */
async function said (service: Service, id: string): Promise<string[]> {
  return (await service.log(id)).flatMap((event) => event.type === 'user/message' || event.type === 'assistant/message'
    ? [event.data.content.map((part) => part.type === 'text' ? part.text : '').join('')]
    : [])
}

test.for(FORMATS)('a host\'s session in %s is kept with its open turn, and a fork of it has the completed turns, system and tools', async ([format, { transcript, cut, toolCallId }]) => {
  const service = await startService(onTestFinished)
  const { status, headers, body } = await service.call('POST', '/v1/sessions', { transcript, model: 'scripted/demo', cwd: '/work', metadata: { a: 'b' } })
  expect([status, headers.get('location')]).toEqual([201, `/v1/sessions/${body.id}`])
  expect(body).toEqual({ id: expect.any(String), length: transcript.messages.length, turns: 1 })
  expect((await service.call('GET', `/v1/sessions/${body.id}`)).body).toEqual({
    ...body, registered: true, createdAt: expect.stringMatching(/Z$/), model: 'scripted/demo', format, delegationDepth: 0, cwd: '/work', metadata: { a: 'b' }
  })
  const fork = await service.start(forkOf(body.id))
  expect(fork).toMatchObject({ depth: 1, model: 'scripted/demo', seed: { turns: 1 }, parent: { runId: null, sessionId: body.id } })
  await service.result(fork.id)
  const log = await service.log(fork.id)
  const seed = log.slice(0, fork.seed.events)
  expect(JSON.stringify(seed.filter(({ type }) => type !== 'request/header'))).not.toContain(toolCallId)
  expect(seed.at(-1)?.type).toBe('turn/end')
  expect(log[fork.seed.events]).toMatchObject({ type: 'turn/start', data: { turn: 2 } })
  const header = log.findLast(({ type }) => type === 'request/header')?.data
  expect(JSON.stringify(header)).toContain('You look after the repository')
  expect(JSON.stringify(header)).toContain('delegate')
  expect(cut).toBeLessThan(transcript.messages.length)
})

test('a later append completes the turn that was open', async () => {
  const service = await startService(onTestFinished)
  const { transcript, toolCallId } = OPEN_DELEGATIONS['openai-chat']
  const { id, length } = await create(service, { transcript })
  const before = await service.start(forkOf(id, { agentOptions: { model: 'scripted/demo' } }))
  const grown = await append(service, id, length, { role: 'tool', tool_call_id: toolCallId, content: 'a race' }, assistant('It is a race.'), user('Mend it'))
  expect(grown).toMatchObject({ status: 200, body: { id, length: length + 3, turns: 2 } })
  const after = await service.start(forkOf(id, { agentOptions: { model: 'scripted/demo' } }))
  expect([before.seed.turns, after.seed.turns]).toEqual([1, 2])
  await service.result(after.id)
  const texts = await said(service, after.id)
  expect(texts).toContain('It is a race.')
  expect(texts).not.toContain('Mend it')
  expect((await append(service, id, length + 3, assistant('Done.'))).body).toEqual({ id, length: length + 4, turns: 3 })
})

/** One by one; a reasoning item with what it leads to. */
function grouped (messages: readonly unknown[]): unknown[][] {
  const groups: unknown[][] = [[]]
  for (const message of messages) {
    groups.at(-1)?.push(message)
    if ((message as { type?: string }).type !== 'reasoning') groups.push([])
  }
  return groups.filter((group) => group.length > 0)
}

test.for(FORMATS)('in %s a session that grows message by message is what it is when sent at once', async ([, { transcript }]) => {
  const service = await startService(onTestFinished)
  const { messages, ...beside } = transcript
  const whole = await create(service, { transcript, model: 'scripted/demo' })
  const grown = await create(service, { transcript: { ...beside, messages: [] }, model: 'scripted/demo' })
  let after = 0
  for (const group of grouped(messages)) {
    expect((await append(service, grown.id, after, ...group)).status).toBe(200)
    after += group.length
  }
  const [a, b] = [await service.start(forkOf(whole.id)), await service.start(forkOf(grown.id))]
  expect(b.seed.turns).toBe(a.seed.turns)
  for (const { id } of [a, b]) await service.result(id)
  expect(await said(service, b.id)).toEqual(await said(service, a.id))
  const ownHeader = async (id: string): Promise<unknown> => (await service.log(id)).findLast((event) => event.type === 'request/header')?.data
  expect(await ownHeader(b.id)).toEqual(await ownHeader(a.id))
})

test('a system prompt among the messages holds though its first turn is completed later', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, chat({ role: 'system', content: 'Be brief.' }, user('a?')))
  expect(await append(service, id, 2, assistant('a.'))).toMatchObject({ status: 200, body: { length: 3, turns: 1 } })
  const fork = await service.start(forkOf(id, { agentOptions: { model: 'scripted/demo' } }))
  await service.result(fork.id)
  expect((await service.log(fork.id)).findLast(({ type }) => type === 'request/header')).toMatchObject({ data: { system: [{ text: 'Be brief.' }] } })
  const empty = await create(service)
  expect((await append(service, empty.id, 0, { role: 'system', content: 'Be brief.' }, user('a?'), assistant('a.'))).body).toMatchObject({ turns: 1 })
})

test('4.2 a system prompt beside the messages and one among those that come later is refused', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, { transcript: { format: 'openai-chat', system: 'Be brief.', messages: [] } })
  const { status, body } = await append(service, id, 0, { role: 'system', content: 'Be long.' }, user('a?'), assistant('a.'))
  expect([status, body.code, body.errors[0].pointer]).toEqual([400, 'INVALID_REQUEST', '/messages/0'])
})

test('a wrong `after` is 409 SESSION_CONFLICT with the right one, and changes nothing', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, chat(user('a?'), assistant('a.')))
  for (const after of [0, 1, 3, 2 ** 40]) {
    const { status, body } = await append(service, id, after, user('b?'))
    expect([status, body.code, body.length]).toEqual([409, 'SESSION_CONFLICT', 2])
  }
  expect((await service.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ length: 2, turns: 1 })
})

test('of appends that race one wins, the others learn the length', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service)
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => append(service, id, 0, user(`${n}?`), assistant(`${n}.`))))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  for (const { status, body } of answers) if (status !== 200) expect([status, body.length]).toEqual([409, 2])
  expect((await service.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ length: 2, turns: 1 })
})

test('4.5 a malformed message is named by its place in the request', async () => {
  const service = await startService(onTestFinished)
  const made = await service.call('POST', '/v1/sessions', chat(user('a?'), { role: 'nobody' }))
  expect([made.status, made.body.code]).toEqual([422, 'TRANSCRIPT_INVALID'])
  expect(made.body.detail).toContain('transcript.messages[1]')
  const { id } = await create(service, chat(user('a?')))
  const { status, body } = await append(service, id, 1, assistant('a.'), { role: 'nobody' })
  expect([status, body.code]).toEqual([422, 'TRANSCRIPT_INVALID'])
  expect(body.detail).toContain('messages[1]')
  expect((await service.call('GET', `/v1/sessions/${id}`)).body.length).toBe(1)
})

test('a session\'s depth and model are its forks\'; malformed or unknown ones are refused', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, { ...chat(user('a?'), assistant('a.')), delegationDepth: 4, model: 'scripted/demo' })
  expect(await service.start(forkOf(id))).toMatchObject({ depth: 5, model: 'scripted/demo' })
  const capped = await service.call('POST', '/v1/runs', forkOf(id, { maxDepth: 4 }))
  expect(capped.body).toMatchObject({ code: 'DEPTH_EXCEEDED', detail: 'subagent depth 5 exceeds maxDepth 4' })
  for (const delegationDepth of [-1, 1.5, '1', null, 2 ** 53, {}]) {
    expect((await service.call('POST', '/v1/sessions', { delegationDepth })).body).toMatchObject({ status: 422, code: 'DEPTH_INVALID' })
  }
  expect((await service.call('POST', '/v1/sessions', { model: 'nowhere/x' })).body).toMatchObject({ status: 422, code: 'MODEL_UNKNOWN' })
})

test('3.4 a fork of a session without a completed turn is a fresh spawn', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, { ...chat(user('a?')), model: 'scripted/demo' })
  const fork = await service.start(forkOf(id))
  expect(fork.seed).toEqual({ turns: 0, events: 0 })
  expect(await service.result(fork.id)).toMatchObject({ stopReason: 'completed' })
  expect((await service.log(fork.id))[0]).toMatchObject({ seq: 0, type: 'turn/start', data: { turn: 1 } })
})

test('3.3 a fork never sees what is appended after it started', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, { ...chat(user('a?'), assistant('a.')), model: 'scripted/demo' })
  const fork = await service.start(forkOf(id, { tools: [{ name: 'wait', inputSchema: { type: 'object' } }], agentOptions: { script: [{ call: { name: 'wait' } }] } }))
  await append(service, id, 2, user('b?'), assistant('b.'))
  expect(await said(service, fork.id)).not.toContain('b.')
  expect((await service.log(fork.id)).slice(0, fork.seed.events).map(({ seq }) => seq)).toEqual(Array.from({ length: fork.seed.events }, (_, seq) => seq))
})

test('4.2 what a model of another kind does not see of a session is in the fork\'s notices, whenever it came', async () => {
  const server = await startFakeModelServer(onTestFinished, { fallback: says('ok') })
  const service = await startService(onTestFinished, { env: { OPENAI_BASE_URL: server.openaiUrl, OPENAI_API_KEY: 'k' } })
  const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.test/a.png' } }] }
  const { id } = await create(service, chat(user('a?'), assistant('a.')))
  const scripted = { agentOptions: { model: 'scripted/demo' } }
  expect((await service.start(forkOf(id, scripted))).notices).toEqual([])
  await append(service, id, 2, image, assistant('a picture.'))
  await append(service, id, 4, user('c?'), assistant('c.'))
  expect((await service.start(forkOf(id, scripted))).notices).toEqual([expect.stringContaining('image')])
  expect((await service.start(forkOf(id, { agentOptions: { model: 'openai/gpt-5-mini' } }))).notices).toEqual([])
})

test('a session made by a run can be read and forked, but only its runs append to it', async () => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 'a', agentOptions: { script: [{ say: 'first' }] } })
  await service.result(run.id)
  const { body } = await service.call('GET', `/v1/sessions/${run.sessionId}`)
  expect(body).toMatchObject({ id: run.sessionId, registered: false, turns: 1, length: 8 })
  const fork = await service.start(forkOf(run.sessionId))
  expect(fork).toMatchObject({ seed: { turns: 1 }, parent: { runId: run.id, sessionId: run.sessionId }, depth: 2 })
  expect(await append(service, run.sessionId, 8, user('b?'))).toMatchObject({ status: 409, body: { code: 'SESSION_CONFLICT' } })
})

test('a deleted session is 404 at once, for all that named it; deleting again is 204', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, chat(user('a?'), assistant('a.')))
  for (let n = 0; n < 2; n++) expect((await service.call('DELETE', `/v1/sessions/${id}`)).status).toBe(204)
  const gone = { status: 404, code: 'SESSION_NOT_FOUND', detail: `no session "${id}"` }
  expect((await service.call('GET', `/v1/sessions/${id}`)).body).toMatchObject(gone)
  expect((await append(service, id, 2, user('b?'))).body).toMatchObject(gone)
  expect((await service.call('POST', '/v1/runs', forkOf(id))).body).toMatchObject(gone)
  expect((await service.call('DELETE', '/v1/sessions/0199d2a8-1c00-7000-8000-000000000000')).status).toBe(204)
})

test('a session is gone for others while its runs are still stopping', async () => {
  const stopping = Promise.withResolvers<string>()
  const tool = serviceTool('stubborn', () => stopping.promise)
  const service = await startService(onTestFinished, { tools: [tool] })
  const { id } = await create(service, { ...chat(user('a?'), assistant('a.')), model: 'scripted/demo' })
  const open = await service.start(forkOf(id, { agentOptions: { script: [{ call: { name: 'stubborn' } }] } }))
  await tool.began()
  const stopped = Promise.withResolvers<undefined>()
  const live = service.app.registry.live('default', open.id)
  Object.defineProperty(live, 'stopped', { value: stopped.promise })
  const deleting = service.call('DELETE', `/v1/sessions/${id}`)
  await service.result(open.id)
  expect((await service.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
  expect((await service.call('POST', '/v1/runs', forkOf(id))).status).toBe(404)
  stopped.resolve(undefined)
  stopping.resolve('')
  expect((await deleting).status).toBe(204)
})

test('deleting a session cancels what runs under it; what had settled goes on to be read and forked', async () => {
  const service = await startService(onTestFinished)
  const { id } = await create(service, { ...chat(user('a?'), assistant('a.')), model: 'scripted/demo' })
  const settled = await service.start(forkOf(id, { agentOptions: { script: [{ say: 'settled before' }] } }))
  await service.result(settled.id)
  const open = await service.start(forkOf(id, { agentOptions: { script: [{ hang: true }] } }))
  const grandchild = await service.start({ task: 'b', parent: { runId: open.id }, agentOptions: { script: [{ hang: true }] } })
  await service.call('DELETE', `/v1/sessions/${id}`)
  for (const each of [open.id, grandchild.id]) {
    expect((await service.call('GET', `/v1/runs/${each}`)).body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  }
  await service.app.store.sweep(Date.now())
  expect(await said(service, settled.id)).toEqual(['a?', 'a.', 'go on', 'settled before'])
  const fork = await service.start({ provider: 'fork', parent: { runId: settled.id }, task: 'and on' })
  expect(fork.seed.turns).toBe(2)
  await service.result(fork.id)
  expect((await said(service, fork.id)).slice(0, 5)).toEqual(['a?', 'a.', 'go on', 'settled before', 'and on'])
})

test('sessions, their tails and their forks are there after a restart', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const first = await startService(onTestFinished, { env })
  const { id } = await create(first, { ...chat({ role: 'system', content: 'Be brief.' }, user('a?'), assistant('a.'), user('b?')), model: 'scripted/demo' })
  const before = (await first.call('GET', `/v1/sessions/${id}`)).body
  await first.stop()
  const second = await startService(onTestFinished, { env })
  expect((await second.call('GET', `/v1/sessions/${id}`)).body).toEqual(before)
  expect((await append(second, id, 4, assistant('b.'))).body).toEqual({ id, length: 5, turns: 2 })
  const fork = await second.start(forkOf(id))
  await second.result(fork.id)
  expect((await said(second, fork.id)).slice(0, 4)).toEqual(['a?', 'a.', 'b?', 'b.'])
})

test('2.4 the same key keeps one session, and grows it once', async () => {
  const service = await startService(onTestFinished)
  const key = { 'idempotency-key': 'k1' }
  const first = await service.call('POST', '/v1/sessions', chat(user('a?')), key)
  const again = await service.call('POST', '/v1/sessions', chat(user('a?')), key)
  expect([first.status, again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 200, 'true'])
  expect(again.body).toEqual(first.body)
  expect((await service.call('POST', '/v1/sessions', chat(user('b?')), key)).body).toMatchObject({ status: 422, code: 'IDEMPOTENCY_MISMATCH' })
  const grow = () => service.call('POST', `/v1/sessions/${first.body.id}/messages`, { after: 1, messages: [assistant('a.')] }, key)
  expect((await grow()).body).toEqual({ id: first.body.id, length: 2, turns: 1 })
  expect(await grow()).toMatchObject({ status: 200, body: { length: 2, turns: 1 } })
})

test('a host may choose the id of its session; one that is taken is a conflict', async () => {
  const service = await startService(onTestFinished)
  const id = '0193A7B2-6a5e-7c3d-8f10-2b4c6d8e0f99'
  expect(await service.call('POST', '/v1/sessions', { id })).toMatchObject({ status: 201, body: { id: id.toLowerCase() } })
  expect(await service.call('POST', '/v1/sessions', { id })).toMatchObject({ status: 409, body: { code: 'SESSION_CONFLICT' } })
  expect((await service.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
})
