import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { hold } from '../support/hold.ts'
import { makeFolder, startService, type Answer } from '../support/service.ts'
import { agreed, ME, race, schedules, scripted, start, tally, told, until } from './schedules.ts'

/** Issue 5.4: what a clock or the end of the process decides, against what a host asks. The clock is the test's own. */

const NOW = Date.parse('2026-11-30T12:00:00Z')
const tools = [{ name: 'ask', description: '', inputSchema: { type: 'object' } }]
const ASK = [{ call: { name: 'ask', id: 'c1' } }, { say: 'done' }]

test('a tool\'s answer against its timeout: the first stands, the other is refused or does nothing', async () => {
  let time = NOW
  const service = await startService(onTestFinished, { now: () => time })
  const { runs } = service.app
  const seen = tally()
  for (const schedule of schedules({ micro: 10, turns: 0 })) {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], now: time })
    let id = ''
    let answered
    try {
      ({ id } = await start(service, scripted(ASK, { tools, limits: { toolTimeoutMs: 5000 } })))
      await until(service, id, ({ status }) => status === 'waiting')
      const answer = { toolCallId: 'c1', content: [{ type: 'text' as const, text: 'yes' }], isError: false };
      [answered] = await race(schedule, () => runs.answerTools(ME, id, [answer]), () => {
        time += 5000
        vi.advanceTimersByTime(5000)
      })
    } finally {
      vi.useRealTimers()
    }
    const end = await agreed(service, id, schedule)
    const results = (await service.log(id)).flatMap((event) => event.type === 'tool/result' ? [event.data] : [])
    expect(results, told(schedule)).toHaveLength(1)
    expect([results[0]?.ended, results[0]?.content], told(schedule)).toEqual(answered.code === undefined
      ? [undefined, [{ type: 'text', text: 'yes' }]]
      : ['expired', [{ type: 'text', text: 'Error: tool call timed out after 5000 ms' }]])
    if (answered.code !== undefined) expect([answered.code, answered.reason]).toEqual(['TOOL_CALL_NOT_PENDING', 'expired'])
    expect(end.stopReason).toBe('completed')
    seen.note(answered.code ?? 'answered')
  }
  expect(seen.seen()).toEqual(['TOOL_CALL_NOT_PENDING', 'answered'])
})

test('the run\'s time against its completion: one end, and its code says which', async () => {
  let time = NOW
  const service = await startService(onTestFinished, { now: () => time })
  const seen = tally()
  for (const schedule of schedules({ micro: 16, turns: 4 })) {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], now: time })
    let id = ''
    try {
      ({ id } = await start(service, scripted(ASK, { tools, limits: { timeoutMs: 5000 } })))
      await until(service, id, ({ status }) => status === 'waiting')
      const answer = { toolCallId: 'c1', content: [], isError: false }
      await race(schedule, () => service.app.runs.answerTools(ME, id, [answer]), () => {
        time += 5000
        vi.advanceTimersByTime(5000)
      })
    } finally {
      vi.useRealTimers()
    }
    const { stopReason } = await agreed(service, id, schedule)
    const { error } = await service.result(id)
    expect([stopReason, error?.code], told(schedule)).toEqual(stopReason === 'completed' ? ['completed', undefined] : ['error',
      'LIMIT_TIME'])
    seen.note(stopReason)
  }
  expect(seen.seen()).toEqual(['completed', 'error'])
})

/** A call whose connection may end with the service: its answer, or `gone`, which tells nothing of what it did. */
const asked = async (call: Promise<Answer>): Promise<Answer | 'gone'> => await call.catch((error: unknown) => {
  if (error instanceof TypeError) return 'gone'
  throw error
})

test('shutdown against start: what was acknowledged is there after the restart and settles; what was refused is not',
  async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const body = { task: 'a task', agentOptions: { script: [{ say: 'done' }] } }
  for (const schedule of schedules({ micro: 0, turns: [1, 2, 4, 8, 16] })) {
    const service = await startService(onTestFinished, { env })
    const id = randomUUID()
    const [started] = await race(schedule, () => asked(service.call('POST', '/v1/runs', { ...body, id })),
      async () => { await service.stop() })
    const next = await startService(onTestFinished, { env })
    const status = started.value === 'gone' ? 0 : started.value?.status ?? 0
    const found = (await next.call('GET', `/v1/runs/${id}`)).status
    if (status !== 0) expect(found, `${told(schedule)}: ${status}`).toBe(status === 201 ? 200 : 404)
    if (found === 200) expect(await agreed(next, id, schedule), told(schedule)).toMatchObject({ stopReason: 'completed',
      cancelled: false })
    await next.stop()
  }
})

test('shutdown against a start that is being published: the run is left to the next start, not cancelled', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const service = await startService(onTestFinished, { env })
  const publication = hold(service.app.store, 'publish')
  const starting = start(service, scripted([{ say: 'done' }], { id: randomUUID() }))
  await publication.reached
  const stopping = service.stop()
  await new Promise((resolve) => { setImmediate(resolve) })
  publication.release()
  const { id } = await starting
  await stopping
  const next = await startService(onTestFinished, { env })
  expect(await agreed(next, id)).toMatchObject({ stopReason: 'completed', cancelled: false })
})

test('shutdown against the answer of a tool: taken, and kept over the restart, or refused and still awaited', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const answer = (content: string): object => ({ results: [{ toolCallId: 'c1', content }] })
  for (const schedule of schedules({ micro: 0, turns: [1, 2, 4, 8, 16] })) {
    const service = await startService(onTestFinished, { env })
    const { id } = await start(service, scripted(ASK, { tools }))
    await until(service, id, ({ status }) => status === 'waiting')
    const [answered] = await race(schedule, () => asked(service.call('POST', `/v1/runs/${id}/tool-results`, answer('first'))),
      async () => { await service.stop() })
    const next = await startService(onTestFinished, { env })
    const status = answered.value === 'gone' ? 0 : answered.value?.status ?? 0
    // A refusal took nothing; who heard nothing says the same again, whatever became of it.
    if (status !== 200) expect((await next.call('POST', `/v1/runs/${id}/tool-results`,
      answer(status === 0 ? 'first' : 'second'))).status, told(schedule)).toBe(200)
    expect(await agreed(next, id, schedule), told(schedule)).toMatchObject({ stopReason: 'completed', cancelled: false })
    const results = (await next.log(id)).flatMap((event) => event.type === 'tool/result' ? [event.data.content] : [])
    expect(results, told(schedule)).toEqual([[{ type: 'text', text: status === 200 || status === 0 ? 'first' : 'second' }]])
    await next.stop()
  }
})

test('8.3 a run that had a place before a restart and has none after it is queued, and running once it has one', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const first = await startService(onTestFinished, { env: { ...env, MAX_RUNNING: '2' } })
  const ids = [await start(first, scripted([{ hang: true }])), await start(first, scripted([{ hang: true }]))].map(({ id }) => id)
  await first.stop()
  const next = await startService(onTestFinished, { env: { ...env, MAX_RUNNING: '1' } })
  const statuses = async (): Promise<string[]> => (await Promise.all(ids.map((id) => next.app.runs.get(ME,
    id)))).map(({ status }) => status)
  await until(next, ids[1] ?? '', ({ status }) => status === 'queued')
  expect(await statuses()).toEqual(['running', 'queued'])
  await next.call('POST', `/v1/runs/${ids[0]}/cancel?wait=10`)
  await until(next, ids[1] ?? '', ({ status }) => status === 'running')
  expect(await statuses()).toEqual(['settled', 'running'])
})
