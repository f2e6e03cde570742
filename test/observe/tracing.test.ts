import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { calls, fails, says } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { startOtlpReceiver, type OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts'
import { makeFolder, startService, type Service, type ServiceOptions } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

const HOST = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' }
const header = (flags = '01', { traceId, spanId } = HOST) => ({ traceparent: `00-${traceId}-${spanId}-${flags}` })

async function traced (options: ServiceOptions = {}): Promise<{ collector: OtlpReceiver, service: Service, spans: () => Promise<ReceivedSpan[]> }> {
  const collector = await startOtlpReceiver(onTestFinished)
  const service = await startService(onTestFinished, { ...options, env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...options.env } })
  return {
    collector, service, spans: async () => {
      // In no hurry, which would drop the last ones.
      await service.app.stop(new AbortController().signal)
      await service.stop()
      return collector.spans
    }
  }
}

const scripted = (script: unknown[]) => ({ model: 'scripted/demo', script })
const named = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan => {
  const found = spans.filter((span) => span.name === name)
  if (found.length !== 1 || !found[0]) throw new Error(`${found.length} spans are named ${name}`)
  return found[0]
}
const waits = { tools: [{ name: 'ask' }], agentOptions: scripted([{ call: { id: 'c', name: 'ask' } }, { say: 'done' }]) }
const answer = { results: [{ toolCallId: 'c', content: 'yes' }] }

test('a plain run is a trace of its own: the run, its step, its model call, by the GenAI conventions', async () => {
  const { service, collector, spans } = await traced()
  const run = await service.start({ task: 'Say hello', agentOptions: { model: 'scripted/demo', maxTokens: 100 } })
  const { usage } = await service.result(run.id)
  const all = await spans()
  expect(collector.tree()).toEqual(['invoke_agent spawn', '  step 1', '    chat demo'])
  expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1)
  const agent = named(all, 'invoke_agent spawn')
  expect(agent).toMatchObject({ kind: 'internal', parentSpanId: '', status: { code: 0 }, links: [], attributes: {
    'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'spawn', 'gen_ai.provider.name': 'scripted', 'gen_ai.request.model': 'demo',
    'gen_ai.conversation.id': run.sessionId, 'gen_ai.usage.input_tokens': usage.inputTokens, 'gen_ai.usage.output_tokens': usage.outputTokens,
    'subagentd.run.id': run.id, 'subagentd.run.tenant': 'default', 'subagentd.run.root_id': run.id, 'subagentd.run.stop_reason': 'completed'
  } })
  expect(agent.start).toBe(Date.parse(run.createdAt))
  expect(agent.end).toBeGreaterThanOrEqual(agent.start)
  expect(named(all, 'chat demo')).toMatchObject({ kind: 'client', status: { code: 0 }, attributes: {
    'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'scripted', 'gen_ai.request.model': 'demo', 'gen_ai.response.model': 'demo',
    'gen_ai.request.stream': true, 'gen_ai.request.max_tokens': 100, 'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.usage.input_tokens': usage.inputTokens, 'gen_ai.usage.output_tokens': usage.outputTokens
  } })
  expect(collector.resources[0]).toMatchObject({ 'service.name': 'subagentd', 'service.version': expect.any(String) })
})

test('tools stand under the step that calls them, a delegated child under the tool call that made it', async () => {
  const { service, collector, spans } = await traced({ yaml: 'delegation: true', tools: [serviceTool('look'), serviceTool('break', () => { throw new Error('no') })] })
  const run = await service.start({ task: 'x', agentOptions: scripted([
    { calls: [{ id: 'a', name: 'look', input: {} }] },
    { call: { id: 'b', name: 'subagent', input: { description: 'Part', prompt: 'Do the part' } } },
    { call: { id: 'd', name: 'break', input: {} } },
    { call: { id: 'e', name: 'unheard_of', input: {} } },
    { say: 'done' }
  ]) })
  await service.result(run.id)
  const all = await spans()
  expect(collector.tree()).toEqual([
    'invoke_agent spawn',
    '  step 1', '    chat demo', '    execute_tool look',
    '  step 2', '    chat demo', '    execute_tool subagent', '      invoke_agent spawn', '        step 1', '          chat demo',
    '  step 3', '    chat demo', '    execute_tool break',
    '  step 4', '    chat demo', '    execute_tool unknown',
    '  step 5', '    chat demo'
  ])
  expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1)
  expect(named(all, 'execute_tool look')).toMatchObject({ kind: 'internal', status: { code: 0 }, attributes: {
    'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look', 'gen_ai.tool.call.id': 'a', 'gen_ai.tool.type': 'extension'
  } })
  expect(named(all, 'execute_tool break')).toMatchObject({ status: { code: 2, message: '' }, attributes: { 'error.type': 'tool_error' } })
  const [root, child] = all.filter(({ name }) => name === 'invoke_agent spawn').toSorted((a, b) => a.parentSpanId.length - b.parentSpanId.length)
  expect(child?.attributes).toMatchObject({ 'subagentd.run.parent_id': run.id, 'subagentd.run.root_id': run.id, 'subagentd.run.depth': 2 })
  expect(root?.attributes['subagentd.run.steps']).toBe(5)
})

test('each attempt of a model call is a span: the failed one with its error type, then the one that was answered', async () => {
  const models = await startFakeModelServer(onTestFinished, { answers: [fails('status429'), says('ok', { usage: { input: 9, cached: 4, output: 2 } })] })
  const { service, collector, spans } = await traced({ env: { OPENAI_BASE_URL: models.openaiUrl, OPENAI_API_KEY: 'sk-canary-in-a-trace' }, random: () => 0 })
  const run = await service.start({ task: 'x', agentOptions: { model: 'openai/gpt-5-mini', temperature: 0.5 } })
  await service.result(run.id)
  const all = await spans()
  expect(collector.tree()).toEqual(['invoke_agent spawn', '  step 1', '    chat gpt-5-mini', '    chat gpt-5-mini'])
  const [first, second] = all.filter(({ name }) => name === 'chat gpt-5-mini').toSorted((a, b) => a.start - b.start)
  const { hostname, port } = new URL(models.url)
  expect(first).toMatchObject({ kind: 'client', status: { code: 2, message: '' }, attributes: {
    'error.type': 'MODEL_RATE_LIMITED', 'gen_ai.provider.name': 'openai', 'gen_ai.request.temperature': 0.5, 'server.address': hostname,
    'server.port': Number(port), 'gen_ai.response.finish_reasons': ['error'], 'subagentd.step.attempt': 1
  } })
  expect(first?.attributes['gen_ai.usage.input_tokens']).toBeUndefined()
  expect(second).toMatchObject({ status: { code: 0 }, attributes: {
    'gen_ai.response.finish_reasons': ['stop'], 'gen_ai.usage.input_tokens': 9, 'gen_ai.usage.cache_read.input_tokens': 4, 'gen_ai.usage.output_tokens': 2,
    'subagentd.step.attempt': 2
  } })
  expect(second?.start).toBeGreaterThanOrEqual((first?.end ?? 0) + 250)
  expect(named(all, 'invoke_agent spawn').status.code).toBe(0)
})

test('a run that fails for good has its code on the call and on the run; a cancelled run is no error', async () => {
  const { service, spans } = await traced()
  const failed = await service.start({ task: 'x', agentOptions: scripted([{ fail: { code: 'MODEL_AUTH', message: 'a canary in an error' } }]) })
  const hanging = await service.start({ task: 'x', agentOptions: scripted([{ hang: true }]) })
  await service.result(failed.id)
  await service.call('POST', `/v1/runs/${hanging.id}/cancel?wait=10`, {})
  const all = await spans()
  const of = (id: string): ReceivedSpan[] => {
    const run = all.find((span) => span.attributes['subagentd.run.id'] === id)
    return all.filter(({ traceId }) => traceId === run?.traceId)
  }
  for (const name of ['chat demo', 'invoke_agent spawn']) {
    expect(named(of(failed.id), name)).toMatchObject({ status: { code: 2, message: '' }, attributes: { 'error.type': 'MODEL_AUTH' } })
    expect(named(of(hanging.id), name)).toMatchObject({ status: { code: 0 } })
  }
  expect(named(of(hanging.id), 'invoke_agent spawn').attributes['subagentd.run.stop_reason']).toBe('aborted')
  expect(named(of(hanging.id), 'chat demo').attributes['gen_ai.response.finish_reasons']).toEqual(['error'])
})

test('the host\'s traceparent and tracestate are the parent of the run and of all below it', async () => {
  const { service, spans } = await traced({ yaml: 'delegation: true' })
  const run = await service.start(
    { task: 'x', agentOptions: scripted([{ call: { name: 'subagent', input: { description: 'd', prompt: 'p' } } }, { say: 'ok' }]) },
    { ...header(), tracestate: 'vendor=1' }
  )
  await service.result(run.id)
  const all = await spans()
  expect(all).toHaveLength(9)
  expect(all.filter(({ traceId, state }) => traceId === HOST.traceId && state === 'vendor=1')).toHaveLength(9)
  expect(all.filter(({ parentSpanId }) => parentSpanId === HOST.spanId).map(({ attributes }) => attributes['subagentd.run.id'])).toEqual([run.id])
})

test.each([
  ['a trace that its host does not sample is not sent', header('00'), 0, undefined],
  ['a malformed traceparent is ignored', { traceparent: '00-xyz-1-01' }, 3, undefined],
  ['always_on sends it all the same', header('00'), 3, 'always_on'],
  ['always_off sends nothing', header('01'), 0, 'always_off'],
  ['parentbased_always_off sends what its host samples', header('01'), 3, 'parentbased_always_off'],
  ['and nothing else', {}, 0, 'parentbased_always_off']
])('sampling: %s', async (_, headers, count, sampler) => {
  const { service, spans } = await traced(sampler === undefined ? {} : { env: { OTEL_TRACES_SAMPLER: sampler } })
  const run = await service.start({ task: 'x' }, headers)
  await service.result(run.id)
  expect(await spans()).toHaveLength(count)
})

test('a child started over HTTP stands under its parent\'s run; with a traceparent under its host, linked to its parent', async () => {
  const { service, spans } = await traced()
  const parent = await service.start({ task: 'x', ...waits }, { prefer: 'wait=5' })
  const one = await service.start({ task: 'x', parent: { runId: parent.id } })
  const two = await service.start({ task: 'x', parent: { runId: parent.id } }, header())
  await service.result(one.id)
  await service.result(two.id)
  await service.call('POST', `/v1/runs/${parent.id}/tool-results`, answer)
  await service.result(parent.id)
  const all = await spans()
  const of = (id: string): ReceivedSpan => all.find(({ attributes }) => attributes['subagentd.run.id'] === id) as ReceivedSpan
  const { traceId, spanId } = of(parent.id)
  expect(of(one.id)).toMatchObject({ traceId, parentSpanId: spanId, links: [] })
  expect(of(two.id)).toMatchObject({ traceId: HOST.traceId, parentSpanId: HOST.spanId, links: [{ traceId, spanId }] })
})

test('what a host says to a run, such as an answer, links its trace to the run; a follow-up stands under it', async () => {
  const { service, spans } = await traced()
  const run = await service.start({ task: 'x', ...waits }, { prefer: 'wait=5' })
  await service.call('POST', `/v1/runs/${run.id}/tool-results`, answer, header())
  await service.result(run.id)
  const { body: later } = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'more', mode: 'follow-up' }, { ...header(), prefer: 'wait=5' })
  await service.call('POST', `/v1/runs/${later.id}/tool-results`, { results: [{ toolCallId: 'c_2', content: 'yes' }] }, { ...header(), prefer: 'wait=5' })
  const all = await spans()
  const of = (id: string): ReceivedSpan => all.find(({ attributes }) => attributes['subagentd.run.id'] === id) as ReceivedSpan
  expect(of(run.id)).toMatchObject({ parentSpanId: '', links: [HOST] })
  expect(of(run.id).traceId).not.toBe(HOST.traceId)
  expect(of(later.id)).toMatchObject({ traceId: HOST.traceId, parentSpanId: HOST.spanId, attributes: {
    'subagentd.run.continues': run.id, 'gen_ai.conversation.id': run.sessionId
  } })
  expect(all.filter(({ name }) => name === 'execute_tool ask').map(({ attributes }) => attributes['gen_ai.tool.type'])).toEqual(['function', 'function'])
})

test.each([['its host\'s', header()], ['its own', {}]])('a run that a restart takes up goes on in %s trace, and each span is told once', async (_, headers) => {
  const env = { DATABASE_URL: `sqlite:${makeFolder(onTestFinished)}/x.db` }
  const first = await traced({ env })
  const run = await first.service.start({ task: 'x', ...waits }, { ...headers, prefer: 'wait=5' })
  const child = await first.service.start({ task: 'x', parent: { runId: run.id }, ...waits }, { prefer: 'wait=5' })
  const before = [...await first.spans()]
  expect(before.map(({ name }) => name)).toEqual(['chat demo', 'chat demo'])
  const second = await traced({ env })
  for (const { id } of [run, child]) {
    await second.service.call('POST', `/v1/runs/${id}/tool-results`, answer)
    await second.service.result(id)
  }
  const all = [...before, ...await second.spans()]
  expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1)
  expect(new Set(all.map(({ spanId }) => spanId)).size).toBe(all.length)
  const of = (id: string): ReceivedSpan => all.find(({ attributes }) => attributes['subagentd.run.id'] === id) as ReceivedSpan
  expect(of(run.id)).toMatchObject({ start: Date.parse(run.createdAt), parentSpanId: 'traceparent' in headers ? HOST.spanId : '' })
  expect(of(child.id).parentSpanId).toBe(of(run.id).spanId)
  const known = new Set([...all.map(({ spanId }) => spanId), HOST.spanId, ''])
  expect(all.filter(({ parentSpanId }) => !known.has(parentSpanId))).toEqual([])
  expect(all).toHaveLength(12)
})

test('a follow-up without a traceparent begins its own trace, whatever its first run stood in', async () => {
  const { service, spans } = await traced()
  const run = await service.start({ task: 'x' }, { ...header(), prefer: 'wait=5' })
  const { body: later } = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'more', mode: 'follow-up' }, { prefer: 'wait=5' })
  expect(await service.app.store.getSpec('default', run.id)).toHaveProperty('trace', { traceparent: header().traceparent })
  expect(await service.app.store.getSpec('default', later.id)).not.toHaveProperty('trace')
  expect((await spans()).find(({ attributes }) => attributes['subagentd.run.id'] === later.id)).toMatchObject({ parentSpanId: '' })
})

test('a follow-up knows its tools, though the model is not told of them again: a call that is refused has its name', async () => {
  const { service, spans } = await traced({ tools: [serviceTool('look')] })
  const run = await service.start({ task: 'x', agentOptions: scripted([{ call: { name: 'look', arguments: '{' } }, { say: 'done' }]) }, { prefer: 'wait=5' })
  const { body: later } = await service.call('POST', `/v1/runs/${run.id}/messages`, { content: 'more', mode: 'follow-up' }, { prefer: 'wait=5' })
  expect((await service.log(later.id)).filter(({ type }) => type === 'request/header')).toHaveLength(1)
  expect((await service.log(later.id)).filter(({ type }) => type === 'tool/call')).toHaveLength(0)
  expect((await spans()).filter(({ name }) => name === 'execute_tool look')).toHaveLength(2)
})

test('names that come from elsewhere are bounded, and hold no secret of the configuration', async () => {
  const models = await startFakeModelServer(onTestFinished, { answer: () => says('ok') })
  const { service, collector, spans } = await traced({ env: { OPENAI_BASE_URL: models.openaiUrl, OPENAI_API_KEY: 'sk-canary-in-a-trace' } })
  for (const model of ['x'.repeat(249), 'is-sk-canary-in-a-trace']) await service.result((await service.start({ task: 'x', agentOptions: { model: `openai/${model}` } })).id)
  expect((await spans()).filter(({ name }) => name.startsWith('chat ')).map(({ name }) => name.length).toSorted((a, b) => a - b)).toEqual(['chat is-[redacted]'.length, 128])
  expect(collector.raw()).not.toContain('sk-canary')
})

test('of the traces that have to do with a run, no more than 32 are linked', async () => {
  const { service, spans } = await traced()
  const run = await service.start({ task: 'x', ...waits }, { prefer: 'wait=5' })
  const traces = Array.from({ length: 40 }, (_, at) => ({ traceId: at.toString(16).padStart(32, 'a'), spanId: HOST.spanId }))
  for (const trace of traces) await service.call('POST', `/v1/runs/${run.id}/tool-results`, { results: [{ toolCallId: 'none', content: 'x' }] }, header('01', trace))
  await service.call('POST', `/v1/runs/${run.id}/tool-results`, answer)
  await service.result(run.id)
  expect(named(await spans(), 'invoke_agent spawn').links).toEqual(traces.slice(0, 32))
})

test('a request that an HTTP tool makes carries the trace on, below its call', async () => {
  const asked: Record<string, unknown>[] = []
  const server = createServer((request, response) => { asked.push(request.headers); response.end('ok') })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => { server.close() })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const tool = `description: d, inputSchema: {type: object}, method: GET, url: "${url}"`
  const yaml = `outbound: {allow: ["127.0.0.1"]}\ntools: {get: {${tool}}, own: {${tool}, headers: {traceparent: mine}}}`
  const { service, spans } = await traced({ yaml })
  const run = { task: 'x', agentOptions: scripted([{ call: { name: 'get' } }, { call: { name: 'own' } }, { say: 'ok' }]) }
  await service.result((await service.start(run, { ...header(), tracestate: 'v=1' })).id)
  await service.result((await service.start(run, header('00'))).id)
  const { spanId } = named(await spans(), 'execute_tool get')
  expect(asked.map(({ traceparent, tracestate }) => [traceparent, tracestate])).toEqual([
    [`00-${HOST.traceId}-${spanId}-01`, 'v=1'], ['mine', undefined], [expect.stringMatching(new RegExp(`^00-${HOST.traceId}-.{16}-00$`)), undefined], ['mine', undefined]
  ])
})

test('no prompt, output, argument, result, label or message of an error is in a trace', async () => {
  const models = await startFakeModelServer(onTestFinished, { answers: [
    calls('look', { secret: 'canary' }, { text: 'canary' }), fails('status400', { message: 'your prompt was: canary' })
  ] })
  const { service, collector, spans } = await traced({
    env: { OPENAI_BASE_URL: models.openaiUrl, OPENAI_API_KEY: 'sk-canary' }, tools: [serviceTool('look', () => 'canary')]
  })
  const run = await service.start({
    task: 'canary', label: 'canary', persona: 'canary', metadata: { canary: 'canary' }, agentOptions: { model: 'openai/m' }
  })
  expect((await service.result(run.id)).stopReason).toBe('error')
  expect(await spans()).toHaveLength(6)
  expect(collector.raw()).toContain('execute_tool look')
  expect(collector.raw()).not.toContain('canary')
})

test('the collector gets the headers and the resource that are configured', async () => {
  const { service, collector, spans } = await traced({ env: {
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc', OTEL_SERVICE_NAME: 'kids', OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test'
  } })
  await service.result((await service.start({ task: 'x' })).id)
  await spans()
  expect(collector.requests).toEqual([{ path: '/v1/traces', headers: expect.objectContaining({ authorization: 'Bearer abc', 'content-type': 'application/x-protobuf' }) }])
  expect(collector.resources).toEqual([{ 'service.name': 'kids', 'service.version': expect.any(String), 'deployment.environment.name': 'test' }])
})
