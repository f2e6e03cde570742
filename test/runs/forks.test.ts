import { expect, onTestFinished, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { says } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeModelServer } from '../support/fake-model-server.ts'
import { startService, type Service } from '../support/service.ts'
import { COMPLETED_TEXTS, OPEN_DELEGATIONS, type Fixture } from '../support/transcripts.ts'
import { busy, createGate, playHost } from './busy-run.ts'

const FORMATS = Object.entries(OPEN_DELEGATIONS)
const RELAYS = { events: 'mcp', 'openai-chat': 'openai-chat', 'openai-responses': 'openai-responses', anthropic: 'anthropic', 'ai-sdk': 'ai-sdk' } as const
const SCRIPTED = { agentOptions: { model: 'scripted/demo' } }
const fork = (transcript: object, more: object = {}): object => ({ provider: 'fork', parent: { transcript }, task: 'Find out why.', ...more })
const types = (events: readonly SessionEvent[]): string[] => events.map(({ type }) => type)
const ownHeader = async (service: Service, id: string): Promise<{ system: { text: string }[], tools: { name: string }[] } | undefined> => {
  const found = (await service.log(id)).findLast((event) => event.type === 'request/header' && event.data.reason !== 'transcript')
  return found?.type === 'request/header' ? found.data : undefined
}
/** A service with a fake server for each kind of real model. */
async function withServers (): Promise<{ service: Service, server: FakeModelServer }> {
  const server = await startFakeModelServer(onTestFinished, { fallback: says('It is a race.') })
  const env = { OPENAI_BASE_URL: server.openaiUrl, OPENAI_API_KEY: 'k', ANTHROPIC_BASE_URL: server.anthropicUrl, ANTHROPIC_API_KEY: 'k' }
  return { service: await startService(onTestFinished, { env }), server }
}

test.for(FORMATS)('3.6 a transcript in %s with its delegation open forks into a child of the completed turns', async ([format, { transcript, toolCallId }]) => {
  const service = await startService(onTestFinished)
  const relay = { toolCallId, toolName: 'delegate', format: RELAYS[format as keyof typeof RELAYS] }
  const child = await service.start(fork(transcript, { ...relay, ...SCRIPTED }))
  expect(child).toMatchObject({ provider: 'fork', depth: 1, seed: { turns: 1, events: expect.any(Number) }, parent: { runId: null, sessionId: null } })
  const result = await service.result(child.id)
  expect(result).toMatchObject({ stopReason: 'completed', output: [{ text: 'Scripted answer to: Find out why.' }] })
  if (relay.format !== 'mcp') expect(JSON.stringify(result.relayPart)).toContain(toolCallId)
  const log = await service.log(child.id)
  const seed = log.slice(0, child.seed.events)
  expect(types(seed).filter((type) => type !== 'request/header')).toEqual([
    'turn/start', 'user/message', 'step/start', 'assistant/message', ...(format === 'events' ? ['tool/call'] : []), 'tool/result', 'step/end',
    'step/start', 'assistant/message', 'step/end', 'turn/end'
  ])
  expect(JSON.stringify(seed)).toContain(COMPLETED_TEXTS.found)
  expect(JSON.stringify(seed)).not.toContain(toolCallId)
  expect(log.slice(child.seed.events).filter(({ type }) => type === 'turn/start' || type === 'user/message')).toMatchObject([
    { data: { turn: 2, origin: 'task' } }, { data: { content: [{ type: 'text', text: 'Find out why.' }] } }
  ])
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, seq) => seq))
})

test.for(FORMATS)('4.3 the child has the system prompt and the tools of a transcript in %s; a call to one is the host\'s', async ([, { transcript }]) => {
  const service = await startService(onTestFinished)
  const script = [{ call: { name: 'delegate', input: { description: 'a', prompt: 'b' } } }, { say: 'done' }]
  const child = await service.start(fork(transcript, { agentOptions: { model: 'scripted/demo', script } }), { prefer: 'wait=20' })
  expect(child).toMatchObject({ status: 'waiting', pendingToolCalls: [{ name: 'delegate', input: { description: 'a', prompt: 'b' } }] })
  await playHost(service, child.id)
  expect(await ownHeader(service, child.id)).toMatchObject({ system: [{ text: COMPLETED_TEXTS.instructions }], tools: expect.arrayContaining([expect.objectContaining({ name: 'delegate' })]) })
})

test('4.3 `tools` in the start stand in place of the transcript\'s, an empty list too', async () => {
  const service = await startService(onTestFinished)
  const { transcript } = OPEN_DELEGATIONS.anthropic
  for (const tools of [[{ name: 'look', description: 'looks', inputSchema: { type: 'object' } }], []]) {
    const child = await service.start(fork(transcript, { tools, ...SCRIPTED }))
    await service.result(child.id)
    expect((await ownHeader(service, child.id))?.tools.map(({ name }) => name)).toEqual(tools.map(({ name }) => name))
  }
})

test('8.1 a persona shadows the transcript\'s system prompt', async () => {
  const service = await startService(onTestFinished)
  const child = await service.start(fork(OPEN_DELEGATIONS.anthropic.transcript, { persona: 'You find races.', ...SCRIPTED }))
  await service.result(child.id)
  expect(JSON.stringify((await ownHeader(service, child.id))?.system)).not.toContain('look after the repository')
})

test.for([['openai-chat', 'openai/gpt-5-mini'], ['anthropic', 'anthropic/claude-sonnet-5']] as const)(
  '3.6 a model of the kind of %s gets every message before the cut as the host sent it', async ([format, model]) => {
    const { service, server } = await withServers()
    const { transcript, cut }: Fixture = OPEN_DELEGATIONS[format]
    const child = await service.start(fork(transcript, { agentOptions: { model, maxTokens: 100 } }))
    expect(child.notices).toEqual([])
    expect(await service.result(child.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'It is a race.' }] })
    const json = (await server.received(0)).json as { messages: unknown[], tools: unknown, system?: unknown }
    expect(json.messages.slice(0, cut)).toEqual(transcript.messages.slice(0, cut))
    expect(JSON.stringify(json.messages.slice(0, cut))).toBe(JSON.stringify(transcript.messages.slice(0, cut)))
    expect(json.messages).toHaveLength(cut + 1)
    expect(JSON.stringify(json.messages.at(-1))).toContain('Find out why.')
    expect(json.tools).toEqual(transcript.tools)
    expect(json.system).toEqual(transcript.system)
  })

test.for([['openai-chat', 'anthropic/claude-sonnet-5'], ['anthropic', 'openai/gpt-5-mini'], ['openai-responses', 'anthropic/claude-sonnet-5'], ['ai-sdk', 'openai/gpt-5-mini']] as const)(
  '4.2 a transcript in %s goes to %s too, translated', async ([format, model]) => {
    const { service, server } = await withServers()
    const { transcript, toolCallId }: Fixture = OPEN_DELEGATIONS[format]
    const child = await service.start(fork(transcript, { agentOptions: { model, maxTokens: 100 } }))
    expect(await service.result(child.id)).toMatchObject({ stopReason: 'completed' })
    const { body } = await server.received(0)
    for (const said of [COMPLETED_TEXTS.ask, COMPLETED_TEXTS.result, COMPLETED_TEXTS.found, COMPLETED_TEXTS.instructions]) expect(body).toContain(said)
    expect(body).not.toContain(toolCallId)
    const loses = format !== 'openai-chat'
    expect(child.notices).toEqual(loses ? expect.arrayContaining([expect.stringMatching(/^the model does not see this part of the transcript: /)]) : [])
  })

test('4.4 a model without an endpoint is one of the transcript\'s kind', async () => {
  const { service } = await withServers()
  const parentOf = (format: keyof typeof OPEN_DELEGATIONS): object => ({ provider: 'fork', task: 'a', parent: { model: 'some-model', transcript: OPEN_DELEGATIONS[format].transcript } })
  expect((await service.start(parentOf('anthropic'))).model).toBe('anthropic/some-model')
  expect((await service.start(parentOf('openai-chat'))).model).toBe('openai/some-model')
  expect((await service.start(parentOf('openai-responses'))).model).toBe('openai/some-model')
})

test('3.4 a transcript without a completed turn makes a fresh child, with the transcript\'s tools', async () => {
  const service = await startService(onTestFinished)
  const { tools, messages } = OPEN_DELEGATIONS['openai-chat'].transcript
  for (const open of [[], messages.slice(1, 2), messages.slice(1, 3), messages.slice(1, 4)]) {
    const child = await service.start(fork({ format: 'openai-chat', tools, messages: open }, SCRIPTED))
    expect(child.seed).toEqual({ turns: 0, events: 0 })
    await service.result(child.id)
    expect((await service.log(child.id))[0]).toMatchObject({ seq: 0, type: 'turn/start', data: { turn: 1 } })
    expect((await ownHeader(service, child.id))?.tools.map(({ name }) => name)).toEqual(['run_tests', 'delegate'])
  }
})

test('4 a transcript with spawn is refused by its place', async () => {
  const service = await startService(onTestFinished)
  const { transcript } = OPEN_DELEGATIONS.anthropic
  for (const provider of [{ provider: 'spawn' }, {}]) {
    const answer = await service.call('POST', '/v1/runs', { ...provider, task: 'a', parent: { transcript } })
    expect(answer).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', errors: [{ pointer: '/parent/transcript' }] } })
  }
})

test('4.5 a malformed transcript is 422 TRANSCRIPT_INVALID with the index and the reason, and leaves no run', async () => {
  const service = await startService(onTestFinished)
  const user = { role: 'user', content: 'a?' }
  const malformed: [transcript: object, where: string, pointer: string][] = [
    [{ format: 'openai-chat', messages: [user, { role: 'nobody', content: 'x' }] }, 'messages[1]', '/messages/1'],
    [{ format: 'openai-chat', messages: [user, 7] }, 'messages[1]', '/messages/1'],
    [{ format: 'openai-chat', messages: [user, { role: 'assistant', content: 'a' }, { role: 'tool', tool_call_id: 'x', content: 'y' }] }, 'messages[2]', '/messages/2'],
    [{ format: 'anthropic', messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] }, 'messages[0]', '/messages/0'],
    [{ format: 'openai-responses', messages: [user, { type: 'function_call', name: 'x' }] }, 'messages[1]', '/messages/1'],
    [{ format: 'ai-sdk', messages: [user, { role: 'tool', content: 'x' }] }, 'messages[1]', '/messages/1'],
    [{ format: 'events', messages: [{ type: 'nothing' }] }, 'messages[0]', '/messages/0'],
    [{ format: 'anthropic', system: 7, messages: [user] }, 'system', '/system'],
    [{ format: 'anthropic', tools: [{ name: 7 }], messages: [user] }, 'tools[0]', '/tools/0']
  ]
  for (const [transcript, where, pointer] of malformed) {
    const { status, body } = await service.call('POST', '/v1/runs', fork(transcript))
    expect([where, status, body.code]).toEqual([where, 422, 'TRANSCRIPT_INVALID'])
    expect(body.detail).toMatch(new RegExp(`^transcript\\.${where.replaceAll(/[[\]]/g, '\\$&')}: .+`))
    expect(body.pointer ?? body.errors?.[0]?.pointer).toBe(`/parent/transcript${pointer}`)
    expect(body.toolResult).toEqual({ isError: true, content: [{ type: 'text', text: `Error: ${body.detail}` }] })
  }
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
})

test('3.2, 3.3 a fork of a run in mid-turn has its completed turns only; siblings get the same prefix, the parent\'s log stays', async () => {
  const gate = createGate()
  const service = await startService(onTestFinished, { tools: [gate.tool] })
  const first = await service.start({ task: 'one', agentOptions: { script: [{ say: 'first' }] } })
  await service.result(first.id)
  const parent = await service.start({ provider: 'fork', ...busy({ task: 'two', parent: { runId: first.id } }) })
  await service.call('GET', `/v1/runs/${parent.id}/result?wait=10`)
  const before = await service.log(parent.id)
  const siblings = await Promise.all(Array.from({ length: 4 }, (_, n) => service.start({ provider: 'fork', parent: { runId: parent.id }, task: `child ${n}` })))
  expect(await service.log(parent.id)).toEqual(before)
  await playHost(service, parent.id)
  const prefix = (await service.log(first.id)).slice(0, parent.seed.events)
  for (const child of siblings) {
    await service.result(child.id)
    expect(child).toMatchObject({ seed: { turns: 1, events: parent.seed.events }, depth: 3, rootId: first.id })
    const log = await service.log(child.id)
    expect(log.slice(0, child.seed.events)).toEqual(prefix)
    expect(JSON.stringify(log)).not.toContain('read_file')
  }
  const after = await service.start({ provider: 'fork', parent: { runId: parent.id }, task: 'later' })
  expect(after.seed.turns).toBe(2)
  gate.open()
})

test('a fork of a fork of a fork holds every turn before it, in order', async () => {
  const service = await startService(onTestFinished)
  let runId: string | undefined
  for (let n = 1; n <= 6; n++) {
    const child = await service.start({ provider: 'fork', ...(runId === undefined ? {} : { parent: { runId } }), task: `task ${n}`, agentOptions: { script: [{ say: `answer ${n}` }] } })
    await service.result(child.id)
    runId = child.id
    const log = await service.log(child.id)
    const texts = log.flatMap((event) => event.type === 'user/message' || event.type === 'assistant/message'
      ? [event.data.content.map((part) => part.type === 'text' ? part.text : '').join('')]
      : [])
    expect(texts).toEqual(Array.from({ length: n }, (_, i) => [`task ${i + 1}`, `answer ${i + 1}`]).flat())
    expect(log.flatMap((event) => event.type === 'turn/start' ? event.data.turn : [])).toEqual(Array.from({ length: n }, (_, i) => i + 1))
  }
})

test('a spawn from a run takes its lineage and model, and none of its history', async () => {
  const service = await startService(onTestFinished)
  const parent = await service.start({ task: 'one', agentOptions: { model: 'scripted/other' } })
  await service.result(parent.id)
  const child = await service.start({ task: 'two', parent: { runId: parent.id } })
  expect(child).toMatchObject({ provider: 'spawn', seed: { turns: 0, events: 0 }, model: 'scripted/other', depth: 2, rootId: parent.id })
  await service.result(child.id)
  expect(JSON.stringify(await service.log(child.id))).not.toContain('one')
})

test('a child stands in its parent\'s directory, whether the parent is open, settled, or the host\'s own', async () => {
  const service = await startService(onTestFinished)
  const cwdOf = async (id: string): Promise<string | undefined> => (await service.app.store.getSession('default', id))?.header.cwd
  const first = await service.start({ task: 'a', parent: { cwd: '/work' }, agentOptions: { script: [{ hang: true }] } })
  const open = await service.start({ task: 'b', parent: { runId: first.id } })
  await service.result(open.id)
  const settled = await service.start({ task: 'c', parent: { runId: open.id } })
  expect(await Promise.all([first, open, settled].map(({ id }) => cwdOf(id)))).toEqual(['/work', '/work', '/work'])
})

test('4.2 tools that another vendor runs are no functions of the child\'s model, and a notice says so', async () => {
  const models = await startFakeModelServer(onTestFinished, { answers: [says('ok')] })
  const service = await startService(onTestFinished, { env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m' } })
  const transcript = {
    format: 'openai-responses', tools: [{ type: 'web_search' }],
    messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }]
  }
  const run = await service.start({ provider: 'fork', task: 'c', parent: { transcript } })
  expect(run.notices).toEqual(['the model does not have these tools of another API: web_search'])
  await service.result(run.id)
  expect(models.requests[0]?.json).not.toHaveProperty('tools')
})
