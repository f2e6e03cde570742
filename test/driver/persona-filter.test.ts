import { expect, onTestFinished, test } from 'vitest'
import { openDriver } from '../support/driver-room.ts'
import { calls, callsAll, says } from '../support/recording-model.ts'
import { says as fakeSays } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { startService } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'
import type { ToolFilter } from '../../src/core/run.ts'

const tools = () => ['look', 'write', 'ask'].map((name) => serviceTool(name))
const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } } }

test('8.1 the persona shadows the deployment\'s for this child alone', async () => {
  const room = await openDriver(onTestFinished, { persona: 'deployment', acts: [says('a'), says('b'), says('c'), says('d')] })
  const own = await room.start({ persona: 'its own' })
  await own.result
  await (await room.start()).result
  await (await room.start({ persona: '' })).result
  await (await room.start({ parent: { runId: own.id, rootId: own.id } })).result
  expect(room.models.requests.map((request) => request.system)).toEqual([[{ text: 'its own' }], [{ text: 'deployment' }], [], [{ text: 'deployment' }]])
})

test('3.5, 8.1 the system prompt that came with a transcript goes with its turns: a spawn, or a fork of no turns, has the deployment\'s', async () => {
  const room = await openDriver(onTestFinished, { persona: 'deployment', acts: [says('a'), says('b')] })
  const parent = { system: [{ text: 'the host\'s' }] }
  await (await room.start({ parent })).result
  await (await room.providers.start('fork', room.request({ parent }))).result
  expect(room.models.requests.map((request) => request.system)).toEqual([[{ text: 'deployment' }], [{ text: 'deployment' }]])
})

test.each<[string, ToolFilter | undefined, string[]]>([
  ['omitted', undefined, ['look', 'write', 'ask']],
  ['allow', { allow: ['write', 'look'] }, ['look', 'write']],
  ['deny', { deny: ['look'] }, ['write', 'ask']],
  ['both', { allow: ['look', 'write'], deny: ['write'] }, ['look']],
  ['both, with nothing left', { allow: ['look'], deny: ['look'] }, []],
  ['an empty allow', { allow: [] }, []],
  ['an empty deny', { deny: [] }, ['look', 'write', 'ask']],
  ['an empty allow and a deny', { allow: [], deny: ['look'] }, []],
  ['a name twice', { allow: ['look', 'look'] }, ['look']]
])('8.2 the filter (%s) intersects, in the deployment\'s order', async (_, toolFilter, names) => {
  const room = await openDriver(onTestFinished, { tools: tools(), acts: [says('done')] })
  const run = await room.start(toolFilter ? { toolFilter } : {})
  await run.result
  expect(room.models.requests[0]?.tools.map((tool) => tool.name)).toEqual(names)
  const header = (await room.log(run)).find((event) => event.type === 'request/header')
  expect(header?.type === 'request/header' && header.data.tools.map((tool) => tool.name)).toEqual(names)
})

test.each<[string, object, ToolFilter, string]>([
  ['neither', {}, {}, 'toolFilter names neither allow nor deny'],
  ['one unknown', {}, { allow: ['look', 'nope'] }, 'toolFilter names unknown tool "nope"; known tools: ask, look, write'],
  ['several unknown, each once, in their order', {}, { allow: ['z', 'look', 'a'], deny: ['z', 'b'] }, 'toolFilter names unknown tools "z", "a", "b"; known tools: ask, look, write'],
  ['the child\'s own tool', { outputSchema: SCHEMA }, { deny: ['structured_output'] }, 'toolFilter names unknown tool "structured_output"; known tools: ask, look, write'],
  ['the transport', {}, { allow: ['run_code'] }, 'toolFilter names unknown tool "run_code"; known tools: ask, look, write'],
  ['a name of Object.prototype', {}, { deny: ['toString'] }, 'toolFilter names unknown tool "toString"; known tools: ask, look, write']
])('8.2 a filter that names %s refuses the start', async (_, more, toolFilter, message) => {
  const room = await openDriver(onTestFinished, { tools: tools() })
  await expect(room.start({ ...more, toolFilter })).rejects.toMatchObject({ code: 'TOOL_FILTER_INVALID', message })
})

test('8.2 where there is no tool at all the refusal says (none); an empty allow is still legal', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done')] })
  await expect(room.start({ toolFilter: { allow: ['a'] } })).rejects.toThrow('toolFilter names unknown tool "a"; known tools: (none)')
  expect(await (await room.start({ toolFilter: { allow: [] } })).result).toMatchObject({ stopReason: 'completed' })
})

test.each(['openai', 'anthropic'])('8.2 no tools, by allow: [] or because there are none: the request carries no tools field (%s)', async (kind) => {
  const upstream = await startFakeModelServer(onTestFinished, { fallback: fakeSays('ok') })
  const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: upstream.openaiUrl, ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: upstream.anthropicUrl, DEFAULT_MODEL: `${kind}/m` }
  const service = await startService(onTestFinished, { env, tools: tools() })
  const fields = async (body: object) => {
    const run = await service.start({ task: 't', ...body })
    await service.result(run.id)
    return Object.keys(upstream.requests.at(-1)?.json ?? {})
  }
  expect(await fields({ toolFilter: { allow: [] } })).not.toContain('tools')
  expect(await fields({})).toContain('tools')
  const bare = await startService(onTestFinished, { env })
  const run = await bare.start({ task: 't' })
  await bare.result(run.id)
  expect(Object.keys(upstream.requests.at(-1)?.json ?? {})).not.toContain('tools')
  // Omitted stays omitted through every layer.
  expect((await bare.app.store.getSpec('default', run.id))).not.toHaveProperty('toolFilter')
})

test('8.2 a filter reaches the host\'s tools and the deployment\'s alike', async () => {
  const room = await openDriver(onTestFinished, { tools: tools(), acts: [says('done')] })
  const hostTools = ['mine', 'yours'].map((name) => ({ name, description: '', inputSchema: {} }))
  await (await room.start({ toolFilter: { allow: ['mine', 'look'] }, service: { hostTools } })).result
  expect(room.models.requests[0]?.tools.map((tool) => tool.name)).toEqual(['mine', 'look'])
})

test('8.3 one view: a filtered tool that is called all the same is unknown, and is not executed', async () => {
  const all = tools()
  const room = await openDriver(onTestFinished, { tools: all, acts: [callsAll([{ name: 'write' }, { name: 'mine' }, { name: 'look' }]), says('done')] })
  const run = await room.start({ toolFilter: { allow: ['look'] }, service: { hostTools: [{ name: 'mine', description: '', inputSchema: {} }] } })
  await run.result
  const read = room.models.requests[1]?.messages.flatMap((message) => message.role === 'tool' ? [message.content[0]] : [])
  expect(read).toMatchObject([{ text: 'Error: unknown tool "write"' }, { text: 'Error: unknown tool "mine"' }, { text: 'look ran' }])
  expect(all.map((tool) => tool.inputs.length)).toEqual([1, 0, 0])
  expect((await room.log(run)).filter((event) => event.type === 'tool/call')).toHaveLength(1)
})

test('8.3 the child\'s own structured_output stands outside the filter', async () => {
  const room = await openDriver(onTestFinished, { tools: tools(), acts: [calls('structured_output', { n: 1 })] })
  const run = await room.start({ outputSchema: SCHEMA, toolFilter: { allow: [] } })
  expect(await run.result).toMatchObject({ stopReason: 'completed', structured: { n: 1 } })
  expect(room.models.requests[0]?.tools.map((tool) => tool.name)).toEqual(['structured_output'])
})

test('8.3 a host cannot take the name of a tool of the service\'s own', async () => {
  const room = await openDriver(onTestFinished, { tools: tools() })
  for (const name of ['look', 'structured_output', 'run_code', 'subagent', 'subagent_fork']) {
    const hostTools = [{ name, description: '', inputSchema: {} }]
    await expect(room.start({ service: { hostTools } })).rejects.toMatchObject({ code: 'TOOL_NAME_TAKEN', message: `tool name "${name}" is taken` })
  }
  const twice = [1, 2].map(() => ({ name: 'twice', description: '', inputSchema: {} }))
  await expect(room.start({ service: { hostTools: twice } })).rejects.toMatchObject({ code: 'TOOL_NAME_TAKEN' })
})

test('8.4 a child\'s scope is fresh: the parent\'s filter is not inherited', async () => {
  const room = await openDriver(onTestFinished, { tools: tools(), acts: [says('p'), says('c')] })
  const parent = await room.start({ toolFilter: { allow: ['look'] } })
  await parent.result
  await (await room.start({ parent: { runId: parent.id, rootId: parent.id } })).result
  expect(room.models.requests.map((request) => request.tools.length)).toEqual([1, 3])
})
