import { expect, onTestFinished, test } from 'vitest'
import { text, type SessionEvent } from '../../src/core/events.ts'
import { expectNothingLeft, openDriver, timers, type Room } from '../support/driver-room.ts'
import { callsAll, delta, fails, says, type Act } from '../support/recording-model.ts'
import { serviceTool } from '../support/service-tool.ts'

const retries = (log: readonly SessionEvent[]) => log.flatMap((event) => event.type === 'run/retry' ? [event.data] : [])

/** Plays the acts; with `random` at -1 no backoff is waited for. */
async function play (acts: Act[], options: { random?: () => number } = {}) {
  const room: Room = await openDriver(onTestFinished, { random: () => -1, tools: [serviceTool('look')], acts, ...options })
  const { signal } = new AbortController()
  const before = timers()
  const run = await room.start({ signal })
  const result = await run.result
  await expectNothingLeft(room, run, { signal, timers: before })
  return { room, run, result, log: await room.log(run) }
}

test('a failure before the first delta is tried again, and each try is logged', async () => {
  const { result, log, room } = await play([fails('MODEL_ERROR'), fails('MODEL_RATE_LIMITED'), says('at last')])
  expect(result).toMatchObject({ stopReason: 'completed', output: [text('at last')], usage: { steps: 1 } })
  expect(retries(log)).toEqual([
    { step: 1, attempt: 1, code: 'MODEL_ERROR', message: 'the model failed: MODEL_ERROR', delayMs: 0 },
    { step: 1, attempt: 2, code: 'MODEL_RATE_LIMITED', message: 'the model failed: MODEL_RATE_LIMITED', delayMs: 0 }
  ])
  // Each try asks the same, and a scripted model knows which one it is.
  const asked = room.models.requests.map(({ call: _, ...request }) => request)
  expect(asked[1]).toEqual(asked[0])
  expect(asked[2]).toEqual(asked[0])
  expect(room.models.requests.map((request) => request.call)).toEqual([0, 1, 2])
})

test('after four tries the failure stands', async () => {
  const { result, log, room } = await play(Array.from({ length: 9 }, () => fails('MODEL_ERROR')))
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_ERROR', retryable: true }, diagnostic: 'the model failed: MODEL_ERROR', output: [] })
  expect(room.models.requests).toHaveLength(4)
  expect(retries(log)).toHaveLength(3)
})

test('each step has its own tries', async () => {
  const look = callsAll([{ name: 'look' }])
  const { result, room } = await play([fails('MODEL_ERROR'), fails('MODEL_ERROR'), look, fails('MODEL_ERROR'), fails('MODEL_ERROR'), fails('MODEL_ERROR'), says('done')])
  expect(result).toMatchObject({ stopReason: 'completed', usage: { steps: 2 } })
  expect(room.models.requests).toHaveLength(7)
})

test('a failure after the first delta is not tried again: the text so far is logged and is the output', async () => {
  const { result, log, room } = await play([fails('MODEL_ERROR', { text: 'half a' }), says('never')])
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_ERROR' }, output: [text('half a')] })
  expect(room.models.requests).toHaveLength(1)
  expect(log.find((event) => event.type === 'assistant/message')).toMatchObject({ data: { stop: 'error', content: [text('half a')] } })
})

test.each(['MODEL_AUTH', 'CONTEXT_TOO_LONG'] as const)('%s is not tried again', async (code) => {
  const { result, room } = await play([fails(code), says('never')])
  expect(result).toMatchObject({ stopReason: 'error', error: { code, retryable: false } })
  expect(room.models.requests).toHaveLength(1)
})

test('a failure that says it is final is not tried again', async () => {
  const { room } = await play([fails('MODEL_ERROR', { retryable: false }), says('never')])
  expect(room.models.requests).toHaveLength(1)
})

test('Retry-After is waited for: never less, and at most a minute', async () => {
  const { log } = await play([fails('MODEL_RATE_LIMITED', { retryAfterMs: 7 }), says('ok')])
  expect(retries(log)).toMatchObject([{ delayMs: 7 }])
  expect(log.findIndex((event) => event.type === 'assistant/message')).toBeGreaterThan(-1)
  const [retry, message] = [log.find((event) => event.type === 'run/retry'), log.find((event) => event.type === 'assistant/message')]
  expect((message?.time ?? 0) - (retry?.time ?? 0)).toBeGreaterThanOrEqual(6)
  const { result, room } = await play([fails('MODEL_RATE_LIMITED', { retryAfterMs: 60_001 }), says('never')])
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_RATE_LIMITED' } })
  expect(room.models.requests).toHaveLength(1)
})

test('a cancellation between two tries ends the wait', async () => {
  const room = await openDriver(onTestFinished, { acts: [fails('MODEL_RATE_LIMITED', { retryAfterMs: 50_000 })] })
  const controller = new AbortController()
  const before = timers()
  const run = await room.start({ signal: controller.signal })
  run.log.observe((events) => { if (events.some((event) => event.type === 'run/retry')) controller.abort() })
  expect(await run.result).toMatchObject({ stopReason: 'aborted', output: [] })
  await expectNothingLeft(room, run, { signal: controller.signal, timers: before })
})

test('a stream that ends without an answer is a failure of the model, with the text so far', async () => {
  const { result } = await play([() => [delta('half')]])
  expect(result).toMatchObject({ stopReason: 'error', error: { code: 'MODEL_ERROR', message: 'the model stream ended without an answer' }, output: [text('half')] })
})

test('a new attempt voids what the one before it streamed of its thoughts', async () => {
  const snapshots: unknown[] = []
  const room: Room = await openDriver(onTestFinished, {
    random: () => -1,
    acts: [fails('MODEL_ERROR'), () => {
      snapshots.push(room.registry.liveRuns()[0]?.deltas.since(undefined)?.snapshot)
      return says('ok')({} as never, new AbortController().signal)
    }]
  })
  await (await room.start()).result
  expect(snapshots).toEqual([{ step: 1, attempt: 2, index: -1, parts: [] }])
})

test('usage is the sum over the steps, each counted once, and is in the row as it grows', async () => {
  const full = { inputTokens: 10, cachedInputTokens: 4, cacheWriteTokens: 2, outputTokens: 5, reasoningTokens: 3 }
  const seen: unknown[] = []
  const room: Room = await openDriver(onTestFinished, {
    tools: [serviceTool('look', async (_, { runId }) => { await room.registry.live('default', runId)?.log.durable(); seen.push((await room.row({ id: runId }))?.usage.steps); return 'ok' })],
    acts: [callsAll([{ name: 'look' }], { tokens: full }), callsAll([{ name: 'look' }], { tokens: full }), says('done', { tokens: full })]
  })
  const run = await room.start()
  const usage = { inputTokens: 30, cachedInputTokens: 12, cacheWriteTokens: 6, outputTokens: 15, reasoningTokens: 9, steps: 3 }
  expect((await run.result).usage).toEqual(usage)
  expect(await room.row(run)).toMatchObject({ usage })
  expect(seen).toEqual([1, 2])
})

test('the metrics hear of each call of the model and how it went, aborted ones not', async () => {
  const heard: (string | undefined)[] = []
  const room = await openDriver(onTestFinished, {
    random: () => -1, acts: [fails('MODEL_ERROR'), says('ok')], onModelCall: ({ failure }) => { heard.push(failure?.outcome.code) }
  })
  await (await room.start()).result
  expect(heard).toEqual(['MODEL_ERROR', undefined])
})
