import { noUsage } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { FollowUp, SubagentRun } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import { buildAgent, createHooks } from './agent.ts'
import { ChildRun } from './child-run.ts'
import { checkNotAborted, CreationTransaction } from './creation.ts'
import { announce, type DriverOptions } from './options.ts'
import { headerOf } from './publication.ts'

/** A new run on a settled one's session, built and published as a start is (http-api.md 7.3). Its limits and contract are its own. */
export async function continueRun (options: DriverOptions, { previous, spec, id, content, signal, idempotency }: FollowUp): Promise<SubagentRun> {
  checkNotAborted(signal)
  const creation = new CreationTransaction(id, signal)
  try {
    const next: RunSpec = { ...spec, prompt: content }
    delete next.delegation
    const hooks = createHooks()
    const setup = await creation.step(() => buildAgent(options, next, hooks, signal))
    const slot = await creation.step(() => options.reserve(previous.tenant, false), (reserved) => reserved.release())
    const { store } = options
    const own = await creation.step(() => store.readEvents(previous.segment, previous.seed.events))
    const header = await creation.step(async () => (await store.getSession(previous.tenant, previous.sessionId))?.header ?? headerOf(previous, next))
    const record = laterRecord(options, previous, id, !slot.free)
    creation.check()
    at('follow-up/begun')
    const place = await store.publish({ run: record, spec: next, header, after: previous.seed.events + own.length,
      ...(next.limits.treeRuns === undefined ? {} : { treeRuns: next.limits.treeRuns }), ...(idempotency ? { idempotency } : {}) })
    at('follow-up/written')
    const run = new ChildRun(options, { record: { ...record, ...place }, spec: next, setup, slot, hooks, header, own })
    announce(options, run)
    creation.detach()
    run.begin(signal)
    return run
  } catch (error) {
    for (const failure of await creation.rollback()) options.onFault('rollback of a follow-up failed', failure, { runId: id })
    throw error
  }
}

/** The row of a run that goes on with a settled one's session: at its place in the tree, with a life of its own. */
export function laterRecord (options: Pick<DriverOptions, 'now'>, previous: RunRecord, id: string, queued: boolean): Omit<RunRecord, 'segment' | 'firstSeq'> {
  const createdAt = options.now()
  return {
    ...previous, id, continues: previous.id, rootId: previous.parentRunId === null ? id : previous.rootId,
    status: queued ? 'queued' : 'running', stopReason: null, error: null, createdAt, startedAt: queued ? null : createdAt,
    settledAt: null, expiresAt: null, cancel: null, usage: noUsage(), pendingToolCalls: [], result: null
  }
}
