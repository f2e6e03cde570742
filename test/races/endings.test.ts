import { expect, onTestFinished, test } from 'vitest'
import type { SessionEvent } from '../../src/core/events.ts'
import { startService, type Service } from '../support/service.ts'
import { readEvents } from '../support/sse.ts'
import { agreed, alive, createGates, ME, race, schedules, scripted, start, tally, told, until } from './schedules.ts'

/** Issue 5.4: what ends a run, a session or a turn, against what would go on with it. */

const HANG = [{ say: 'so far', hang: true }]
const tools = [{ name: 'ask', description: '', inputSchema: { type: 'object' } }]
const ASK = [{ call: { name: 'ask', id: 'c1' } }, { say: 'done' }]
const says = (text: string) => [{ type: 'text' as const, text }]
const resultsOf = (log: readonly SessionEvent[]) => log.flatMap((event) => event.type === 'tool/result' ? [event.data] : [])

async function waiting (service: Service): Promise<string> {
  const { id } = await start(service, scripted(ASK, { tools }))
  await until(service, id, ({ status }) => status === 'waiting')
  return id
}

test('dispose against result: who waits gets one result, nothing is left, and a second DELETE finds that', async () => {
  const seen = tally()
  const gates = createGates()
  const service = await startService(onTestFinished, { tools: [gates.tool] })
  const { runs, registry, store } = service.app
  for (const schedule of schedules({ micro: 20, turns: 6 })) {
    const { id } = await start(service, scripted([{ call: { name: 'gate' } }, { say: 'done' }]))
    await gates.reached(id)
    const waits = Array.from({ length: 2 }, () => runs.wait(ME, id, { ms: 20_000, signal: alive(), orWaiting: false }))
    const { items } = await runs.stream(ME, id, { tree: false,
      signal: alive() }) as Exclude<Awaited<ReturnType<typeof runs.stream>>, { ended: true }>
    const reading = (async () => {
      const ends: string[] = []
      for await (const batch of items) for (const item of batch) if (item.type === 'settled') ends.push(item.result.stopReason)
      return ends
    })()
    const [, disposed] = await race(schedule, () => gates.open(id), () => runs.dispose(ME, id))
    expect(disposed.code, told(schedule)).toBeUndefined()
    const ends = (await Promise.all(waits)).map(({ status, stopReason, result }) => [status, stopReason, result?.stopReason])
    const [[, stopReason] = []] = ends
    expect(ends, told(schedule)).toEqual([['settled', stopReason, stopReason], ['settled', stopReason, stopReason]])
    expect(await reading, told(schedule)).toEqual([stopReason])
    seen.note(String(stopReason))
    await runs.dispose(ME, id)
    expect(await store.getRun('default', id), told(schedule)).toBeUndefined()
    expect([registry.liveRuns(), registry.startingRuns()], told(schedule)).toEqual([[], []])
  }
  expect(seen.seen()).toEqual(['aborted', 'completed'])
})

test('DELETE against a reader that comes: the stream ends with the run\'s result, or the run is not there', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  const isAborted = { event: 'settled', data: { data: { stopReason: 'aborted' } } }
  for (const schedule of schedules({ micro: 4, turns: [1, 2, 4, 8, 16, 32] })) {
    const { id } = await start(service, scripted(HANG))
    const early = await readEvents(service, id)
    await early.next()
    const [read] = await race(schedule, async () => {
      const reader = await readEvents(service, id)
      return { status: reader.status, events: reader.status === 200 ? await reader.all() : [] }
    }, () => runs.dispose(ME, id))
    const { status, events } = read.value ?? { status: 0, events: [] }
    if (status === 200) expect(events.at(-1), told(schedule)).toMatchObject(isAborted)
    else expect(status, told(schedule)).toBe(404)
    expect((await early.all()).at(-1), told(schedule)).toMatchObject(isAborted)
    expect((await readEvents(service, id)).status, told(schedule)).toBe(404)
  }
})

test('two answers of one tool call: the same twice is one, of two that differ one is refused', async () => {
  const service = await startService(onTestFinished)
  const answer = (id: string, text: string) => service.app.runs.answerTools(ME, id, [{ toolCallId: 'c1', content: says(text),
    isError: false }])
  for (const schedule of schedules({ micro: 14, turns: 4 })) {
    const same = await waiting(service)
    const both = await race(schedule, () => answer(same, 'yes'), () => answer(same, 'yes'))
    expect(both.map(({ code }) => code), told(schedule)).toEqual([undefined, undefined])
    expect(await agreed(service, same, schedule)).toMatchObject({ stopReason: 'completed' })
    expect(resultsOf(await service.log(same)), told(schedule)).toHaveLength(1)

    const other = await waiting(service)
    const ends = await race(schedule, () => answer(other, 'a'), () => answer(other, 'b'))
    const [won, lost] = schedule.first === 'a' ? ends : ends.toReversed()
    expect([won?.code, lost?.code, lost?.code && lost.reason], told(schedule)).toEqual([undefined, 'TOOL_CALL_NOT_PENDING',
      'answered'])
    await agreed(service, other, schedule)
    expect(resultsOf(await service.log(other)).map(({ content }) => content), told(schedule)).toEqual([says(schedule.first)])
  }
})

test('two follow-ups: one run goes on, the other is told of the conflict', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  for (const schedule of schedules({ micro: 24, turns: 4 })) {
    const { id } = await start(service, scripted(HANG))
    await runs.cancel(ME, id, null)
    await service.result(id)
    const go = () => runs.sendMessage(ME, id, { content: says('on'), mode: 'follow-up' }, { signal: alive() })
    const ends = await race(schedule, go, go)
    const made = ends.flatMap(({ value }) => value && 'run' in value ? [value.run] : [])
    expect(ends.map(({ code }) => code).filter((code) => code !== undefined), told(schedule)).toEqual(['SESSION_CONFLICT'])
    expect(made.map(({ continues }) => continues), told(schedule)).toEqual([id])
    const next = made[0]?.id ?? ''
    await runs.cancel(ME, next, null)
    await agreed(service, next, schedule)
    expect((await service.log(id)).filter((event) => event.type === 'turn/start'), told(schedule)).toHaveLength(2)
  }
})

test('follow-up against the cancel of its parent: refused, or cancelled with it', async () => {
  const service = await startService(onTestFinished)
  const { runs, registry } = service.app
  const seen = tally()
  for (const schedule of schedules({ micro: 30, turns: 3 })) {
    const parent = await start(service, scripted(HANG))
    const child = await start(service, scripted(HANG, { parent: { runId: parent.id } }))
    await runs.cancel(ME, child.id, null)
    await service.result(child.id)
    const [sent] = await race(schedule, () => runs.sendMessage(ME, child.id, { content: says('on'), mode: 'follow-up' },
      { signal: alive() }), () => runs.cancel(ME, parent.id, null))
    seen.note(sent.code ?? 'sent')
    await agreed(service, parent.id, schedule)
    if (sent.value && 'run' in sent.value) expect(await agreed(service, sent.value.run.id, schedule),
      told(schedule)).toMatchObject({ stopReason: 'aborted' })
    expect([registry.liveRuns(), registry.startingRuns()], told(schedule)).toEqual([[], []])
  }
  expect(seen.seen()).toEqual(['PARENT_ABORTED', 'START_ABORTED', 'sent'])
})

test('follow-up against the cancel of the run that it makes: it settles once', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  for (const schedule of schedules({ micro: 20, turns: 3 })) {
    const { id } = await start(service, scripted([{ say: 'done' }], { label: 'them' }))
    await service.result(id)
    const [sent] = await race(schedule, () => runs.sendMessage(ME, id, { content: says('on'), mode: 'follow-up' },
      { signal: alive() }), () => runs.cancelMany(ME, { label: 'them' }, null))
    if (!sent.value || !('run' in sent.value)) throw new Error(`${told(schedule)}: ${sent.code}`)
    await agreed(service, sent.value.run.id, schedule)
    expect((await agreed(service, id)).stopReason).toBe('completed')
  }
})

test('a message against the end of its turn: taken and answered, or refused and nowhere', async () => {
  const seen = tally()
  const gates = createGates()
  const service = await startService(onTestFinished, { tools: [gates.tool] })
  for (const schedule of schedules({ micro: 24, turns: 4 })) {
    const { id } = await start(service, scripted([{ call: { name: 'gate' } }, { say: 'first' }, { say: 'second' }]))
    await gates.reached(id)
    const [, sent] = await race(schedule, () => gates.open(id), () => service.app.runs.sendMessage(ME, id,
      { content: says('mind'), mode: 'steer' }, { signal: alive() }))
    const end = await agreed(service, id, schedule)
    const log = await service.log(id)
    const users = log.flatMap((event) => event.type === 'user/message' ? [event.data.content] : [])
    expect(users.length, told(schedule)).toBe(sent.code === undefined ? 2 : 1)
    if (sent.code !== undefined) expect(sent.code).toBe('RUN_SETTLED')
    // Who was taken is answered: a message of the model follows it.
    const last = log.findLastIndex((event) => event.type === 'user/message')
    expect(log.slice(last).some((event) => event.type === 'assistant/message'), told(schedule)).toBe(true)
    expect(end.stopReason).toBe('completed')
    seen.note(sent.code ?? `taken, ${log.filter((event) => event.type === 'assistant/message').length} messages`)
  }
  expect(seen.seen()).toEqual(['RUN_SETTLED', 'taken, 2 messages', 'taken, 3 messages'])
})

test('a message against a cancel: one state, and no message of it is lost without a word', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  for (const schedule of schedules({ micro: 12, turns: 3 })) {
    const { id } = await start(service, scripted(HANG))
    const [sent] = await race(schedule, () => runs.sendMessage(ME, id, { content: says('mind'), mode: 'steer' },
      { signal: alive() }), () => runs.cancel(ME, id, null))
    expect(await agreed(service, id, schedule), told(schedule)).toMatchObject({ stopReason: 'aborted' })
    const noted = (await service.log(id)).filter((event) => event.type === 'run/message').length
    expect(noted, told(schedule)).toBe(sent.code === undefined ? 1 : 0)
  }
})
