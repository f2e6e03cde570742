import { expect } from 'vitest'
import type { RunResult } from '../../src/core/events.ts'
import { isRefusal } from '../../src/core/errors.ts'
import type { Tool } from '../../src/core/tool.ts'
import type { Caller, RunView, StartInput } from '../../src/runs/api.ts'
import type { Service } from '../support/service.ts'
import { serviceTool } from '../support/service-tool.ts'
import { logged, readEvents } from '../support/sse.ts'

/** Two calls at once, in every order that matters: schedules are enumerated, nothing is slept. */

export interface Schedule { /** Which call goes first. */ first: 'a' | 'b',
  /** Microtasks that pass before the other. */ micro: number, /** Turns of the event loop that pass before it. */ turns: number }

/** The second call comes up to `micro` microtasks, or `turns` turns of the event loop (or as many as listed), after the first. */
export function schedules ({ micro = 24, turns = 6 }: { micro?: number, turns?: number | number[] } = {}): Schedule[] {
  const counts = typeof turns === 'number' ? Array.from({ length: turns }, (_, n) => n + 1) : turns
  const lags = [...Array.from({ length: micro + 1 }, (_, n) => ({ micro: n, turns: 0 })), ...counts.map((n) => ({ micro: 0,
    turns: n }))]
  return (['a', 'b'] as const).flatMap((first) => lags.map((lag) => ({ first, ...lag })))
}
export const told = ({ first, micro,
  turns }: Schedule): string => `${first} first, ${micro} microtasks and ${turns} turns before the other`

/** What became of a call: its value, or the code that it was refused with. Anything else fails the test. */
export type End<T> = { value: T, code?: undefined } | { value?: undefined, code: string, reason?: unknown }

async function endOf<T> (call: () => T | Promise<T>): Promise<End<T>> {
  try {
    return { value: await call() }
  } catch (error) {
    if (!isRefusal(error)) throw error
    return { code: error.code, reason: error.context.reason }
  }
}

/** Runs both by the schedule; resolves once both have ended. */
export async function race<A, B> ({ first, micro, turns }: Schedule, a: () => A | Promise<A>,
  b: () => B | Promise<B>): Promise<[End<A>, End<B>]> {
  const lag = async (): Promise<void> => {
    for (let n = 0; n < turns; n++) await new Promise((resolve) => { setImmediate(resolve) })
    for (let n = 0; n < micro; n++) await Promise.resolve()
  }
  if (first === 'a') {
    const running = endOf(a)
    await lag()
    return await Promise.all([running, endOf(b)])
  }
  const running = endOf(b)
  await lag()
  const other = endOf(a)
  return await Promise.all([other, running])
}

export const ME: Caller = { tenant: 'default' }
export const input = (more: Partial<StartInput> = {}): StartInput => ({
  provider: 'spawn', task: [{ type: 'text', text: 'a task' }], codeMode: 'native', limits: {}, relay: {}, metadata: {}, ...more
})
export const scripted = (script: object[],
  more: Partial<StartInput> = {}): StartInput => input({ agentOptions: { script: script as never }, ...more })
export const alive = (): AbortSignal => new AbortController().signal

export async function start (service: Service, of: StartInput): Promise<RunView> {
  return (await service.app.runs.start(ME, of, { signal: alive() })).run
}
/** Resolves once the run has come to this. */
export async function until (service: Service, id: string, there: (run: RunView) => boolean): Promise<RunView> {
  for (;;) {
    const run = await service.app.runs.get(ME, id)
    if (there(run)) return run
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

/** A tool in which each run stays until its own gate is opened. */
export function createGates (): { tool: Tool, open (runId: string): void, reached (runId: string): Promise<void> } {
  const gates = new Map<string, { opened: PromiseWithResolvers<string>, reached: PromiseWithResolvers<void> }>()
  const of = (runId: string) => {
    const gate = gates.get(runId) ?? { opened: Promise.withResolvers<string>(), reached: Promise.withResolvers<void>() }
    gates.set(runId, gate)
    return gate
  }
  const tool = serviceTool('gate', (_, { runId }) => {
    of(runId).reached.resolve()
    return of(runId).opened.promise
  })
  return { tool, open: (runId) => of(runId).opened.resolve('open'), reached: async (runId) => await of(runId).reached.promise }
}

export interface Agreed { stopReason: string, cancelled: boolean, output: RunResult['output'], types: string[] }

/** What each kind of reader is told of a run that has ended. */
interface Told {
  row: Pick<RunView, 'status' | 'stopReason' | 'rootId' | 'pendingToolCalls'> & { cancel: object | null }
  result: Pick<RunResult, 'stopReason' | 'output'>
  /** Of the log events of a page and of the live stream: seq and type; of `settled` ones the stop reason, too. */
  page: string[]
  stream: string[]
  listed: string | undefined
}
const placeOf = ({ seq, type, data }: { seq: number, type: string, data: unknown }): string =>
  `${seq} ${type}${type === 'settled' ? ` ${(data as RunResult).stopReason}` : ''}`

async function toldOverHttp (service: Service, id: string): Promise<Told> {
  const result = await service.result(id)
  const [{ body: row }, { body: page }, reader] = await Promise.all([
    service.call('GET', `/v1/runs/${id}`), service.call('GET', `/v1/runs/${id}/events?limit=1000`), readEvents(service, id)
  ])
  const events = await reader.all()
  expect(events.at(-1)?.event).toBe('settled')
  const { body: { runs } } = await service.call('GET', `/v1/runs?root=${row.rootId}&include=result&limit=200`)
  return {
    row, result, page: page.events.map(placeOf), stream: logged(events).map(({ data }) => placeOf(data)),
    listed: runs.find((run: { id: string }) => run.id === id)?.result.stopReason
  }
}

/** The same from the application calls, which are cheaper to ask. */
async function toldInside (service: Service, id: string): Promise<Told> {
  const { runs } = service.app
  const row = await runs.wait(ME, id, { ms: 20_000, signal: alive(), orWaiting: false })
  if (!row.result) throw new Error(`run ${id} is ${row.status}`)
  const { events } = await runs.eventPage(ME, id, { tree: false, limit: 1000, waitMs: 0, signal: alive() })
  const stream: string[] = []
  const opened = await runs.stream(ME, id, { tree: false, signal: alive() })
  for await (const batch of opened.ended ? [] : opened.items) {
    for (const item of batch) {
      if (item.type === 'settled') stream.push(`${item.seq} settled ${item.result.stopReason}`)
      else if (item.type === 'event') stream.push(placeOf(item.event))
    }
  }
  const { runs: list } = await runs.list(ME, { root: row.rootId }, { limit: 200 })
  const listed = list.find((run) => run.id === id)?.result?.stopReason
  return { row, result: row.result, page: events.map(({ seq, type,
    data }) => type === 'run/settled' ? `${seq} settled ${(data as { result: RunResult }).result.stopReason}` : `${seq} ${type}`),
    stream, listed }
}

/**
 * How a run ended, as every reader is told it: log, row, result, list, live stream and page. Fails unless there is exactly one
 * terminal state, the same for all of them, and nothing of the run is left (quality.md, "One terminal write").
 */
export async function agreed (service: Service, id: string, schedule?: Schedule): Promise<Agreed> {
  const why = schedule ? told(schedule) : id
  const isInside = schedule !== undefined && schedule.turns === 0
  const { row, result, page, stream, listed } = await (isInside ? toldInside(service, id) : toldOverHttp(service, id))
  const record = await service.app.store.getRun('default', id)
  const session = (await service.log(id)).slice(record?.firstSeq)
  // A follow-up's events stand behind it in the same log.
  const log = session.slice(0, 1 + session.findLastIndex((event) => event.type === 'run/settled' && event.data.runId === id))
  const rest = session.slice(log.length).map(({ type }) => type)
  if (!rest.includes('turn/start') && !rest.includes('run/settled')) expect(rest, why).toEqual([])
  const settled = log.flatMap((event) => event.type === 'run/settled' ? [event.data.result] : [])
  expect(settled.map(({ stopReason, output }) => ({ stopReason, output })), why).toEqual([{ stopReason: result.stopReason,
    output: result.output }])
  expect([row.status, row.stopReason, row.pendingToolCalls, listed], why).toEqual(['settled', result.stopReason, [],
    result.stopReason])
  const count = (type: string): number => log.filter((event) => event.type === type).length
  expect([count('turn/start'), count('step/start')], why).toEqual([count('turn/end'), count('step/end')])
  expect(count('run/cancel'), why).toBe(row.cancel === null ? 0 : 1)
  expect(stream, why).toEqual(page)
  expect(page.filter((place) => place.includes(' settled ')),
    why).toEqual([`${page.at(-1)?.split(' ')[0]} settled ${result.stopReason}`])
  expect(service.app.registry.live('default', id), why).toBeUndefined()
  if (result.stopReason === 'aborted') expect(row.cancel, why).not.toBeNull()
  return { stopReason: result.stopReason, cancelled: row.cancel !== null, output: result.output,
    types: log.map((event) => event.type) }
}

/** Counts what came of the schedules, so that a test can say that both ends were seen. */
export function tally (): { note (what: string): void, seen (): string[] } {
  const seen = new Set<string>()
  return { note: (what) => { seen.add(what) }, seen: () => [...seen].toSorted() }
}
