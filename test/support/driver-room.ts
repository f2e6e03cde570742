import { getEventListeners } from 'node:events'
import { expect } from 'vitest'
import { createIds } from '../../src/core/ids.ts'
import { openTurn } from '../../src/core/turn.ts'
import { text, type SessionEvent } from '../../src/core/events.ts'
import type { LiveRun } from '../../src/core/live.ts'
import type { ParentAgent, SubagentRequest } from '../../src/core/provider.ts'
import type { RunRecord } from '../../src/core/run.ts'
import type { Store } from '../../src/core/store.ts'
import { checkOutputSchema } from '../../src/driver/agent.ts'
import type { ChildRun } from '../../src/driver/child-run.ts'
import { createInProcessDriver, type InProcessDriver } from '../../src/driver/in-process.ts'
import type { DriverOptions } from '../../src/driver/options.ts'
import { createSlots, type Slots } from '../../src/engine/slots.ts'
import { createForkProvider, createSpawnProvider } from '../../src/providers/in-process.ts'
import { createProviderRegistry, type ProviderRegistry } from '../../src/providers/registry.ts'
import { createRegistry, type Registry } from '../../src/runs/registry.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { createSchemaCompiler } from '../../src/tools/schema.ts'
import { createRecordingModels, type Act, type RecordingModels } from './recording-model.ts'
import type { AtEnd } from './service.ts'

export interface RoomOptions extends Partial<Omit<DriverOptions, 'store' | 'models'>> {
  acts?: Act[]
  slots?: { running: number, queued: number }
  /** A store of one's own, or the real one with a method replaced. */
  store?: (real: Store) => Store
  path?: string
}

export interface Room {
  driver: InProcessDriver
  providers: ProviderRegistry
  registry: Registry
  store: Store
  slots: Slots
  models: RecordingModels
  /** What the driver reported as faults. */
  faults: { message: string, error: unknown }[]
  request (changes?: RequestChanges): SubagentRequest
  /** Starts a spawn; the run it makes. */
  start (changes?: RequestChanges): Promise<ChildRun>
  /** The stored log of a run, seed included. */
  log (run: { id: string }): Promise<SessionEvent[]>
  row (run: { id: string }): Promise<RunRecord | undefined>
}
export interface RequestChanges extends Partial<Omit<SubagentRequest, 'service' | 'parent'>> {
  service?: Partial<SubagentRequest['service']>
  parent?: Partial<ParentAgent>
}

/** The real driver on the real store, registry, slots and loop; only the model is a recording. */
export async function openDriver (atEnd: AtEnd, options: RoomOptions = {}): Promise<Room> {
  const { acts = [], slots: size = { running: 100, queued: 100 }, store: wrap = (real) => real, path = ':memory:', ...more } = options
  const real = await openSqliteStore({ path, now: Date.now })
  const store = wrap(real)
  const registry = createRegistry()
  const slots = createSlots(size)
  const models = createRecordingModels(...acts)
  const faults: Room['faults'] = []
  const driver = createInProcessDriver({
    store, models, tools: [], compile: createSchemaCompiler(), newId: createIds(Date.now), now: Date.now, random: () => 0, retentionMs: 1e9,
    reserve: slots.reserve, announce: registry.announce, retire: registry.retire,
    onFault: (message, error) => { faults.push({ message, error }) },
    ...more
  })
  const providers = createProviderRegistry(checkOutputSchema)
  providers.register(createSpawnProvider(driver))
  providers.register(createForkProvider(driver))
  atEnd(async () => {
    await Promise.all(registry.liveRuns().map((run: LiveRun) => run.dispose().catch(() => {})))
    await real.close()
  })
  return {
    driver, providers, registry, store, slots, models, faults, request: requestOf,
    start: async (changes) => await providers.start('spawn', requestOf(changes)) as ChildRun,
    async log (run) {
      const record = await store.getRun('default', run.id)
      return record ? await store.readEvents(record.segment, 0) : []
    },
    row: (run) => store.getRun('default', run.id)
  }
}

function requestOf ({ service, parent, ...changes }: RequestChanges = {}): SubagentRequest {
  return {
    prompt: [text('the task')],
    signal: new AbortController().signal,
    parent: { depths: {}, runId: null, sessionId: null, rootId: null, completedTurns: () => undefined, ...parent },
    service: { tenant: 'default', hostTools: [], codeMode: 'native', limits: {}, relay: {}, metadata: {}, notices: [], ...service },
    ...changes
  }
}

/** Timers that hold the process up. */
export const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

/** Of a settled run nothing is left but its row and a balanced log: no entry, slot, listener, model call or timer (driver.md §5). */
export async function expectNothingLeft (room: Room, run: { id: string }, before: { signal: AbortSignal, timers: number }): Promise<void> {
  expect(room.registry.liveRuns()).toEqual([])
  expect([room.slots.running, room.slots.queued]).toEqual([0, 0])
  expect(getEventListeners(before.signal, 'abort')).toHaveLength(0)
  expect(room.models.open).toBe(0)
  for (const signal of room.models.signals) expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(timers()).toBeLessThanOrEqual(before.timers)
  const log = await room.log(run)
  expect(openTurn(log)).toBeUndefined()
  expect(log.at(-1)).toMatchObject({ type: 'run/settled', data: { runId: run.id } })
  expect(log.filter((event) => event.type === 'run/settled')).toHaveLength(1)
  const row = await room.row(run)
  expect(row).toMatchObject({ status: 'settled', pendingToolCalls: [] })
  const settled = log.at(-1)
  if (settled?.type === 'run/settled') expect(row?.result).toEqual(settled.data.result)
  expect(room.faults).toEqual([])
}

/** Of a refused start nothing exists: no row, no entry, no slot, no listener (driver.md 4.1). */
export async function expectNothingMade (room: Room, id: string, signal: AbortSignal): Promise<void> {
  expect(await room.store.getRun('default', id)).toBeUndefined()
  expect(await room.store.getSession('default', id)).toBeUndefined()
  expect(room.registry.liveRuns()).toEqual([])
  expect([room.slots.running, room.slots.queued]).toEqual([0, 0])
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(room.models.requests).toEqual([])
}
