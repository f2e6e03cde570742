import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { readEvents } from '../support/sse.ts'
import { startService } from '../support/service.ts'
import {
  agentCall, assistant, fork, init, lifecycle, notified, replay, result, stream, streamed, taskStart, toolResult, toolUse, userText, words
} from '../providers/claude-code/play.ts'
import { RECORDINGS } from '../providers/claude-code/recordings.ts'
import { eventsOf, ingest, linesOf, lineOf, NAMES, openPiece, post, recorded, runOf, startChat, storyOf, treeOf, untilAccepted } from './chats.ts'

const inChild = (tag: string, said: string) => assistant(words(said), { tag })
const problem = (pointer: string) => ({ status: 400, body: { code: 'INVALID_REQUEST', errors: expect.arrayContaining([expect.objectContaining({ pointer })]) } })

test('ingest: a chat needs no task; any other start does, and names it', async () => {
  const service = await startService(onTestFinished)
  expect(await service.call('POST', '/v1/runs', { provider: 'claude-code', ingest: true })).toMatchObject({
    status: 201, body: { provider: 'claude-code', status: 'idle', depth: 1, model: 'claude-code/default', framesAccepted: 0, externalId: null, runningChildren: 0, label: null }
  })
  for (const body of [{}, { provider: 'claude-code' }, { provider: 'claude-code', ingest: false }]) {
    expect(await service.call('POST', '/v1/runs', body)).toMatchObject(problem('/task'))
  }
})

test.for([
  ['keepOpen', true], ['persona', 'You are …'], ['toolFilter', { allow: ['Read'] }], ['outputSchema', { type: 'object' }], ['agentOptions', { model: 'x' }],
  ['agent', 'reviewer'], ['tools', [{ name: 'a' }]], ['codeMode', 'native'], ['limits', { steps: 3 }]
] as const)('ingest: only who runs the CLI decides %s', async ([field, value]) => {
  const service = await startService(onTestFinished)
  const body = { provider: 'claude-code', ingest: true, [field]: value }
  expect(await service.call('POST', '/v1/runs', body)).toMatchObject(problem(`/${field}`))
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
})

test('ingest: another provider has none, and maxDepth is nothing that the CLI promises', async () => {
  const service = await startService(onTestFinished)
  for (const provider of ['spawn', 'fork']) {
    expect(await service.call('POST', '/v1/runs', { provider, task: 'a', ingest: true })).toMatchObject(problem('/ingest'))
  }
  const body = { provider: 'claude-code', ingest: true, maxDepth: 3 }
  expect(await service.call('POST', '/v1/runs', body)).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
})

test('ingest: a chat is a child of its parent, its subagents are one deeper, and only the chat meets MAX_DEPTH', async () => {
  const service = await startService(onTestFinished, { env: { MAX_DEPTH: '2' } })
  const parent = await service.start({ task: 'stay', agentOptions: { script: [{ hang: true }] } })
  const id = await startChat(service, { parent: { runId: parent.id }, label: 'the chat', metadata: { of: 'host' } })
  await post(service, id, linesOf(init(), replay('u-1', 'go'), agentCall('a-1')))
  const tree = await treeOf(service, parent.id)
  expect(tree.children[0]).toMatchObject({ id, depth: 2, parent: { runId: parent.id, sessionId: parent.sessionId }, rootId: parent.id, label: 'the chat', metadata: { of: 'host' } })
  expect(tree.children[0]?.children[0]).toMatchObject({ depth: 3, parent: { runId: id }, rootId: parent.id })
  const inline = await startChat(service, { parent: { subagentDepth: 1 } })
  expect(await runOf(service, inline)).toMatchObject({ depth: 2, parent: { runId: null, sessionId: null } })
  const deep = { provider: 'claude-code', ingest: true, parent: { subagentDepth: 2 } }
  expect(await service.call('POST', '/v1/runs', deep)).toMatchObject({ status: 422, body: { code: 'DEPTH_EXCEEDED', detail: 'subagent depth 3 exceeds maxDepth 2' } })
  expect(await service.call('POST', '/v1/runs', { ...deep, parent: { runId: tree.children[0]?.children[0]?.id } })).toMatchObject({ status: 422, body: { code: 'DEPTH_EXCEEDED' } })
})

test('2.4 a start under a key that made a chat before gives that chat', async () => {
  const service = await startService(onTestFinished)
  const body = { provider: 'claude-code', ingest: true, task: 'go' }
  const first = await service.call('POST', '/v1/runs', body, { 'idempotency-key': 'k' })
  const again = await service.call('POST', '/v1/runs', body, { 'idempotency-key': 'k' })
  expect([first.status, again.status, again.body.id, again.headers.get('idempotency-replayed')]).toEqual([201, 200, first.body.id, 'true'])
  expect(await service.call('POST', '/v1/runs', { ...body, task: 'stop' }, { 'idempotency-key': 'k' })).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } })
})

test('ingest: the rows follow every piece: running while a turn or a child is open, else idle; running children are the running rows', async () => {
  const service = await startService(onTestFinished)
  for (const name of NAMES) {
    const id = await startChat(service)
    let seen = 0
    for (const [i, line] of recorded(name).entries()) {
      await post(service, id, `${line}\n`, { from: i })
      const tree = await treeOf(service, id)
      const running = tree.children.filter(({ status }) => status === 'running').length
      const turns = (await eventsOf(service, id, false)).map(({ type }) => type)
      const isOpen = turns.lastIndexOf('turn/start') > turns.lastIndexOf('turn/end')
      expect(tree).toMatchObject({ runningChildren: running, framesAccepted: i + 1 })
      if (isOpen || running > 0) expect(tree.status).toBe('running')
      seen = Math.max(seen, running)
    }
    const { most, children } = RECORDINGS.find((each) => each.name === name) ?? { most: 0, children: [] }
    expect([name, seen]).toEqual([name, most])
    await post(service, id, '', { from: recorded(name).length, end: true })
    const tree = await treeOf(service, id)
    expect(tree).toMatchObject({ status: 'settled', runningChildren: 0 })
    expect(tree.children.map(({ externalId, label, stopReason, depth, status }) => [externalId, label, stopReason, depth, status]))
      .toEqual(children.map(([externalId, label, reason]) => [externalId, label, reason, 2, 'settled']))
  }
})

test('ingest: a chat is idle between its turns, and its session\'s id and model are shown once the CLI told them', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(lifecycle('u-1', 'queued')))
  expect(await runOf(service, id)).toMatchObject({ status: 'running', externalId: null, model: 'claude-code/default' })
  await post(service, id, linesOf(lifecycle('u-1', 'started'), init({ session_id: 'cli-7', model: 'opus' }), ...streamed('m', 'said')), { from: 1 })
  expect(await runOf(service, id)).toMatchObject({ status: 'running', externalId: 'cli-7', model: 'claude-code/opus' })
  await post(service, id, linesOf(result(), lifecycle('u-1', 'completed')), { from: (await runOf(service, id)).framesAccepted })
  expect(await runOf(service, id)).toMatchObject({ status: 'idle', stopReason: null })
})

test('B2 B6 a child\'s log is its own transcript, opened with its prompt, and the tree has one order', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await ingest(service, id, recorded('two subagents side by side'))
  const tree = await treeOf(service, id)
  const [one, two] = tree.children
  const said = async (runId: string | undefined) => (await eventsOf(service, runId ?? '', false))
    .flatMap(({ type, data }) => type === 'user/message' || type === 'assistant/message' ? [`${type} ${data.content[0].text}`] : [type])
  expect(await said(one?.id)).toEqual([
    'turn/start', 'user/message please a-1', 'step/start', 'assistant/message north', 'step/end', 'step/start', 'assistant/message again', 'step/end', 'turn/end', 'run/settled'
  ].map((type) => type === 'run/settled' ? 'settled' : type))
  expect(await said(two?.id)).toContain('assistant/message south')
  const order = (await eventsOf(service, id)).filter(({ type }) => /subagent|settled|turn|tool\/result/.test(type)).map(({ runId, type, data }) =>
    `${runId === id ? 'chat' : runId === one?.id ? 'one' : 'two'} ${type}${data.runId === undefined || runId !== id ? '' : data.runId === one?.id ? ' one' : data.runId === two?.id ? ' two' : ''}`)
  expect(order).toEqual([
    'chat turn/start', 'chat subagent/start one', 'one turn/start', 'chat subagent/start two', 'two turn/start', 'two turn/end', 'two run/settled', 'chat subagent/end two',
    'chat tool/result', 'chat tool/result', 'one turn/end', 'one run/settled', 'chat subagent/end one', 'chat turn/end', 'chat settled'
  ])
  expect(await service.call('GET', `/v1/runs/${one?.id}/result`)).toMatchObject({ body: { stopReason: 'error', error: { code: 'MODEL_ERROR' } } })
  expect(await service.call('GET', `/v1/runs/${two?.id}/result`)).toMatchObject({ body: { toolResult: { isError: false, content: [{ text: 'south' }] } } })
})

test('A6 the result is the last user-opened turn\'s: a wake turn\'s is not, and its words stay out of it', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await ingest(service, id, recorded('a subagent in the background'))
  expect(await service.call('GET', `/v1/runs/${id}/result`)).toMatchObject({
    body: { stopReason: 'completed', output: [{ type: 'text', text: 'started' }], toolResult: { isError: false, content: [{ type: 'text', text: 'started' }] } }
  })
  const failing = await startChat(service)
  await ingest(service, failing, [
    init(), replay('u-1', 'go'), ...streamed('m', 'first'), result(), replay('u-2', 'on'), ...streamed('n', 'second'), result({ subtype: 'error_max_turns', is_error: true, result: 'too many turns' })
  ].map(lineOf))
  expect(await service.call('GET', `/v1/runs/${failing}/result`)).toMatchObject({ body: { stopReason: 'error', error: { code: 'LIMIT_STEPS', message: 'too many turns' }, toolResult: { isError: true } } })
})

test('ingest: usage is summed over the messages and the cost is the session\'s last; treeUsage has the children\'s', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const lines = [
    init(), replay('u-1', 'go'), agentCall('a-1'), inChild('a-1', 'inside'), notified('t', 'completed', { tool_use_id: 'a-1' }), toolResult('a-1', 'ok'),
    ...streamed('m', 'said'), result({ total_cost_usd: 0.25 }), replay('u-2', 'on'), ...streamed('n', 'again'), result({ total_cost_usd: 0.5 })
  ].map(lineOf)
  await post(service, id, linesOf(...lines))
  const run = await runOf(service, id)
  expect(run.usage).toMatchObject({ inputTokens: 21, outputTokens: 6, steps: 3, cost: 0.5 })
  expect(run.treeUsage).toMatchObject({ inputTokens: 28, steps: 4, cost: 0.5 })
  await post(service, id, '', { from: lines.length, end: true })
  expect((await runOf(service, id)).usage).toEqual(run.usage)
  expect((await service.call('GET', `/v1/runs/${id}/result`)).body.usage).toEqual(run.usage)
})

test('ingest: deltas, children and counts are live while a request is open', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const reader = await readEvents(service, id, { tree: true })
  const piece = openPiece(service, id)
  await piece.send(linesOf(init(), replay('u-1', 'go'), ...streamed('m', 'one two').slice(0, 4)))
  const early = await reader.until(({ event, data }) => event === 'delta' && data.data.text === ' two')
  expect(early.filter(({ event }) => event === 'delta').map(({ data }) => [data.runId, data.data.kind, data.data.text])).toEqual([[id, 'text', 'one'], [id, 'text', ' two']])
  expect(early.filter(({ event }) => event === 'assistant/message')).toEqual([])
  await piece.send(linesOf(...streamed('m', 'one two').slice(4), agentCall('a-1')))
  const started = (await reader.until(({ event }) => event === 'subagent/start')).at(-1)
  const child = started?.data.data.runId as string
  expect(await runOf(service, id)).toMatchObject({ status: 'running', runningChildren: 1 })
  const tagged = (event: object) => ({ ...stream(event as never), parent_tool_use_id: 'a-1' })
  await piece.send(linesOf(tagged({ type: 'message_start', message: { id: 'c' } }), tagged({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    tagged({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'inside' } })))
  const inside = await reader.until(({ event, data }) => (event === 'delta' && data.runId === child) || (event === 'snapshot' && data.data.parts.length > 0))
  expect(JSON.stringify(inside.at(-1)?.data)).toContain('inside')
  await piece.send(linesOf(notified('t', 'completed', { tool_use_id: 'a-1' }), result()))
  piece.end()
  expect(await piece.answer).toMatchObject({ status: 200 })
  await post(service, id, '', { from: (await runOf(service, id)).framesAccepted, end: true })
  const rest = await reader.all()
  expect(rest.at(-1)).toMatchObject({ event: 'settled', data: { runId: id } })
  expect(rest.filter(({ event }) => event === 'run').map(({ data }) => [data.runId, data.data.status]).at(-1)).toEqual([id, 'settled'])
})

test('ingest: an output cut anywhere, into any pieces and requests, gives the same tree', async () => {
  const service = await startService(onTestFinished)
  for (const name of NAMES) {
    const lines = recorded(name)
    const whole = await startChat(service)
    await ingest(service, whole, lines)
    const expected = await storyOf(service, whole)
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
    const cut = fc.record({ at: fc.nat({ max: bytes.length }), drop: fc.boolean() })
    await fc.assert(fc.asyncProperty(fc.array(cut, { maxLength: 5 }), fc.boolean(), async (cuts, last) => {
      const id = await startChat(service)
      let sent = 0
      let from = 0
      let piece = openPiece(service, id)
      for (const { at, drop } of cuts.toSorted((a, b) => a.at - b.at)) {
        if (at > sent) await piece.send(bytes.subarray(sent, at))
        sent = at
        if (!drop) continue
        // Whatever of it arrived counts, and no more.
        piece.drop()
        from = (await runOf(service, id)).framesAccepted
        sent = bytes.length - Buffer.byteLength(lines.slice(from).map((line) => `${line}\n`).join(''))
        piece = openPiece(service, id, { from })
      }
      await piece.send(bytes.subarray(sent, last ? undefined : -1))
      piece.end()
      expect(await piece.answer).toMatchObject({ status: 200, body: { accepted: lines.length } })
      await post(service, id, '', { from: lines.length, end: true })
      expect(await storyOf(service, id)).toEqual(expected)
    }), { numRuns: 6 })
  }
})

test('3.7 a fork of an ingested chat gets its completed turns', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(init(), replay('u-1', 'go'), ...streamed('m', 'said'), result(), replay('u-2', 'on'), ...streamed('n', 'open')))
  const run = await service.start({ provider: 'fork', task: 'and now?', parent: { runId: id }, agentOptions: { model: 'scripted/demo', script: [{ say: 'forked' }] } })
  expect(run.seed).toMatchObject({ turns: 1 })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'forked' }] })
  const texts = (await service.log(run.id)).flatMap(({ type, data }) => type === 'user/message' || type === 'assistant/message' ? [JSON.stringify(data.content)] : [])
  expect(texts).toHaveLength(4)
  expect(texts[0]).toContain('go')
  expect(texts[1]).toContain('said')
  expect(texts[2]).toContain('and now?')
})

test('ingest: a chat takes no messages from here, and neither does a child of it', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(init(), replay('u-1', 'go'), agentCall('a-1')))
  const child = (await treeOf(service, id)).children[0]?.id
  for (const run of [id, child]) {
    for (const mode of ['steer', 'interrupt']) {
      expect(await service.call('POST', `/v1/runs/${run}/messages`, { content: 'hello', mode })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
    }
  }
  await untilAccepted(service, id, 3)
  await post(service, id, '', { from: 3, end: true })
  expect(await service.call('POST', `/v1/runs/${id}/messages`, { content: 'hello', mode: 'steer' })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  for (const run of [id, child]) {
    expect(await service.call('POST', `/v1/runs/${run}/messages`, { content: 'hello', mode: 'follow-up' })).toMatchObject({ status: 422 })
  }
})

test('C1 C6 a typed fork is a row, a count and a log from its start on', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, linesOf(lifecycle('u-1', 'queued'), lifecycle('u-1', 'started'), fork('t-1')))
  const tree = await treeOf(service, id)
  expect(tree).toMatchObject({ status: 'running', runningChildren: 1, children: [{ label: 'Agent: /fan', externalId: 'forked-command-fan-t-1', status: 'running' }] })
  expect((await eventsOf(service, tree.children[0]?.id ?? '', false)).map(({ type }) => type)).toEqual(['turn/start', 'user/message'])
  await post(service, id, linesOf(notified('t-1', 'failed'), userText('Fan out.\n', 'forked-command-fan'), inChild('forked-command-fan', 'no'), assistant(toolUse('x', 'Read')), taskStart('t-9', { tool_use_id: 'unknown' }), result()), { from: 3 })
  expect(await treeOf(service, id)).toMatchObject({ status: 'idle', runningChildren: 0, children: [{ status: 'settled', stopReason: 'error' }] })
})
