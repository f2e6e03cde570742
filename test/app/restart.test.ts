import { expect, onTestFinished, test } from 'vitest'
import { noUsage, text, type SessionEvent } from '../../src/core/events.ts'
import { createLives, reached } from '../support/lives.ts'
import type { Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const waiting = { prefer: 'wait=20' }
const types = (events: readonly SessionEvent[]): string[] => events.map((event) => event.type)

test('2.8 what is settled is found again as it was: run, result, events, cursors, tree', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const run = await first.start(
    {
      task: 'a', label: 'x', metadata: { k: 'v' }, agentOptions: { script: [{ say: 'done' }] }, format: 'anthropic',
      toolCallId: 't'
    },
    waiting
  )
  const fork = await first.start({ provider: 'fork', parent: { runId: run.id }, task: 'b' }, waiting)
  const paths = ['', '/result', '/events', '/tree'].flatMap((path) => [`/v1/runs/${run.id}${path}`, `/v1/runs/${fork.id}${path}`])
  const read = async (service: Service): Promise<unknown[]> => await Promise.all(
    ['/v1/runs?include=result', ...paths].map(async (path) => (await service.call('GET', path)).body)
  )
  const before = await read(first)
  const second = await start()
  expect(await read(second)).toEqual(before)
  const again = await second.start({ provider: 'fork', parent: { runId: fork.id }, task: 'c' }, waiting)
  expect(again).toMatchObject({ depth: 3, rootId: run.id, status: 'settled', seed: { turns: 2 } })
})

test('2.8 a model call that was cut off is asked again: the step is closed, attempt + 1', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const run = await first.start(hang)
  await reached(first, run.id, 'step/start')
  expect(await first.stop()).toBe(1)
  const second = await start()
  const resumed = (await second.call('GET', `/v1/runs/${run.id}`)).body
  expect(resumed).toEqual({ ...run, status: 'running' })
  await reached(second, run.id, 'run/resumed')
  const steps = (await second.log(run.id)).filter(
    (event) => event.type === 'step/start' || event.type === 'step/end' || event.type === 'run/resumed'
  )
  expect(steps.map(({ type, data }) => [type, data])).toEqual([
    ['step/start', { turn: 1, step: 1, attempt: 1 }], ['run/resumed', { attempt: 1 }], ['step/end', { turn: 1, step: 1 }],
    ['step/start', { turn: 1, step: 1, attempt: 2 }]
  ])
  await second.call('POST', `/v1/runs/${run.id}/cancel?wait=10`)
  expect(await second.result(run.id)).toMatchObject({ stopReason: 'aborted' })
})

test('2.8 service tools under way: an idempotent one runs again, another is outcome-unknown', async () => {
  const stays = (): Promise<string> => new Promise(() => {})
  const { start } = createLives(onTestFinished)
  const before = [serviceTool('again', stays), serviceTool('once', stays, { idempotent: false })]
  const first = await start({ tools: before })
  const script = [{ calls: [{ name: 'again' }, { name: 'once' }] }, { say: 'done' }]
  const run = await first.start({ task: 'a', agentOptions: { script } })
  await Promise.all(before.map((tool) => tool.began()))
  const after = [serviceTool('again', () => 'the second time'), serviceTool('once', () => 'never', { idempotent: false })]
  const second = await start({ tools: after })
  expect(await second.result(run.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
  expect(after.map((tool) => tool.inputs.length)).toEqual([1, 0])
  const results = (await second.log(run.id)).flatMap((event) => event.type === 'tool/result' ? [event.data] : [])
  expect(results).toHaveLength(2)
  expect(results.find(({ name }) => name === 'again')).toMatchObject({ content: [text('the second time')], isError: false })
  expect(results.find(({ name }) => name === 'once')).toMatchObject({
    content: [text('Error: the tool call was interrupted: outcome unknown: check before retrying')], isError: true
  })
})

test('2.8 a queued run stays queued, in its order, and its task is sent once', async () => {
  const { start } = createLives(onTestFinished)
  const env = { MAX_RUNNING: '1' }
  const first = await start({ env })
  const busy = await first.start(hang)
  const queued = await Promise.all([1, 2].map(() => first.start({ task: 'a', agentOptions: { script: [{ say: 'done' }] } })))
  const second = await start({ env })
  expect((await second.call('GET', '/v1/runs?status=queued')).body.runs).toHaveLength(2)
  await second.call('POST', `/v1/runs/${busy.id}/cancel`)
  for (const { id } of queued) {
    expect(await second.result(id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'done' }] })
    expect(types(await second.log(id)).filter((type) => type === 'user/message')).toHaveLength(1)
  }
})

test('2.8 between the end of the turn and settlement: the result is read, nothing is asked again', async () => {
  const { start, add } = createLives(onTestFinished)
  const run = await (await start()).start(hang)
  await add(run.id, [
    {
      type: 'assistant/message',
      data: {
        content: [{ type: 'text', text: 'was done' }], usage: { ...noUsage(), outputTokens: 3, steps: 1 }, model: 'scripted/demo',
        stop: 'end'
      }
    },
    { type: 'step/end', data: { turn: 1, step: 1 } },
    { type: 'turn/end', data: { turn: 1, reason: 'completed' } }
  ])
  const second = await start()
  expect(await second.result(run.id)).toMatchObject(
    { stopReason: 'completed', output: [{ text: 'was done' }], usage: { outputTokens: 3, steps: 1 } }
  )
  expect(types(await second.log(run.id)).slice(-3)).toEqual(['turn/end', 'run/resumed', 'run/settled'])
})

test('2.8 a cancellation that was asked for is carried out', async () => {
  const { start, add } = createLives(onTestFinished)
  const run = await (await start()).start(hang)
  const cancel = { at: Date.now(), reason: 'before the crash', by: 'request' as const }
  await add(run.id, [{ type: 'run/cancel', data: cancel }], { cancel })
  const second = await start()
  expect(await second.result(run.id)).toMatchObject({ stopReason: 'aborted' })
  expect(
    (await second.call('GET', `/v1/runs/${run.id}`)).body.cancel
  ).toMatchObject({ reason: 'before the crash', by: 'request' })
  expect(types(await second.log(run.id)).filter((type) => type === 'run/cancel')).toHaveLength(1)
})

test('2.8, 9.7 a captured structured value survives: the turn ends with it, no model is asked', async () => {
  const { start, add } = createLives(onTestFinished)
  const first = await start()
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const run = await first.start({ ...hang, outputSchema })
  await reached(first, run.id, 'step/start')
  const call = { toolCallId: 'c1', name: 'structured_output' }
  await add(run.id, [
    {
      type: 'assistant/message',
      data: {
        content: [{ type: 'tool-call', ...call, arguments: '{"n":7}' }], usage: noUsage(), model: 'scripted/demo',
        stop: 'tool-calls'
      }
    },
    { type: 'tool/call', data: { ...call, input: { n: 7 }, executor: 'service', idempotent: true } },
    { type: 'run/structured', data: { toolCallId: 'c1', value: { n: 7 } } },
    { type: 'tool/result', data: { ...call, content: [text('Structured output recorded.')], isError: false } }
  ])
  const second = await start()
  expect(await second.result(run.id)).toMatchObject(
    { stopReason: 'completed', structured: { n: 7 }, toolResult: { structuredContent: { n: 7 } } }
  )
  expect(types(await second.log(run.id)).filter((type) => type === 'step/start')).toHaveLength(1)
})

test('2.8 the third resume without progress settles the run as error INTERRUPTED, with a balanced log', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const run = await first.start(hang)
  await reached(first, run.id, 'step/start')
  for (let life = 2; life <= 3; life++) {
    const service = await start()
    expect((await service.call('GET', `/v1/runs/${run.id}`)).body.status).toBe('running')
    await reached(service, run.id, 'run/resumed')
  }
  const last = await start()
  expect(await last.result(run.id)).toMatchObject(
    { stopReason: 'error', output: [], error: { code: 'INTERRUPTED', retryable: true } }
  )
  const log = await last.log(run.id)
  expect(types(log).filter((type) => type === 'run/resumed')).toHaveLength(3)
  expect(types(log).slice(-3)).toEqual(['step/end', 'turn/end', 'run/settled'])
  const fork = await last.start({ provider: 'fork', task: 'b', parent: { runId: run.id } }, waiting)
  expect(fork).toMatchObject({ status: 'settled', stopReason: 'completed', seed: { turns: 1 } })
})

test('2.8 lives in which a run only waits for its host or for a slot do not count', async () => {
  const { start } = createLives(onTestFinished)
  const env = { MAX_RUNNING: '1' }
  const first = await start({ env })
  const host = await first.start(
    { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'thanks' }] } }, waiting
  )
  const queued = await first.start({ task: 'b' })
  expect(queued.status).toBe('running')
  await first.result(queued.id)
  const busy = await first.start(hang)
  const later = await first.start({ task: 'c', agentOptions: { script: [{ say: 'at last' }] } })
  for (let life = 2; life <= 6; life++) {
    const service = await start({ env })
    expect((await service.call('GET', `/v1/runs/${host.id}`)).body).toMatchObject(
      { status: 'waiting', pendingToolCalls: host.pendingToolCalls }
    )
    if (life < 4) expect((await service.call('GET', `/v1/runs/${later.id}`)).body.status).toBe('queued')
  }
  const last = await start({ env })
  expect(await last.result(busy.id)).toMatchObject({ error: { code: 'INTERRUPTED' } })
  expect(await last.result(later.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'at last' }] })
  await last.call(
    'POST', `/v1/runs/${host.id}/tool-results`, { results: [{ toolCallId: host.pendingToolCalls[0].toolCallId, content: 'x' }] }
  )
  expect(await last.result(host.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'thanks' }] })
})

test('2.5 time limits keep counting from publication while the service is down', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const run = await first.start({ ...hang, limits: { timeoutMs: 3_600_000 } })
  const tool = await first.start({
    task: 'a', tools: [{ name: 'ask' }], limits: { toolTimeoutMs: 1_800_000 }, agentOptions: {
      script: [{ call: { name: 'ask' } }, { say: 'went on' }]
    }
  }, waiting)
  const second = await start({ now: () => Date.now() + 3_600_001 })
  expect(await second.result(run.id)).toMatchObject(
    { stopReason: 'error', error: { code: 'LIMIT_TIME', message: 'timeoutMs 3600000 reached' } }
  )
  await second.app.registry.live('default', tool.id)?.result
  expect(await second.result(tool.id)).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME' } })
  const expired = (await second.log(tool.id)).find((event) => event.type === 'tool/result')
  expect(expired?.data).toMatchObject({ isError: true })
})

test('5.2 after a restart a cancellation still reaches what runs below a settled run', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const root = await first.start(hang)
  const middle = await first.start({ task: 'a', parent: { runId: root.id } }, waiting)
  const lower = await first.start({ task: 'a', parent: { runId: middle.id } }, waiting)
  const leaf = await first.start({ ...hang, parent: { runId: lower.id } })
  const second = await start()
  const { body } = await second.call('POST', `/v1/runs/${root.id}/cancel?wait=10`, { reason: 'all' })
  expect(body).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  expect((await second.call('GET', `/v1/runs/${leaf.id}`)).body).toMatchObject(
    { status: 'settled', cancel: { by: 'parent', reason: 'all' } }
  )
})

test('2.8 a run whose agent cannot be built any more settles as error SETUP_FAILED, and the service starts', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start({ tools: [serviceTool('here')] })
  const run = await first.start({ ...hang, toolFilter: { allow: ['here'] } })
  const second = await start()
  expect(await second.result(run.id)).toMatchObject({
    stopReason: 'error', error: { code: 'SETUP_FAILED', message: 'toolFilter names unknown tool "here"; known tools: (none)' }
  })
})
