import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'
import { agreed, alive, createGates, ME, race, schedules, scripted, start, tally, told, until } from './schedules.ts'

/** Issue 5.4, driver.md §5: cancellations against whatever else happens. Each schedule ends in one state, the same for all. */

const HANG = [{ say: 'so far', hang: true }]

test('two cancels: one is recorded, both are told of the same one', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  for (const schedule of schedules({ micro: 12, turns: 4 })) {
    const { id } = await start(service, scripted(HANG))
    const [a, b] = await race(schedule, () => runs.cancel(ME, id, 'a'), () => runs.cancel(ME, id, 'b'))
    const reasons = [a, b].map((end) => end.value && 'run' in end.value ? end.value.run.cancel?.reason : undefined)
    expect(reasons, told(schedule)).toEqual([schedule.first, schedule.first])
    expect(await agreed(service, id, schedule)).toMatchObject({ stopReason: 'aborted', cancelled: true })
  }
})

test('cancel against completion: completed or aborted, and then for ever', async () => {
  const seen = tally()
  const gates = createGates()
  const service = await startService(onTestFinished, { tools: [gates.tool] })
  for (const schedule of schedules({ micro: 50, turns: 5 })) {
    const { id } = await start(service, scripted([{ call: { name: 'gate' } }, { say: 'done' }]))
    await gates.reached(id)
    const [, cancelled] = await race(schedule, () => gates.open(id), () => service.app.runs.cancel(ME, id, null))
    expect(cancelled.code, told(schedule)).toBeUndefined()
    const end = await agreed(service, id, schedule)
    seen.note(end.stopReason)
    // What was streamed before the cancellation is the output of an aborted run, too.
    if (end.stopReason === 'completed' || end.output.length > 0) expect(end.output, told(schedule)).toEqual([{ type: 'text',
      text: 'done' }])
    if (end.stopReason !== 'completed') expect(end.cancelled).toBe(true)
  }
  expect(seen.seen()).toEqual(['aborted', 'completed'])
})

test('cancel against the end of the time: the one that came first is what the run ended of', async () => {
  let time = Date.parse('2026-11-30T12:00:00Z')
  const service = await startService(onTestFinished, { now: () => time })
  const seen = tally()
  for (const schedule of schedules({ micro: 6, turns: 3 })) {
    time += 1000
    const { id } = await start(service, scripted(HANG, { limits: { timeoutMs: 60_000 } }))
    const live = service.app.registry.live('default', id)
    const { LimitReason } = await import('../../src/loop/agent.ts')
    const expire = (): void => { (live as unknown as { abort (reason: object): void }).abort(new LimitReason('LIMIT_TIME',
      'timeoutMs', 60_000)) }
    await race(schedule, expire, () => service.app.runs.cancel(ME, id, null))
    const end = await agreed(service, id, schedule)
    expect([end.stopReason, end.cancelled], told(schedule)).toEqual(schedule.first === 'a' ? ['error', false] : ['aborted', true])
    seen.note(end.stopReason)
  }
  expect(seen.seen()).toEqual(['aborted', 'error'])
})

test('cancel against the answer of a host\'s tool: a taken answer is in the log; a refused one is not', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  const tools = [{ name: 'ask', description: '', inputSchema: { type: 'object' } }]
  const seen = tally()
  for (const schedule of schedules()) {
    const { id } = await start(service, scripted([{ call: { name: 'ask', id: 'c1' } }, { say: 'done' }], { tools }))
    await until(service, id, ({ status }) => status === 'waiting')
    const answer = { toolCallId: 'c1', content: [{ type: 'text' as const, text: 'yes' }], isError: false }
    const [answered] = await race(schedule, () => runs.answerTools(ME, id, [answer]), () => runs.cancel(ME, id, null))
    const end = await agreed(service, id, schedule)
    const results = (await service.log(id)).flatMap((event) => event.type === 'tool/result' ? [event.data] : [])
    expect(results, told(schedule)).toHaveLength(1)
    expect(results[0]?.ended, told(schedule)).toBe(answered.code === undefined ? undefined : 'cancelled')
    if (answered.code !== undefined) expect([answered.code, answered.reason]).toEqual(['TOOL_CALL_NOT_PENDING', 'cancelled'])
    seen.note(`${answered.code ?? 'taken'} ${end.stopReason}`)
  }
  expect(seen.seen()).toContain('TOOL_CALL_NOT_PENDING aborted')
  expect(seen.seen().some((each) => each.startsWith('taken'))).toBe(true)
})

test('start against its parent\'s cancel: refused, or cancelled with it; nothing runs on', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  const seen = tally()
  for (const schedule of schedules({ micro: 30, turns: 3 })) {
    const parent = await start(service, scripted(HANG))
    const id = randomUUID()
    const [started, cancelled] = await race(schedule,
      () => runs.start(ME, scripted(HANG, { id, parent: { runId: parent.id } }), { signal: alive() }), () => runs.cancel(ME,
        parent.id, null))
    expect(cancelled.code, told(schedule)).toBeUndefined()
    await agreed(service, parent.id, schedule)
    if (started.value) expect(await agreed(service, id, schedule), told(schedule)).toMatchObject({ stopReason: 'aborted' })
    else expect((await service.call('GET', `/v1/runs/${id}`)).status, told(schedule)).toBe(404)
    seen.note(started.code ?? 'started')
    expect(service.app.registry.liveRuns(), told(schedule)).toEqual([])
    expect(service.app.registry.startingRuns(), told(schedule)).toEqual([])
  }
  expect(seen.seen()).toEqual(['PARENT_ABORTED', 'START_ABORTED', 'started'])
})

test('idempotent twins against a cancel: the twins are told the same, and there is one run or none', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  const seen = tally()
  for (const [n, schedule] of schedules({ micro: 30, turns: 3 }).entries()) {
    const id = randomUUID()
    const twin = () => runs.start(ME, scripted(HANG, { id }), { signal: alive(), idempotency: { key: `k${n}`, bodyHash: 'h' } })
    const [twins, cancelled] = await race(schedule, () => Promise.allSettled([twin(), twin()]), () => runs.cancel(ME, id, null))
    const ends = (twins.value ?? []).map((end) => end.status === 'fulfilled' ? end.value.run.id : (end.reason as { code: string }).code)
    if (cancelled.code !== undefined) {
      // It came before there was anything to cancel.
      expect([cancelled.code, ...ends], told(schedule)).toEqual(['RUN_NOT_FOUND', id, id])
      await runs.cancel(ME, id, null)
    }
    expect(new Set(ends).size, `${told(schedule)}: ${ends.join(' ')}`).toBe(1)
    if (ends[0] === id) expect(await agreed(service, id, schedule)).toMatchObject({ stopReason: 'aborted' })
    else expect((await service.call('GET', `/v1/runs/${id}`)).status, told(schedule)).toBe(404)
    seen.note(ends[0] === id ? 'one run' : String(ends[0]))
    expect(service.app.registry.startingRuns(), told(schedule)).toEqual([])
  }
  expect(seen.seen()).toEqual(['START_ABORTED', 'one run'])
})

test('a lost client against the publication of its start: no run, or one that its owner finds', async () => {
  const service = await startService(onTestFinished)
  const { runs } = service.app
  const seen = tally()
  for (const schedule of schedules({ micro: 30, turns: 3 })) {
    const id = randomUUID()
    const client = new AbortController()
    const [started] = await race(schedule, () => runs.start(ME, scripted([{ say: 'done' }], { id }), { signal: client.signal }),
      () => { client.abort() })
    if (started.value) await agreed(service, id, schedule)
    else expect((await service.call('GET', `/v1/runs/${id}`)).status, told(schedule)).toBe(404)
    seen.note(started.code ?? 'started')
    expect(service.app.registry.startingRuns(), told(schedule)).toEqual([])
  }
  expect(seen.seen()).toEqual(['START_ABORTED', 'started'])
})

test('cancel against a tool that answers its signal: the tool is told once, and nothing of it is left', async () => {
  const works = new Map<string, { done: PromiseWithResolvers<string>, aborts: number }>()
  const began = new Map<string, PromiseWithResolvers<void>>()
  const tool = serviceTool('work', (_, { signal, runId }) => {
    const work = { done: Promise.withResolvers<string>(), aborts: 0 }
    works.set(runId, work)
    signal.addEventListener('abort', () => {
      work.aborts++
      work.done.reject(new Error('aborted'))
    })
    began.get(runId)?.resolve()
    return work.done.promise
  })
  const service = await startService(onTestFinished, { tools: [tool] })
  for (const schedule of schedules({ micro: 12, turns: 2 })) {
    const id = randomUUID()
    const begun = Promise.withResolvers<void>()
    began.set(id, begun)
    await start(service, scripted([{ call: { name: 'work' } }, { say: 'done' }], { id }))
    await begun.promise
    const work = works.get(id)
    await race(schedule, () => { work?.done.resolve('worked') }, () => service.app.runs.cancel(ME, id, null))
    const end = await agreed(service, id, schedule)
    expect(end.types.filter((type) => type === 'tool/result'), told(schedule)).toHaveLength(1)
    expect(work?.aborts, told(schedule)).toBeLessThanOrEqual(1)
  }
})
