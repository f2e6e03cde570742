import { expect, onTestFinished, test } from 'vitest'
import { arrayOf, memberOf } from '../support/json-parts.ts'
import { callsAll, says, type FakeAnswer } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeModelServer, type FakeRequest } from '../support/fake-model-server.ts'
import { startService, type Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

/** 3.6: a fork keeps the prompt cache, so its requests begin with the very bytes of the parent's. */

type Kind = 'openai' | 'anthropic'
const KINDS: Kind[] = ['openai', 'anthropic']

interface Scene { upstream: FakeModelServer, service: Service }
async function scene (answers: FakeAnswer[], yaml?: string): Promise<Scene> {
  const upstream = await startFakeModelServer(onTestFinished, { answers, fallback: says('the end') })
  const service = await startService(onTestFinished, {
    tools: [
      serviceTool('look', (input) => `seen ${JSON.stringify(input)}`, { schema: { type: 'object', properties: { 2: { type: 'string' }, path: { type: 'string' }, 1: {} } } }),
      serviceTool('fail', () => { throw new Error('it broke') })
    ],
    env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: upstream.openaiUrl, ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: upstream.anthropicUrl },
    ...(yaml === undefined ? {} : { yaml })
  })
  return { upstream, service }
}

const messages = (request: FakeRequest | undefined): string[] => arrayOf(memberOf(request?.body ?? '', 'messages') ?? '[]')
const last = ({ upstream }: Scene): FakeRequest => upstream.requests.at(-1) as FakeRequest
/** What stands before the messages, as it was sent. */
const frame = (request: FakeRequest) => ({ system: memberOf(request.body, 'system'), tools: memberOf(request.body, 'tools') })

const STEPS: FakeAnswer[] = [
  callsAll([{ id: 'a', name: 'look', arguments: '{ "path": "x",  "2": "b", "1": 1.50 }' }, { id: 'b', name: 'fail', input: {} }], { text: 'I look.', reasoning: 'hm' }),
  callsAll([{ id: 'c', name: 'look', arguments: '{"big": 12345678901234567890}' }]),
  callsAll([{ id: 'd', name: 'nothing', arguments: '{"broken' }], { text: '' }),
  says('Here it is.')
]

test.each(KINDS)('3.6(a) a fork of a run keeps the bytes of the parent\'s request: system, tools, each message (%s)', async (kind) => {
  const it = await scene([...STEPS], 'persona: "You are the deployment\'s agent."')
  const parent = await it.service.start({ task: 'do it', agentOptions: { model: `${kind}/m` } })
  expect(await it.service.result(parent.id)).toMatchObject({ stopReason: 'completed' })
  const parents = last(it)
  expect(it.upstream.requests).toHaveLength(4)
  const child = await it.service.start({ provider: 'fork', parent: { runId: parent.id }, task: 'go on', agentOptions: { model: `${kind}/m` } })
  await it.service.result(child.id)
  const forked = last(it)
  expect(frame(forked)).toEqual(frame(parents))
  const [before, now] = [messages(parents), messages(forked)]
  expect(before.length).toBeGreaterThan(6)
  expect(now.slice(0, before.length)).toEqual(before)
  // Nothing but the parent's answer and the task follows.
  expect(now.slice(before.length).map((message) => (JSON.parse(message) as { role: string }).role)).toEqual(['assistant', 'user'])
  expect(now.at(-1)).toContain('go on')

  const grandchild = await it.service.start({ provider: 'fork', parent: { runId: child.id }, task: 'and on' })
  await it.service.result(grandchild.id)
  expect(messages(last(it)).slice(0, now.length)).toEqual(now)
  expect(frame(last(it))).toEqual(frame(parents))
})

test.each(KINDS)('2.6 each request of a run only appends to the one before it (%s)', async (kind) => {
  const it = await scene([...STEPS])
  const run = await it.service.start({ task: 'do it', agentOptions: { model: `${kind}/m` } })
  await it.service.result(run.id)
  const all = it.upstream.requests.map(messages)
  for (let i = 1; i < all.length; i++) expect(all[i]?.slice(0, all[i - 1]?.length)).toEqual(all[i - 1])
  expect(new Set(it.upstream.requests.map((request) => JSON.stringify(frame(request)))).size).toBe(1)
})

test.each(KINDS)('3.3 sibling forks get the same bytes, and nothing of each other (%s)', async (kind) => {
  const it = await scene([...STEPS])
  const parent = await it.service.start({ task: 'do it', agentOptions: { model: `${kind}/m` } })
  await it.service.result(parent.id)
  const before = it.upstream.requests.length
  const children = await Promise.all(['one', 'two', 'three'].map((task) => it.service.start({ provider: 'fork', parent: { runId: parent.id }, task })))
  await Promise.all(children.map((child) => it.service.result(child.id)))
  const prefixes = it.upstream.requests.slice(before).map((request) => JSON.stringify(messages(request).slice(0, -1)))
  expect(prefixes).toHaveLength(3)
  expect(new Set(prefixes).size).toBe(1)
})

/** What changes the prefix on purpose, and which part of it alone. */
const CHANGES: { what: string, body: object, model?: string, changes: string[] }[] = [
  { what: 'a persona', body: { persona: 'You are another.' }, changes: ['system'] },
  { what: 'tools of the host', body: { tools: [{ name: 'mine', description: 'd', inputSchema: {} }] }, changes: ['tools'] },
  { what: 'a filter', body: { toolFilter: { deny: ['fail'] } }, changes: ['tools'] },
  { what: 'an output schema', body: { outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } }, changes: ['system', 'tools'] },
  { what: 'another model of the kind', body: {}, model: 'other', changes: [] },
  { what: 'other limits, label, options, metadata and depth', body: { limits: { steps: 3 }, label: 'l', maxDepth: 9, metadata: { a: 'b' } }, changes: [] }
]
test.each(KINDS.flatMap((kind) => CHANGES.map((change) => ({ kind, ...change }))))('3.6 $what changes of the prefix: $changes ($kind)', async ({ kind, body, model = 'm', changes }) => {
  const it = await scene([...STEPS], 'persona: "You are the deployment\'s agent."')
  const parent = await it.service.start({ task: 'do it', agentOptions: { model: `${kind}/m` } })
  await it.service.result(parent.id)
  const parents = last(it)
  const before = it.upstream.requests.length
  const child = await it.service.start({ provider: 'fork', parent: { runId: parent.id }, task: 'go on', agentOptions: { model: `${kind}/${model}` }, ...body })
  await it.service.result(child.id)
  const forked = it.upstream.requests[before] as FakeRequest
  const head = kind === 'openai' ? 1 : 0
  const system = (request: FakeRequest) => kind === 'openai' ? messages(request)[0] : frame(request).system
  expect(system(forked) === system(parents)).toBe(!changes.includes('system'))
  expect(frame(forked).tools === frame(parents).tools).toBe(!changes.includes('tools'))
  const prefix = messages(parents).slice(head)
  expect(messages(forked).slice(head, head + prefix.length)).toEqual(prefix)
})

/** Verbatim messages of a host: integer-like keys, big numbers, odd spellings, unknown fields, an open call at the end. */
const TRANSCRIPTS: Record<Kind, { format: string, system: string, tools: string[], messages: string[], kept: number }> = {
  openai: {
    format: 'openai-chat',
    system: '"You are the host\\u2019s agent."',
    tools: ['{"type":"function","x-cache":{"2":1,"1":2},"function":{"strict":true,"parameters":{"properties":{"2":{"type":"string"},"1":{}},"type":"object"},"name":"read_file","description":"reads"}}'],
    messages: [
      '{"content":"first","role":"user","name":"ann"}',
      '{"role":"assistant","content":null,"reasoning_content":"thinking","tool_calls":[{"function":{"arguments":"{ \\"2\\": 1, \\"1\\": 12345678901234567890 }","name":"read_file"},"type":"function","id":"call_1","extra":{"10":1,"9":1.50}}]}',
      '{"tool_call_id":"call_1","role":"tool","content":[{"type":"text","text":"a\\u00e9\\ud83d\\ude00"}],"x":1e2}',
      '{"role":"assistant","content":"done","refusal":null,"annotations":[],"audio":{"id":9007199254740993}}',
      '{"role":"user","content":[{"type":"text","text":"second"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}',
      '{"role":"assistant","content":"also done"}',
      '{"role":"user","content":"third"}',
      '{"role":"assistant","content":null,"tool_calls":[{"id":"call_2","type":"function","function":{"name":"delegate","arguments":"{}"}}]}'
    ],
    kept: 6
  },
  anthropic: {
    format: 'anthropic',
    system: '[{"type":"text","text":"You are the host\\u2019s agent.","cache_control":{"type":"ephemeral"}}]',
    tools: ['{"input_schema":{"type":"object","properties":{"2":{"type":"string"},"1":{}}},"name":"read_file","cache_control":{"ttl":"1h","type":"ephemeral"},"description":"reads"}'],
    messages: [
      '{"content":"first","role":"user"}',
      '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln","x":1},{"type":"tool_use","input":{"2":1,"1":12345678901234567890,"a":1.50},"name":"read_file","id":"toolu_1"}]}',
      '{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a\\u00e9"}],"cache_control":{"type":"ephemeral"}}]}',
      '{"content":[{"citations":null,"type":"text","text":"done"}],"role":"assistant"}',
      '{"role":"user","content":[{"type":"text","text":"second"}]}',
      '{"role":"assistant","content":"also done"}',
      '{"role":"user","content":"third"}',
      '{"role":"assistant","content":[{"type":"tool_use","id":"toolu_2","name":"delegate","input":{}}]}'
    ],
    kept: 6
  }
}

const startText = (kind: Kind, more = ''): string => {
  const { format, system, tools, messages: list } = TRANSCRIPTS[kind]
  return `{"provider":"fork","task":"go on","parent":{"model":"m","transcript":{"format":"${format}","system":${system},"tools":[${tools.join()}],"messages":[${list.join()}]}}${more}}`
}

test.each(KINDS)('3.6(b) a fork of an inline transcript sends each message as the host wrote it, up to the cut (%s)', async (kind) => {
  const it = await scene([])
  const { status, body } = await it.service.call('POST', '/v1/runs', startText(kind))
  expect([status, body.model]).toEqual([201, `${kind}/m`])
  await it.service.result(body.id)
  const { system, tools, messages: list, kept } = TRANSCRIPTS[kind]
  const sent = messages(last(it))
  const head = kind === 'openai' ? 1 : 0
  if (kind === 'openai') expect(sent[0]).toBe(`{"role":"system","content":${system}}`)
  else expect(frame(last(it)).system).toBe(system)
  expect(sent.slice(head, head + kept)).toEqual(list.slice(0, kept))
  expect(sent.slice(head + kept)).toHaveLength(1)
  expect(sent.at(-1)).toContain('go on')
  expect(arrayOf(frame(last(it)).tools ?? '').slice(0, tools.length)).toEqual(tools)
})

test.each(KINDS)('3.6(b) the next step, and a fork of that child, keep the host\'s bytes too (%s)', async (kind) => {
  const it = await scene([callsAll([{ name: 'look', input: { path: 'a' } }]), says('looked')])
  const child = (await it.service.call('POST', '/v1/runs', startText(kind))).body
  await it.service.result(child.id)
  const [first, second] = it.upstream.requests.map(messages)
  expect(second?.slice(0, first?.length)).toEqual(first)
  expect(frame(it.upstream.requests[1] as FakeRequest)).toEqual(frame(it.upstream.requests[0] as FakeRequest))
  const grandchild = await it.service.start({ provider: 'fork', parent: { runId: child.id }, task: 'and on' })
  await it.service.result(grandchild.id)
  expect(messages(last(it)).slice(0, second?.length)).toEqual(second)
  expect(frame(last(it)).system).toEqual(frame(it.upstream.requests[0] as FakeRequest).system)
})

test.each(KINDS)('3.6 a persona changes the system of an inline fork, and it alone (%s)', async (kind) => {
  const it = await scene([])
  const plain = (await it.service.call('POST', '/v1/runs', startText(kind))).body
  await it.service.result(plain.id)
  const own = (await it.service.call('POST', '/v1/runs', startText(kind, ',"persona":"Another."'))).body
  await it.service.result(own.id)
  const [a, b] = it.upstream.requests as [FakeRequest, FakeRequest]
  expect(frame(b).tools).toBe(frame(a).tools)
  const head = kind === 'openai' ? 1 : 0
  expect(messages(b).slice(head)).toEqual(messages(a).slice(head))
  expect(kind === 'openai' ? messages(b)[0] : frame(b).system).toContain('Another.')
  expect(b.body).not.toContain('host')
})

test.each(KINDS)('3.6(b) the same holds for a session that the host registered, in pieces (%s)', async (kind) => {
  const it = await scene([])
  const { format, system, tools, messages: list, kept } = TRANSCRIPTS[kind]
  const created = await it.service.call('POST', '/v1/sessions', `{"model":"m","transcript":{"format":"${format}","system":${system},"tools":[${tools.join()}],"messages":[${list.slice(0, 2).join()}]}}`)
  expect(created.status).toBe(201)
  const grown = await it.service.call('POST', `/v1/sessions/${created.body.id}/messages`, `{"after":2,"messages":[${list.slice(2).join()}]}`)
  expect(grown.body).toMatchObject({ length: list.length, turns: 2 })
  const child = await it.service.start({ provider: 'fork', parent: { sessionId: created.body.id }, task: 'go on' })
  expect(child.seed.turns).toBe(2)
  await it.service.result(child.id)
  const head = kind === 'openai' ? 1 : 0
  expect(messages(last(it)).slice(head, head + kept)).toEqual(list.slice(0, kept))
  if (kind === 'anthropic') expect(frame(last(it)).system).toBe(system)
  expect(arrayOf(frame(last(it)).tools ?? '').slice(0, tools.length)).toEqual(tools)
})
