import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'
import { named, readEvents } from '../support/sse.ts'

const names = { toolCallId: 'call_1', toolName: 'delegate' }
const FORMATS = ['anthropic', 'openai-chat', 'openai-responses', 'ai-sdk', 'mcp'] as const
type Format = (typeof FORMATS)[number]

/** The message and the part that answer call_1 with one text, in each format. */
function relayed (format: Format, said: string, isError: boolean): { relay?: object, relayPart?: object } {
  switch (format) {
    case 'anthropic': {
      const part = { type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: said }], ...(isError ? { is_error: true } : {}) }
      return { relay: { role: 'user', content: [part] }, relayPart: part }
    }
    case 'openai-chat': {
      const message = { role: 'tool', tool_call_id: 'call_1', content: said }
      return { relay: message, relayPart: message }
    }
    case 'openai-responses': {
      const item = { type: 'function_call_output', call_id: 'call_1', output: said }
      return { relay: item, relayPart: item }
    }
    case 'ai-sdk': {
      const part = { type: 'tool-result', toolCallId: 'call_1', toolName: 'delegate', output: { type: isError ? 'error-text' : 'text', value: said } }
      return { relay: { role: 'tool', content: [part] }, relayPart: part }
    }
    case 'mcp': return {}
  }
}
const relayOf = ({ relay, relayPart }: { relay?: object, relayPart?: object }): object =>
  ({ ...(relay === undefined ? {} : { relay }), ...(relayPart === undefined ? {} : { relayPart }) })
const run = (script: object[], more: object = {}): object => ({ task: 'a', agentOptions: { script }, ...more })
const settle = async (service: Service, body: object): Promise<string> => {
  const { id } = await service.start(body)
  await service.result(id)
  return id
}

test.for(FORMATS)('5.2 a result in %s, as the start asked for it', async (format) => {
  const service = await startService(onTestFinished)
  const done = await service.result(await settle(service, run([{ say: 'the answer' }], { format, ...names })))
  expect(relayOf(done)).toEqual(relayed(format, 'the answer', false))
  const failed = await service.result(await settle(service, run([{ maxTokens: '' }], { format, ...names })))
  expect(relayOf(failed)).toEqual(relayed(format, 'Error: subagent run hit its token limit before finishing', true))
  expect(failed.toolResult.content[0].text).toBe('Error: subagent run hit its token limit before finishing')
})

test.for(FORMATS)('5.2 a result in %s, as the query asks for it', async (format) => {
  const service = await startService(onTestFinished)
  const id = await settle(service, run([{ say: 'the answer' }]))
  expect(relayOf(await service.result(id))).toEqual({})
  const { body } = await service.call('GET', `/v1/runs/${id}/result?format=${format}&toolCallId=call_1&toolName=delegate`)
  expect(relayOf(body)).toEqual(relayed(format, 'the answer', false))
})

test.for(FORMATS)('5.1, 5.2 a refusal in %s', async (format) => {
  const service = await startService(onTestFinished)
  const asked = { task: 'a', format, ...names }
  const refusals: [body: object, status: number, code: string, detail: string][] = [
    [{ parent: { delegationDepth: 3 }, maxDepth: 3 }, 422, 'DEPTH_EXCEEDED', 'subagent depth 4 exceeds maxDepth 3'],
    [{ maxDepth: null }, 422, 'MAX_DEPTH_INVALID', 'subagent maxDepth must be a non-negative safe integer'],
    [{ parent: { subagentDepth: '1' } }, 422, 'DEPTH_INVALID', 'agent subagentDepth must be a non-negative safe integer'],
    [{ provider: 'x' }, 422, 'NO_PROVIDER', 'no subagent provider registered for "x"'],
    [{ toolFilter: {} }, 422, 'TOOL_FILTER_INVALID', 'toolFilter names neither allow nor deny'],
    [{ parent: { runId: '0199d2a8-1c00-7000-8000-000000000000' } }, 404, 'RUN_NOT_FOUND', 'no run "0199d2a8-1c00-7000-8000-000000000000"']
  ]
  for (const [more, status, code, detail] of refusals) {
    const { status: got, headers, body } = await service.call('POST', '/v1/runs', { ...asked, ...more })
    expect([got, headers.get('content-type')]).toEqual([status, 'application/problem+json'])
    expect(body).toMatchObject({ status, code, detail, toolResult: { isError: true, content: [{ type: 'text', text: `Error: ${detail}` }] } })
    expect(relayOf(body)).toEqual(relayed(format, `Error: ${detail}`, true))
    expect(body.requestId).toBe(headers.get('x-request-id'))
  }
})

test('5.1 a refused start leaves no run behind', async () => {
  const service = await startService(onTestFinished)
  await service.call('POST', '/v1/runs', { task: 'a', maxDepth: 0 })
  await service.call('POST', '/v1/runs', { task: 'a', provider: 'x' })
  expect((await service.call('GET', '/v1/runs')).body).toEqual({ runs: [], nextCursor: null })
})

test('5.2 a streamed `settled`, a waiting start, a page and a list relay as the result does', async () => {
  const service = await startService(onTestFinished)
  const body = run([{ say: 'the answer' }], { format: 'anthropic', ...names, label: 'relayed' })
  const expected = relayed('anthropic', 'the answer', false)
  const { body: waited } = await service.call('POST', '/v1/runs', body, { prefer: 'wait=20' })
  expect(relayOf(waited.result)).toEqual(expected)
  const streamed = await (await readEvents(service, waited.id)).all()
  expect(relayOf(named(streamed, 'settled')[0]?.data.data)).toEqual(expected)
  const { body: page } = await service.call('GET', `/v1/runs/${waited.id}/events`)
  expect(relayOf(page.events.at(-1).data)).toEqual(expected)
  const { body: list } = await service.call('GET', '/v1/runs?include=result&label=relayed')
  expect(relayOf(list.runs[0].result)).toEqual(expected)
})

test('5.2 a child\'s result in its root\'s tree is not relayed by the root\'s call id', async () => {
  const service = await startService(onTestFinished)
  const root = await settle(service, run([{ say: 'root' }], { format: 'anthropic', ...names }))
  const child = await settle(service, { task: 'b', parent: { runId: root } })
  const events = await (await readEvents(service, root, { tree: true })).all()
  const [settled] = named(events, 'run/settled')
  expect(settled?.data.runId).toBe(child)
  expect(settled?.data.data).not.toHaveProperty('relay')
  expect(named(events, 'settled')[0]?.data.data).toHaveProperty('relay')
})

test('5.2 the structured value of a result goes where each format has a place for it', async () => {
  const service = await startService(onTestFinished)
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const id = await settle(service, run([{ call: { name: 'structured_output', input: { n: 3 } } }], { outputSchema }))
  const inFormat = async (format: Format): Promise<object> => relayOf((await service.call('GET', `/v1/runs/${id}/result?format=${format}&toolCallId=call_1&toolName=delegate`)).body)
  for (const format of ['anthropic', 'openai-chat', 'openai-responses'] as const) expect(await inFormat(format)).toEqual(relayed(format, '{"n":3}', false))
  expect(await inFormat('ai-sdk')).toMatchObject({ relayPart: { output: { type: 'json', value: { n: 3 } } } })
})

test('5.2 `ai-sdk` needs a tool name: refused before anything starts, and in the query', async () => {
  const service = await startService(onTestFinished)
  const start = await service.call('POST', '/v1/runs', { task: 'a', format: 'ai-sdk', toolCallId: 'call_1' })
  expect(start).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', errors: [{ pointer: '/toolName' }] } })
  const id = await settle(service, run([{ say: 'x' }]))
  const query = await service.call('GET', `/v1/runs/${id}/result?format=ai-sdk&toolCallId=call_1`)
  expect(query).toMatchObject({ status: 400, body: { errors: [{ pointer: '/toolName' }] } })
  expect((await service.call('GET', '/v1/runs')).body.runs).toHaveLength(1)
})
