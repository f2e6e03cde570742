import { refuse } from '../../core/errors.ts'
import { noUsage } from '../../core/events.ts'
import type { SubagentRequest } from '../../core/provider.ts'
import type { ExternalSpec, RunRecord, RunSpec } from '../../core/run.ts'
import type { Publication } from '../../core/store.ts'
import { headerOf } from '../../driver/publication.ts'
import { tighterLimits } from '../../driver/limits.ts'
import { PROVIDER } from './chat.ts'

export interface ChatPlan { id: string, depth: number, model: string, external: ExternalSpec, status: 'queued' | 'running' | 'idle', now: number }

/** What publication writes of a chat (http-api.md 2.1). */
export function chatPublication (request: SubagentRequest, { id, depth, model, external, status, now }: ChatPlan): Publication {
  const { parent, service } = request
  const { cwd = parent.cwd } = external
  const spec: RunSpec = {
    prompt: request.prompt, model, agentOptions: { ...request.agentOptions, model }, hostTools: [], codeMode: 'native',
    limits: tighterLimits(service.limits, parent.limits), depth, relay: service.relay, external,
    ...(request.persona === undefined ? {} : { persona: request.persona }),
    ...(request.toolFilter === undefined ? {} : { toolFilter: request.toolFilter }),
    ...(service.allowedModels === undefined ? {} : { allowedModels: service.allowedModels })
  }
  const record: Omit<RunRecord, 'segment' | 'firstSeq'> = {
    id, tenant: service.tenant, sessionId: id, continues: null, provider: PROVIDER, label: request.label ?? null, status,
    stopReason: null, error: null, depth, parentRunId: parent.runId, parentSessionId: parent.sessionId, rootId: parent.rootId ?? id, model,
    seed: { turns: 0, events: 0 }, notices: service.notices, createdAt: now, startedAt: status === 'queued' ? null : now, settledAt: null,
    expiresAt: null, cancel: null, usage: noUsage(), pendingToolCalls: [], metadata: service.metadata, result: null,
    external: external.way === 'ingest' ? { framesAccepted: 0 } : {}
  }
  const { treeRuns } = spec.limits
  return {
    run: record, spec, header: { ...headerOf(record, spec), ...(cwd === undefined ? {} : { cwd }) },
    ...(treeRuns === undefined ? {} : { treeRuns }),
    ...(service.idempotency ? { idempotency: service.idempotency } : {})
  }
}

/** Throws `INVALID_REQUEST` for what an external CLI cannot be given. */
export function checkRequest ({ agentOptions = {}, service }: SubagentRequest): void {
  const faults = [
    ...(service.hostTools.length > 0 ? ['/tools'] : []),
    ...(service.codeMode === 'native' ? [] : ['/codeMode']),
    ...(['maxTokens', 'temperature', 'providerOptions', 'script'] as const)
      .filter((name) => agentOptions[name] !== undefined).map((name) => `/agentOptions/${name}`)
  ]
  const [first] = faults
  if (first === undefined) return
  const detail = `the provider "${PROVIDER}" has no such setting: the CLI decides it by itself`
  throw refuse('INVALID_REQUEST', { detail: `${first.slice(1)}: ${detail}`, errors: faults.map((pointer) => ({ pointer, detail })) })
}
