import { expect, test } from 'vitest'
import { startService, makeFolder, type ServiceOptions } from '../support/service.ts'
import { startFakeModelServer, type FakeRequest } from '../support/fake-model-server.ts'
import { sent } from '../support/sent.ts'
import { calls, callsAll, says, type FakeAnswer } from '../support/fake-answers.ts'

const lastText = ({ json }: FakeRequest): string => {
  const last = (json.messages as { role: string, content: unknown }[]).at(-1)
  return typeof last?.content === 'string' ? last.content : JSON.stringify(last?.content)
}

async function delegating (onTestFinished: Parameters<typeof startService>[0], answer: (request: FakeRequest) => FakeAnswer, yaml = 'delegation: true', agents: ServiceOptions['agents'] = []) {
  const models = await startFakeModelServer(onTestFinished as (close: () => Promise<void>) => void, { answer })
  const service = await startService(onTestFinished, { yaml, agents, env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m' } })
  return { models, service }
}

test('11 siblings run in parallel, results in the model\'s order, and the tree shows real children', async ({ onTestFinished }) => {
  const { models, service } = await delegating(onTestFinished, (request) => {
    const text = lastText(request)
    if (text === 'root') return callsAll(['a', 'b'].map((n) => ({ id: n, name: 'subagent', input: { description: n, prompt: `do ${n}` } })))
    return text.startsWith('do ') ? says(`did ${text.at(-1)}`, text.endsWith('a') ? { delayMs: 50 } : {}) : says('all done')
  })
  const run = await service.start({ task: 'root' })
  expect(await service.result(run.id)).toMatchObject({ output: [{ text: 'all done' }] })
  expect(sent(models, -1).messages.slice(-2)).toMatchObject([
    { role: 'tool', tool_call_id: 'a', content: 'did a' }, { role: 'tool', tool_call_id: 'b', content: 'did b' }
  ])
  const tree = await service.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body.children).toMatchObject([{ depth: 2, status: 'settled' }, { depth: 2, status: 'settled' }])
  expect(tree.body.treeUsage.steps).toBe(4)
  const types = (await service.log(run.id)).map((event) => event.type)
  expect(types.filter((type) => type === 'subagent/start' || type === 'subagent/end')).toHaveLength(4)
})

test('11 a model that recurses for ever ends in exact depth errors and a bounded tree', async ({ onTestFinished }) => {
  const { service } = await delegating(onTestFinished, (request) => lastText(request).startsWith('Error: ')
    ? says(lastText(request))
    : lastText(request).startsWith('go') ? calls('subagent', { description: 'deeper', prompt: 'go on' }) : says(lastText(request)))
  const run = await service.start({ task: 'go' })
  expect(await service.result(run.id)).toMatchObject({ output: [{ text: 'Error: subagent depth 4 exceeds maxDepth 3' }] })
  const tree = await service.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body).toMatchObject({ depth: 1, children: [{ depth: 2, children: [{ depth: 3, children: [] }] }] })
})

test('2.5 the tree limit refuses the child that is one too many', async ({ onTestFinished }) => {
  const { service } = await delegating(onTestFinished, (request) => lastText(request) === 'root'
    ? callsAll([1, 2, 3].map((n) => ({ id: `c${n}`, name: 'subagent', input: { description: 'x', prompt: 'leaf' } })))
    : says('ok'))
  const run = await service.start({ task: 'root', limits: { treeRuns: 3 } })
  await service.result(run.id)
  const results = (await service.log(run.id)).flatMap((event) => event.type === 'tool/result' ? [event.data.content[0]] : [])
  expect(results.filter((block) => block?.type === 'text' && block.text === 'Error: subagent tree exceeds 3 runs')).toHaveLength(1)
})

test('5.2 cancelling the parent cancels its children first, and nothing is left', async ({ onTestFinished }) => {
  const { models, service } = await delegating(onTestFinished, (request) => lastText(request) === 'root'
    ? calls('subagent_fork', { description: 'x', prompt: 'hang' })
    : { kind: 'hang' })
  const run = await service.start({ task: 'root' })
  const upstream = await models.received(1)
  const cancelled = await service.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
  expect(cancelled.body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  const tree = await service.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body.children).toMatchObject([{ status: 'settled', stopReason: 'aborted', cancel: { by: 'parent' } }])
  expect(await upstream.closed).toMatchObject({ complete: false })
  expect(service.app.registry.liveRuns()).toEqual([])
})

test('11 a background child is told of, collected, and ends with its parent', async ({ onTestFinished }) => {
  let child = ''
  const { service } = await delegating(onTestFinished, (request) => {
    const text = lastText(request)
    if (text === 'root') return callsAll([
      { id: 'b1', name: 'subagent', input: { description: 'quick', prompt: 'leaf', run_in_background: true } },
      { id: 'b2', name: 'subagent', input: { description: 'slow', prompt: 'hang', run_in_background: true } }
    ])
    if (text === 'hang') return { kind: 'hang' }
    if (text === 'leaf') return says('leaf done')
    const notice = /background subagent (\S+) \(quick\) settled: completed/.exec(text)
    if (notice) return calls('subagent_result', { subagent: child = notice[1] ?? '' }, { id: 'r1' })
    return text === 'leaf done' ? says('collected') : says('waiting', { delayMs: 20 })
  })
  const run = await service.start({ task: 'root' })
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed' })
  expect(child).not.toBe('')
  const tree = await service.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body.children.map((node: { stopReason: string }) => node.stopReason).toSorted()).toEqual(['aborted', 'completed'])
  expect(service.app.registry.liveRuns()).toEqual([])
})

test('2.8 after a restart the parent attaches to the child that its call made', async ({ onTestFinished }) => {
  const path = `${makeFolder(onTestFinished)}/runs.db`
  let first = true
  const models = await startFakeModelServer(onTestFinished, {
    answer: (request) => {
      const text = lastText(request)
      if (text === 'root') return calls('subagent', { description: 'x', prompt: 'leaf' }, { id: 'd1' })
      if (text !== 'leaf') return says(`parent read: ${text}`)
      if (!first) return says('child done')
      first = false
      return { kind: 'hang' }
    }
  })
  const options = { yaml: 'delegation: true', env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m', DATABASE_URL: `sqlite:${path}` } }
  const one = await startService(onTestFinished, options)
  const run = await one.start({ task: 'root' })
  await models.received(1)
  await one.stop()
  const two = await startService(onTestFinished, options)
  expect(await two.result(run.id)).toMatchObject({ output: [{ text: 'parent read: child done' }] })
  const tree = await two.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body.children).toHaveLength(1)
})

test('8.1 a child keeps to the models of its start\'s key, and a follow-up to those of its own', async ({ onTestFinished }) => {
  const agents = [{ name: 'big', description: 'Thinks', model: 'openai/expensive' }]
  const { service } = await delegating(onTestFinished, (request) => lastText(request) === 'root'
    ? calls('subagent', { description: 'x', prompt: 'leaf', agent: 'big' })
    : says(lastText(request)), 'delegation: true', agents)
  const { runs } = service.app
  const start = { provider: 'spawn', task: [{ type: 'text' as const, text: 'root' }], codeMode: 'native' as const, limits: {}, relay: {}, metadata: {} }
  const { run } = await runs.start({ tenant: 'default', models: ['openai/m'] }, start, { signal: new AbortController().signal })
  expect(await service.result(run.id)).toMatchObject({ output: [{ text: 'Error: model "openai/expensive" is not allowed for this key' }] })
  const message = { content: start.task, mode: 'follow-up' as const }
  await expect(runs.sendMessage({ tenant: 'default', models: ['openai/other'] }, run.id, message, { signal: new AbortController().signal }))
    .rejects.toMatchObject({ code: 'MODEL_FORBIDDEN' })
})

test('6.2 a start\'s maxDepth binds what its children delegate, and a named agent\'s its own', async ({ onTestFinished }) => {
  const agents = [{ name: 'flat', description: 'Stays', maxDepth: 1 }]
  const { service } = await delegating(onTestFinished, (request) => lastText(request) === 'root'
    ? callsAll([{ id: 'a', name: 'subagent', input: { description: 'x', prompt: 'leaf', agent: 'flat' } }, { id: 'b', name: 'subagent', input: { description: 'x', prompt: 'leaf' } }])
    : says('ok'), 'delegation: true', agents)
  const results = async (body: object): Promise<unknown[]> => {
    const run = await service.start({ task: 'root', ...body })
    await service.result(run.id)
    return (await service.log(run.id)).flatMap((event) => event.type === 'tool/result' ? [event.data.isError] : [])
  }
  expect(await results({})).toEqual(expect.arrayContaining([true, false]))
  expect(await results({ maxDepth: 1 })).toEqual([true, true])
})

test('5.2 a background child that a restart finds ends with its parent, whose deadline passed meanwhile', async ({ onTestFinished }) => {
  const path = `${makeFolder(onTestFinished)}/runs.db`
  const models = await startFakeModelServer(onTestFinished, {
    answer: (request) => lastText(request) === 'root'
      ? callsAll([{ id: 'b', name: 'subagent', input: { description: 'x', prompt: 'hang', run_in_background: true } }, { id: 'f', name: 'subagent', input: { description: 'x', prompt: 'hang' } }])
      : { kind: 'hang' }
  })
  const options = { yaml: 'delegation: true', env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m', DATABASE_URL: `sqlite:${path}` } }
  const one = await startService(onTestFinished, options)
  const run = await one.start({ task: 'root', limits: { timeoutMs: 60_000 } })
  await models.received(2)
  await one.stop()
  const two = await startService(onTestFinished, { ...options, now: () => Date.now() + 120_000 })
  expect(await two.result(run.id)).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME' } })
  const tree = await two.call('GET', `/v1/runs/${run.id}/tree`)
  expect(tree.body.children.map((child: { status: string }) => child.status)).toEqual(['settled', 'settled'])
  expect(two.app.registry.liveRuns()).toEqual([])
})

test('2.8 a parent that waits for its child is not given up, however often the service starts', async ({ onTestFinished }) => {
  const path = `${makeFolder(onTestFinished)}/runs.db`
  let lives = 0
  const models = await startFakeModelServer(onTestFinished, {
    answer: (request) => {
      const text = lastText(request)
      if (text === 'root') return calls('subagent', { description: 'x', prompt: 'leaf' })
      if (text !== 'leaf' && !text.startsWith('Error: unknown tool')) return says(text)
      return ++lives > 4 ? says('child done') : lives % 2 === 1 ? calls('nothing', {}) : { kind: 'hang' }
    }
  })
  const options = { yaml: 'delegation: true', env: { OPENAI_BASE_URL: models.openaiUrl, DEFAULT_MODEL: 'openai/m', DATABASE_URL: `sqlite:${path}` } }
  let service = await startService(onTestFinished, options)
  const run = await service.start({ task: 'root' })
  for (const n of [2, 4]) {
    await models.received(n)
    await service.stop()
    service = await startService(onTestFinished, options)
  }
  expect(await service.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'child done' }] })
})
