import { expect, test } from 'vitest'
import { refuse } from '../../src/core/errors.ts'
import { text } from '../../src/core/events.ts'
import { createApp, problem } from './app.ts'
import { RUN_ID, runView, settled } from './fake-runs.ts'
import type { Asked } from './fake-runs.ts'

test('5 a result: 200 when settled, 202 with the pending calls until then', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.run = runView(
    { status: 'waiting', pendingToolCalls: [{ toolCallId: 'c', name: 'n', input: { a: 1 }, deadline: 1_700_000_000_000 }] }
  )
  const early = await send('GET', `/v1/runs/${RUN_ID}/result`)
  expect([early.statusCode, early.headers['retry-after']]).toEqual([202, '1'])
  expect(early.json()).toEqual(
    {
      runId: RUN_ID, status: 'waiting',
      pendingToolCalls: [{ toolCallId: 'c', name: 'n', input: { a: 1 }, deadline: '2023-11-14T22:13:20.000Z' }]
    }
  )
  runs.run = settled({ stopReason: 'aborted', output: [] })
  expect((await send('GET', `/v1/runs/${RUN_ID}/result`)).json()).toEqual({
    runId: RUN_ID, stopReason: 'aborted', output: [], structured: null, diagnostic: null, error: null, usage: expect.any(Object),
    toolResult: { isError: true, content: [text('Error: subagent run was cancelled')] }
  })
})

test('5.2 the query\'s format beats the start\'s', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.run = settled()
  runs.relay = { format: 'anthropic', toolCallId: 'from-start' }
  expect((await send('GET', '/v1/runs/x/result')).json()).toMatchObject({ relayPart: { tool_use_id: 'from-start' } })
  expect((await send('GET', '/v1/runs/x/result?format=openai-chat')).json()).toMatchObject(
    { relay: { tool_call_id: 'from-start' } }
  )
  expect((await send('GET', '/v1/runs/x/result?toolCallId=q')).json()).toMatchObject({ relayPart: { tool_use_id: 'q' } })
  problem(await send('GET', '/v1/runs/x/result?format=ai-sdk'), 400, 'INVALID_REQUEST')
})

test('a result\'s wait is cut to the maximum and ends for a waiting run', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished, { maxWaitSeconds: 9 })
  await send('GET', '/v1/runs/x/result?wait=9007199254740991')
  expect(runs.asked.at(-1)).toMatchObject({ call: 'wait', args: ['x', { ms: 9000, orWaiting: true }] })
  await send('GET', '/v1/runs/x/result?wait=0')
  expect(runs.asked.at(-1)?.call).toBe('get')
})

test('cancel answers the run, waits for the tree, and knows a run that is still starting', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.run = runView({ cancel: { at: 1_700_000_000_000, reason: 'why', by: 'request' } })
  expect((await send('POST', `/v1/runs/${RUN_ID.toUpperCase()}/cancel`, { reason: 'why' })).json()).toMatchObject(
    { cancel: { at: '2023-11-14T22:13:20.000Z', reason: 'why', by: 'request' } }
  )
  expect(runs.asked).toMatchObject([{ call: 'cancel', args: [RUN_ID, 'why'] }])
  await send('POST', '/v1/runs/x/cancel?wait=2')
  expect(runs.asked.slice(-2)).toMatchObject(
    [{ call: 'cancel', args: ['x', null] }, { call: 'waitTree', args: ['x', { ms: 2000 }] }]
  )
  runs.override.cancel = async () => ({ starting: true })
  const starting = await send('POST', `/v1/runs/${RUN_ID}/cancel`)
  expect([starting.statusCode, starting.json()]).toEqual([202, { id: RUN_ID, status: 'starting' }])
})

test('cancel many takes exactly one filter', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  const answer = await send('POST', '/v1/runs/cancel', { label: 'x', reason: 'r' })
  expect([answer.statusCode, answer.json()]).toEqual([202, { matched: 3 }])
  expect(runs.asked).toMatchObject([{ call: 'cancelMany', args: [{ label: 'x' }, 'r'] }])
  for (const body of [{}, { reason: 'r' }, { label: 'x', root: 'y' }, { ids: [] }, { metadata: {} }]) problem(
    await send('POST', '/v1/runs/cancel', body), 400, 'INVALID_REQUEST'
  )
})

test('the list\'s filters reach the application', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  const answer = await send(
    'GET',
    '/v1/runs?status=running&status=waiting&stopReason=error&provider=p&parent=A&root=b&label=l&limit=7&cursor=z' +
    '&metadata.k=v&metadata.__proto__=w&createdAfter=2023-11-14T22:13:20Z&settledAfter=2023-11-14T23:13:20%2B01:00'
  )
  expect(answer.json()).toMatchObject({ runs: [{ id: RUN_ID }], nextCursor: null })
  const [filter, page] = (runs.asked[0] as Asked).args as [Record<string, unknown>, unknown]
  expect(filter).toMatchObject(
    {
      status: ['running', 'waiting'], stopReason: ['error'], provider: 'p', parent: 'a', root: 'b', label: 'l',
      createdAfter: 1_700_000_000_000, settledAfter: 1_700_000_000_000
    }
  )
  expect(Object.entries(filter['metadata'] as object)).toEqual([['k', 'v'], ['__proto__', 'w']])
  expect(page).toEqual({ limit: 7, cursor: 'z' })
  await send('GET', '/v1/runs')
  expect(runs.asked[1]?.args).toEqual([{}, { limit: 50 }])
})

test('include=result adds each settled run\'s result', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.override.list = async () => ({ runs: [settled(), runView()], nextCursor: 'n' })
  expect((await send('GET', '/v1/runs?include=result')).json()).toMatchObject(
    { runs: [{ result: { stopReason: 'completed' } }, { result: null }], nextCursor: 'n' }
  )
})

test('a tree is runs with children', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  expect((await send('GET', '/v1/runs/x/tree')).json()).toMatchObject(
    { id: RUN_ID, runningChildren: 0, children: [{ id: RUN_ID, children: [] }] }
  )
})

test('7.2 tool results go as blocks, all or nothing', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  const url = '/v1/runs/x/tool-results'
  expect(
    (
      await send(
        'POST', url, { results: [{ toolCallId: 'a', content: 'text' }, { toolCallId: 'b', content: [text('t')], isError: true }] }
      )
    ).statusCode
  ).toBe(200)
  expect(runs.asked[0]?.args.slice(0, 2)).toEqual(
    [
      'x',
      [{ toolCallId: 'a', content: [text('text')], isError: false }, { toolCallId: 'b', content: [text('t')], isError: true }]
    ]
  )
  for (
    const results of [
      [], [{ toolCallId: 'a' }], [{ toolCallId: 'a', content: 1 }],
      [{ toolCallId: 'a', content: '' }, { toolCallId: 'a', content: '' }]
    ]
  ) {
    problem(await send('POST', url, { results }), 400, 'INVALID_REQUEST')
  }
  runs.override.answerTools = async () => { throw refuse('TOOL_CALL_NOT_PENDING', { toolCallId: 'a', reason: 'answered' }) }
  expect(
    problem(await send('POST', url, { results: [{ toolCallId: 'a', content: '' }] }), 409, 'TOOL_CALL_NOT_PENDING')['reason']
  ).toBe('answered')
})

test('2.2 tool results wait as a start does', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.override.wait = async () => settled()
  const answer = await send(
    'POST', '/v1/runs/x/tool-results', { results: [{ toolCallId: 'a', content: 'b' }] }, { prefer: 'wait=4' }
  )
  expect(answer.headers['preference-applied']).toBe('wait=4')
  expect(answer.json()).toMatchObject({ status: 'settled', result: { stopReason: 'completed' } })
})

test('2.4 tool results take a key, and say when an answer is an earlier one', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.replayed = true
  const body = { results: [{ toolCallId: 'a', content: 'b' }] }
  const answer = await send('POST', '/v1/runs/x/tool-results', body, { 'idempotency-key': 'k' })
  expect([answer.statusCode, answer.headers['idempotency-replayed']]).toEqual([200, 'true'])
  expect(runs.asked[0]?.args[2]).toEqual({ key: 'k', bodyHash: expect.stringMatching(/^[0-9a-f]{64}$/) })
})

test('sessions are kept, read, grown and forgotten', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  const made = await send(
    'POST', '/v1/sessions',
    '{"transcript":{"format":"openai-chat","messages":[{"role":"user","content":"a" }]},' +
      '"model":"m","delegationDepth":"2","cwd":"/x"}',
    { 'idempotency-key': 'k' }
  )
  expect([made.statusCode, made.headers['location'], made.json()]).toEqual(
    [201, `/v1/sessions/${RUN_ID}`, { id: RUN_ID, length: 2, turns: 1 }]
  )
  expect(runs.asked[0]?.args).toMatchObject(
    [
      {
        transcript: { format: 'openai-chat', messages: ['{"role":"user","content":"a" }'] }, model: 'm', delegationDepth: '2',
        cwd: '/x', metadata: {}
      },
      { key: 'k' }
    ]
  )
  expect((await send('GET', '/v1/sessions/s')).json()).toMatchObject(
    { id: 's', length: 2, turns: 1, registered: true, createdAt: '2023-11-14T22:13:20.000Z' }
  )
  expect((await send('POST', '/v1/sessions/s/messages', '{"after":2,"messages":[{"b":1, "a":2}]}')).json()).toEqual(
    { id: 's', length: 2, turns: 1 }
  )
  expect(runs.asked.at(-1)?.args.slice(0, 3)).toEqual(['s', 2, ['{"b":1, "a":2}']])
  expect(
    problem(await send('POST', '/v1/sessions/s/messages', { after: 1, messages: [{}] }), 409, 'SESSION_CONFLICT')['length']
  ).toBe(2)
  expect((await send('DELETE', '/v1/sessions/s')).statusCode).toBe(204)
})

test('the catalogue says what there is', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  expect((await send('GET', '/v1')).json()).toMatchObject(
    { version: '1.2.3', features: expect.arrayContaining(['spawn', 'fork']) }
  )
  expect((await send('GET', '/v1/providers')).json()).toMatchObject({ providers: [{ name: 'spawn', available: true }] })
  expect((await send('GET', '/v1/tools')).json()).toEqual(
    { tools: [{ name: 'read_file', description: 'Reads.', inputSchema: { type: 'object' } }] }
  )
  expect((await send('GET', '/v1/models')).json()).toMatchObject({ models: [{ id: 'scripted/demo', default: true }] })
  expect((await send('GET', '/v1/agents')).json()).toEqual({ agents: [] })
})

test('health is alive; readiness says why not', async ({ onTestFinished }) => {
  let readiness: { ok: boolean, reason?: string } = { ok: true }
  const { send, runs } = createApp(onTestFinished, { ready: () => readiness })
  expect((await send('GET', '/readyz')).json()).toEqual({ status: 'ready' })
  readiness = { ok: false, reason: 'draining' }
  const draining = await send('GET', '/readyz')
  problem(draining, 503, 'SHUTTING_DOWN')
  expect(draining.headers['retry-after']).toBe('1')
  readiness = { ok: false, reason: 'store' }
  problem(await send('GET', '/readyz'), 503, 'STORE_UNAVAILABLE')
  expect((await send('GET', '/healthz')).json()).toEqual({ status: 'ok' })
  expect(runs.asked).toEqual([])
})

test('metrics are served where they are kept, and count requests by the pattern of their path', async ({ onTestFinished }) => {
  problem(await createApp(onTestFinished).send('GET', '/metrics'), 404, 'NOT_FOUND')
  const counted: object[] = []
  const { send } = createApp(onTestFinished, {
    metrics: {
      contentType: 'text/plain; version=0.0.4',
      text: async () => 'up 1\n',
      httpRequest: (request) => { counted.push(request) }
    }
  })
  const answer = await send('GET', '/metrics')
  expect([answer.headers['content-type'], answer.body]).toEqual(['text/plain; version=0.0.4', 'up 1\n'])
  await send('GET', '/v1/runs/some-id/tree')
  await send('POST', '/some/other/path', {})
  expect(counted).toEqual([
    { route: '/metrics', method: 'GET', status: 200, seconds: expect.any(Number) },
    { route: '/v1/runs/:id/tree', method: 'GET', status: 200, seconds: expect.any(Number) },
    { route: 'unknown', method: 'POST', status: 404, seconds: expect.any(Number) }
  ])
})

test('the documentation is served from here, and can load nothing from elsewhere', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  const page = await send('GET', '/docs', undefined, { accept: 'text/html' })
  expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/)
  const links = [...page.body.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link]) => link as string)
  expect(links.length).toBeGreaterThan(2)
  for (const link of links) {
    expect(link.startsWith('/docs/')).toBe(true)
    expect((await send('GET', link)).statusCode).toBe(200)
  }
  expect((await send('GET', '/docs/')).headers['location']).toBe('/docs')
  expect((await send('GET', '/openapi.json')).json()).toMatchObject({ openapi: '3.1.0' })
  problem(await send('GET', '/docs/index.html'), 404, 'NOT_FOUND')
  problem(await send('GET', '/docs/..%2fpackage.json'), 404, 'NOT_FOUND')
})
