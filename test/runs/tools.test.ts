import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { calls, callsAll, says, type FakeAnswer } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeModelServer, type FakeRequest } from '../support/fake-model-server.ts'
import { sent } from '../support/sent.ts'
import { makeFolder, startService, type AtEnd, type Service, type ServiceOptions } from '../support/service.ts'

const bin = (name: string): string => new URL(`../../node_modules/.bin/${name}`, import.meta.url).pathname

async function withModel (atEnd: AtEnd, answers: FakeAnswer[] | ((request: FakeRequest) => FakeAnswer), options: ServiceOptions = {}): Promise<{ service: Service, models: FakeModelServer }> {
  const models = await startFakeModelServer(atEnd, typeof answers === 'function' ? { answer: answers } : { answers })
  const service = await startService(atEnd, { ...options, env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m', ...options.env } })
  return { service, models }
}

const run = (code: string, id = 'p1'): FakeAnswer => calls('run_code', { code }, { id })
const resultOf = (models: FakeModelServer, n: number): string => String(sent(models, n).messages.at(-1)?.content)
const toolNames = (models: FakeModelServer): unknown => sent(models, 0).tools?.map((tool) => tool.function.name)
const hostTool = { name: 'read_file', description: 'reads', inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } }

test('10 in mode code the wire carries run_code alone, a direct call is explained, and programs call the host\'s tools', async ({ onTestFinished }) => {
  const { service, models } = await withModel(onTestFinished, [
    calls('read_file', { path: 'a' }, { id: 'd1' }),
    run('const [a, b] = await Promise.all([tools.read_file({ path: "a" }), tools.read_file({ path: "b" })]); return a + b'),
    says('done')
  ])
  const started = await service.start({ task: 'go', tools: [hostTool], codeMode: 'code' }, { prefer: 'wait=10' })
  const asked: string[] = []
  while (asked.length < 2) {
    const { body } = await service.call('GET', `/v1/runs/${started.id}`)
    const pending = body.pendingToolCalls as { toolCallId: string, input: { path: string } }[]
    asked.push(...pending.map(({ toolCallId }) => toolCallId))
    const results = pending.map(({ toolCallId, input }) => ({ toolCallId, content: `<${input.path}>` }))
    if (results.length > 0) expect((await service.call('POST', `/v1/runs/${started.id}/tool-results`, { results })).status).toBe(200)
  }
  expect(asked.toSorted()).toEqual(['p1:code:1', 'p1:code:2'])
  expect(await service.result(started.id)).toMatchObject({ stopReason: 'completed' })
  expect(toolNames(models)).toEqual(['run_code'])
  expect(resultOf(models, 1)).toBe('Error: unknown tool "read_file": only `run_code` is callable directly — call `read_file` from inside a `run_code` program instead')
  expect(resultOf(models, 2)).toContain('<a><b>')
})

test('9.4 a value staged inside run_code is captured by that run_code\'s own success, and dropped by its failure', async ({ onTestFinished }) => {
  const { service, models } = await withModel(onTestFinished, [
    run('await tools.structured_output({ n: 1 }); throw new Error("late")'),
    run('await tools.structured_output({ n: 2 }); return "ok"', 'p2')
  ])
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const started = await service.start({ task: 'go', outputSchema, codeMode: 'code' })
  expect(await service.result(started.id)).toMatchObject({ stopReason: 'completed', structured: { n: 2 } })
  expect(models.requests).toHaveLength(2)
  expect(resultOf(models, 1)).toMatch(/^Error: code run failed \(runtime\): .*late/)
})

test('10 in mode both the tools stand beside run_code', async ({ onTestFinished }) => {
  const { service, models } = await withModel(onTestFinished, [says('ok')])
  const started = await service.start({ task: 'go', tools: [hostTool], codeMode: 'both' })
  await service.result(started.id)
  expect(toolNames(models)).toEqual(['read_file', 'run_code'])
})

test('a child reads files through a public MCP server, delegates twice in parallel and returns structured output', async ({ onTestFinished }) => {
  const folder = makeFolder(onTestFinished)
  mkdirSync(`${folder}/docs`)
  writeFileSync(`${folder}/docs/notes.txt`, 'buy milk')
  const yaml = `
delegation: true
mcp:
  files:
    command: ${process.execPath}
    args: [${bin('mcp-server-filesystem')}, ${folder}/docs]
`
  const { service, models } = await withModel(onTestFinished, (request) => {
    const messages = request.json.messages as { role: string, content: unknown }[]
    const text = String(messages.at(-1)?.content)
    if (text === 'root') return calls('files__read_text_file', { path: `${folder}/docs/notes.txt` }, { id: 'm1' })
    if (text.includes('buy milk') && messages.length < 5) return callsAll(['a', 'b'].map((n) => ({ id: n, name: 'subagent', input: { description: n, prompt: `check ${n}` } })))
    if (/^check .$/.test(text)) return says(`${text} is fine`)
    return calls('structured_output', { note: 'buy milk', checks: messages.filter(({ role }) => role === 'tool').slice(-2).map(({ content }) => String(content)) })
  }, { yaml })
  const outputSchema = { type: 'object', properties: { note: { type: 'string' }, checks: { type: 'array', items: { type: 'string' } } }, required: ['note', 'checks'] }
  const started = await service.start({ task: 'root', outputSchema })
  expect(await service.result(started.id)).toMatchObject({ structured: { note: 'buy milk', checks: ['check a is fine', 'check b is fine'] } })
  const listed = await service.call('GET', '/v1/tools')
  expect(listed.body.tools.map((tool: { name: string }) => tool.name)).toEqual(expect.arrayContaining(['files__read_text_file', 'subagent']))
  expect(models.requests.length).toBe(5)
})

test('an HTTP tool is called as configured, where the outbound rules let it', async ({ onTestFinished }) => {
  const server = createServer((request, response) => { response.end(`you asked ${request.url} as ${String(request.headers['x-who'])}`) })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => { server.close() })
  const { port } = server.address() as AddressInfo
  const tool = (allow: string): string => `
outbound: { allow: [${allow}] }
tools:
  lookup:
    description: Looks a word up
    url: http://127.0.0.1:${port}/words/{word}
    method: GET
    headers: { x-who: me }
    inputSchema: { type: object, properties: { word: { type: string } }, required: [word] }
`
  const ask = async (yaml: string): Promise<string> => {
    const { service, models } = await withModel(onTestFinished, [calls('lookup', { word: 'a b' }), says('ok')], { yaml })
    await service.result((await service.start({ task: 'go' })).id)
    return resultOf(models, 1)
  }
  expect(await ask(tool(`"127.0.0.1:${port}"`))).toBe('you asked /words/a%20b as me')
  await expect(ask(tool(''))).rejects.toThrow('requests to "127.0.0.1" are not allowed')
})

test('a named agent gives a start what it leaves open; the start\'s own fields win', async ({ onTestFinished }) => {
  const agents = [{ name: 'reviewer', description: 'Reviews', persona: 'You review.', model: 'openai/big', maxDepth: 1 }]
  const { service, models } = await withModel(onTestFinished, [says('a'), says('b')], { agents })
  expect((await service.call('GET', '/v1/agents')).body).toEqual({ agents: [{ name: 'reviewer', description: 'Reviews', model: 'openai/big' }] })
  await service.result((await service.start({ task: 'x', agent: 'reviewer' })).id)
  await service.result((await service.start({ task: 'x', agent: 'reviewer', persona: 'You praise.', agentOptions: { model: 'openai/small' } })).id)
  expect(models.requests.map(({ json }) => [json.model, (json.messages as object[])[0]])).toEqual([
    ['big', { role: 'system', content: 'You review.' }], ['small', { role: 'system', content: 'You praise.' }]
  ])
  expect(await service.call('POST', '/v1/runs', { task: 'x', agent: 'reviewer', parent: { delegationDepth: 1 } })).toMatchObject({ status: 422 })
  expect(await service.call('POST', '/v1/runs', { task: 'x', agent: 'nobody' })).toMatchObject({ status: 400, body: { errors: [{ pointer: '/agent' }] } })
})

test('7.1 a model\'s call id that reads as a program\'s is another: each call has its own answer, and cancel leaves none', async ({ onTestFinished }) => {
  const { service } = await withModel(onTestFinished, [callsAll([
    { id: 'p1:code:1', name: 'read_file', input: { path: 'a' } }, { id: 'p1', name: 'run_code', input: { code: 'return await tools.read_file({ path: "b" })' } }
  ])])
  const started = await service.start({ task: 'go', tools: [hostTool], codeMode: 'both' }, { prefer: 'wait=10' })
  const cancelled = await service.call('POST', `/v1/runs/${started.id}/cancel?wait=10`)
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted', pendingToolCalls: [] })
})

test('a tool of the configuration cannot take a name of the service\'s own', async ({ onTestFinished }) => {
  const yaml = 'tools: { run_code: { description: x, url: "https://example.com/", inputSchema: { type: object } } }'
  await expect(startService(onTestFinished, { yaml })).rejects.toThrow('tools.run_code: the name is taken')
})

test('§2 a program that waits for the host holds no slot, and has one again before it goes on', async ({ onTestFinished }) => {
  const { service } = await withModel(onTestFinished, [
    run('return await tools.read_file({ path: "a" })'), says('other done'), says('done')
  ], { env: { MAX_RUNNING: '1' } })
  const waiting = await service.start({ task: 'go', tools: [hostTool], codeMode: 'code' }, { prefer: 'wait=10' })
  expect(waiting.status).toBe('waiting')
  const other = await service.start({ task: 'other' })
  expect(await service.result(other.id)).toMatchObject({ output: [{ text: 'other done' }] })
  await service.call('POST', `/v1/runs/${waiting.id}/tool-results`, { results: [{ toolCallId: 'p1:code:1', content: 'x' }] })
  expect(await service.result(waiting.id)).toMatchObject({ output: [{ text: 'done' }] })
})
