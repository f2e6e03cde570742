import { expect } from 'vitest'
import type { RefusalCode } from '../../src/core/errors.ts'
import { noUsage, text, type NewEvent, type RunResult, type SessionEvent, type StopReason } from '../../src/core/events.ts'
import { createIds } from '../../src/core/ids.ts'
import type { RunPatch, RunRecord } from '../../src/core/run.ts'
import type { IdempotencyRecord, NewSession, Publication, Store, StoredSeed } from '../../src/core/store.ts'

/** Builders of what the store is given; every field that a test does not name has a plain value. */

export const T = 'tenant-a'
export const newId = createIds(Date.now)

type RunFields = Partial<Omit<RunRecord, 'segment' | 'firstSeq' | 'seed'>>
export interface PublicationFields {
  run?: RunFields
  seed?: StoredSeed
  treeRuns?: number
  idempotency?: Omit<IdempotencyRecord, 'subject'>
}

export function publication ({ run = {}, seed, treeRuns, idempotency }: PublicationFields = {}): Publication {
  const id = run.id ?? newId()
  const tenant = run.tenant ?? T
  const events = seed === undefined ? 0 : 'events' in seed ? seed.events.length : seed.length
  const record = {
    id, tenant, sessionId: id, continues: null, provider: 'spawn', label: null, status: 'running' as const, stopReason: null,
    error: null, depth: 1, parentRunId: null, parentSessionId: null, rootId: id, model: 'scripted/demo',
    seed: { turns: 0, events: run.continues === undefined || run.continues === null ? events : 0 }, notices: [], createdAt: 1000,
    startedAt: null, settledAt: null, expiresAt: null, cancel: null, usage: noUsage(), pendingToolCalls: [], metadata: {},
    result: null, ...run
  }
  return {
    run: record,
    spec: {
      prompt: [text('do it')], model: record.model, agentOptions: {}, hostTools: [], codeMode: 'native', limits: {},
      depth: record.depth, relay: {}
    },
    header: { id: record.sessionId, tenant, createdAt: record.createdAt, delegationDepth: record.depth },
    ...(seed && { seed }),
    ...(treeRuns !== undefined && { treeRuns }),
    ...(idempotency && { idempotency })
  }
}

export interface Published { id: string, tenant: string, sessionId: string, segment: number, firstSeq: number }
export async function publish (store: Store, fields: PublicationFields = {}): Promise<Published> {
  const made = publication(fields)
  const { id, tenant, sessionId } = made.run
  return { id, tenant, sessionId, ...await store.publish(made) }
}

/** A run under `parent`, in its tree. */
export const childOf = (parent: Published, run: RunFields = {}): RunFields =>
  ({ parentRunId: parent.id, parentSessionId: parent.sessionId, rootId: parent.id, ...run })

export const said = (words: string): NewEvent => ({ type: 'user/message', data: { content: [text(words)] } })
/** The events of a completed turn. */
export const turn = (n: number, words = `turn ${n}`): NewEvent[] => [
  { type: 'turn/start', data: { turn: n, origin: 'task' } },
  said(words),
  { type: 'turn/end', data: { turn: n, reason: 'completed' } }
]
export const at = (from: number, events: readonly NewEvent[], time = 5000): SessionEvent[] =>
  events.map((event, i) => ({ ...event, seq: from + i, time }) as SessionEvent)

export const resultOf = (stopReason: StopReason = 'completed'): RunResult =>
  ({ output: [text('done')], stopReason, usage: noUsage() })

/** Appends at the place `from`, with a change of the run. */
export async function append (
  store: Store, { segment, tenant, id }: Published, from: number, events: readonly NewEvent[], patch?: RunPatch
): Promise<void> {
  await store.append({ segment, events: at(from, events), ...(patch && { run: { tenant, id, patch } }) })
}

/** Holds when the call was refused with this code and, where given, these facts. */
export const refused = async (call: Promise<unknown>, code: RefusalCode, context: object = {}): Promise<void> =>
  expect(call).rejects.toMatchObject({ code, context })

/** Settles the run with its last event at `seq`. */
export async function settle (store: Store, run: Published, seq: number, settledAt = 9000, expiresAt?: number): Promise<void> {
  const result = resultOf()
  await store.append({
    segment: run.segment,
    events: at(seq, [{ type: 'run/settled', data: { runId: run.id, result } }]),
    run: {
      tenant: run.tenant,
      id: run.id,
      patch: { status: 'settled', stopReason: 'completed', settledAt, result, ...(expiresAt !== undefined && { expiresAt }) }
    }
  })
}

export function hostSession (fields: Partial<NewSession> = {}, id = newId()): NewSession {
  return {
    header: { id, tenant: T, createdAt: 1000 }, events: turn(1), tail: [], length: 2, model: null, format: null, metadata: {},
    ...fields
  }
}

/** A clock that a test moves. */
export function createClock (start = 1_000_000): { now: () => number, pass: (ms: number) => void } {
  let time = start
  return { now: () => time, pass: (ms) => { time += ms } }
}
export const DAY = 86_400_000
