import { noUsage, type SessionHeader } from '../core/events.ts'
import type { Seed, SubagentRequest } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import type { Publication } from '../core/store.ts'
import type { AgentSetup } from './agent.ts'
import type { DriverOptions } from './options.ts'

export interface Child { id: string, provider: string, spec: RunSpec, setup: AgentSetup, seed: Seed | undefined, queued: boolean }

/** What publication writes of a child, all of it in one transaction (http-api.md 2.1). */
export function publicationOf (options: DriverOptions, request: SubagentRequest, child: Child): { publication: Publication, record: Omit<RunRecord, 'segment' | 'firstSeq'> } {
  const { parent, service } = request
  const { id, spec, seed, setup } = child
  const createdAt = options.now()
  const foreign = seed !== undefined && setup.model.kind !== parent.wire
  const record: Omit<RunRecord, 'segment' | 'firstSeq'> = {
    id, tenant: service.tenant, sessionId: id, continues: null, provider: child.provider, label: request.label ?? null,
    status: child.queued ? 'queued' : 'running', stopReason: null, error: null, depth: spec.depth,
    parentRunId: parent.runId, parentSessionId: parent.sessionId, rootId: parent.rootId ?? id, model: spec.model,
    seed: { turns: seed?.turns ?? 0, events: seed?.events ?? 0 }, notices: [...foreign ? service.notices : [], ...serverToolNotice(spec, setup), ...setup.notices],
    createdAt, startedAt: child.queued ? null : createdAt, settledAt: null, expiresAt: null, cancel: null,
    usage: noUsage(), pendingToolCalls: [], metadata: service.metadata, result: null
  }
  const header: SessionHeader = {
    ...headerOf(record, spec),
    ...(parent.cwd === undefined ? {} : { cwd: parent.cwd })
  }
  const publication: Publication = {
    run: record, spec, header,
    ...(seed ? { seed: seed.stored } : {}),
    ...(spec.limits.treeRuns === undefined ? {} : { treeRuns: spec.limits.treeRuns }),
    ...(service.idempotency ? { idempotency: service.idempotency } : {})
  }
  return { publication, record }
}

export const headerOf = (record: Omit<RunRecord, 'segment' | 'firstSeq'>, spec: RunSpec): SessionHeader => ({
  id: record.sessionId, tenant: record.tenant, createdAt: record.createdAt, provider: record.provider, delegationDepth: spec.depth,
  ...(record.parentSessionId === null ? {} : { parentSession: record.parentSessionId }),
  ...(record.seed.events === 0 ? {} : { seedLength: record.seed.events }),
  ...(record.label === null ? {} : { label: record.label })
})

/** Tools of another vendor's API that the child's model does not have (http-api.md 4.2). */
function serverToolNotice ({ hostTools }: RunSpec, { model }: AgentSetup): string[] {
  const names = hostTools.filter(({ serverTool, wire }) => serverTool && wire?.format !== model.kind).map(({ name }) => name)
  return names.length === 0 ? [] : [`the model does not have these tools of another API: ${names.join(', ')}`]
}
