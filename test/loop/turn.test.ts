import { expect, onTestFinished, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import { openDriver } from '../support/driver-room.ts'
import { calls, callsAll, says } from '../support/recording-model.ts'
import { serviceTool } from '../support/service-tool.ts'

test('2.4 a turn is logged step by step, and the log alone tells what the model saw', async () => {
  const room = await openDriver(onTestFinished, { persona: 'You help.', tools: [serviceTool('look')], acts: [callsAll([{ id: 'c', name: 'look', input: { a: 1 } }], { text: 'I look.' }), says('done')] })
  const run = await room.start()
  await run.result
  const log = await room.log(run)
  expect(log.map(({ seq, type, data }) => [seq, type, (data as { step?: number }).step])).toEqual([
    [0, 'turn/start', undefined], [1, 'user/message', undefined], [2, 'request/header', undefined],
    [3, 'step/start', 1], [4, 'assistant/message', undefined], [5, 'tool/call', undefined], [6, 'tool/result', undefined], [7, 'step/end', 1],
    [8, 'step/start', 2], [9, 'assistant/message', undefined], [10, 'step/end', 2], [11, 'turn/end', undefined], [12, 'run/settled', undefined]
  ])
  expect(log[2]).toMatchObject({ data: { reason: 'first', model: 'recording/one', system: [{ text: 'You help.' }], tools: [{ name: 'look' }] } })
  expect(log[5]).toMatchObject({ data: { toolCallId: 'c', name: 'look', input: { a: 1 }, executor: 'service' } })
  expect(room.models.requests[1]?.messages).toEqual([
    { role: 'user', content: [text('the task')] },
    { role: 'assistant', content: [text('I look.'), { type: 'tool-call', toolCallId: 'c', name: 'look', arguments: '{"a":1}' }] },
    { role: 'tool', toolCallId: 'c', name: 'look', content: [text('look ran')], isError: false }
  ])
  expect(room.models.requests[0]).toMatchObject({ system: [{ text: 'You help.' }], tools: [{ name: 'look' }] })
})

test.each([
  ['max-tokens', 'max-tokens'],
  ['refusal', 'refusal'],
  ['end', 'completed']
] as const)('2.5 a model that stops with %s ends the turn as %s, its text the output', async (stop, reason) => {
  const room = await openDriver(onTestFinished, { acts: [says('so far', { stop }), says('never')] })
  const run = await room.start()
  expect(await run.result).toEqual({ output: [text('so far')], stopReason: reason, usage: expect.objectContaining({ steps: 1 }) })
  expect((await room.log(run)).at(-2)).toMatchObject({ type: 'turn/end', data: { reason } })
  expect(room.models.requests).toHaveLength(1)
})

test('7.2 max-tokens sticks within the turn: a call that came whole is not run and not sent back', async () => {
  const look = serviceTool('look')
  const room = await openDriver(onTestFinished, {
    tools: [look],
    acts: [() => [{
      type: 'reply',
      reply: {
        content: [text('so far'), { type: 'tool-call', toolCallId: 'c', name: 'look', arguments: '{}' }], stop: 'max-tokens', model: 'm',
        usage: { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0 }
      }
    }]]
  })
  const run = await room.start()
  expect(await run.result).toMatchObject({ stopReason: 'max-tokens', output: [text('so far')] })
  expect(look.inputs).toEqual([])
  expect((await room.log(run)).find((event) => event.type === 'assistant/message')).toMatchObject({ data: { content: [text('so far')] } })
})

test('a reply that asks for calls but holds none ends the turn, rather than asking for ever', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('no calls', { stop: 'tool-calls' }), says('never')] })
  const run = await room.start()
  expect(await run.result).toMatchObject({ stopReason: 'completed', output: [text('no calls')] })
  expect(room.models.requests).toHaveLength(1)
})

test('an answer of nothing is a completed run with no output', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('')] })
  expect(await (await room.start()).result).toMatchObject({ stopReason: 'completed', output: [] })
})

test('2.6 the request of a step is made of the log alone: the same log gives the same request', async () => {
  const acts = () => [calls('look', { a: 1 }), says('done')]
  const requests = []
  for (let i = 0; i < 2; i++) {
    const room = await openDriver(onTestFinished, { tools: [serviceTool('look')], acts: acts() })
    await (await room.start({ agentOptions: { temperature: 0, providerOptions: '{"seed": 1}', maxTokens: 9 } })).result
    requests.push(room.models.requests)
  }
  expect(requests[1]).toEqual(requests[0])
  expect(requests[0]?.[1]).toMatchObject({ temperature: 0, providerOptions: '{"seed": 1}', maxTokens: 9 })
})
