import { isDepth, type DelegationDepths } from '../core/depth.ts'
import { refuse } from '../core/errors.ts'
import type { NewEvent, SessionEvent, SystemSection, ToolDefinition, WireFormat } from '../core/events.ts'
import { transcriptHeader } from '../core/fold.ts'
import type { ParentAgent, Seed } from '../core/provider.ts'
import type { RunLimits, RunRecord } from '../core/run.ts'
import { endpointKind } from '../core/transcript.ts'
import type { Caller, ParentInput } from './api.ts'
import { findRun, type RunsContext } from './context.ts'
import { inShares } from './steps.ts'

/** The delegating agent of a start, and what its host gave it to hand on (http-api.md 4.3). */
export interface ResolvedParent { agent: ParentAgent, tools?: ToolDefinition[], losses: string[] }

const nobody = { runId: null, sessionId: null, rootId: null }

/** Finds the parent that a start names. Throws `RUN_NOT_FOUND`, `SESSION_NOT_FOUND`, `PARENT_ABORTED`, `TRANSCRIPT_INVALID`. */
export async function resolveParent (context: RunsContext, caller: Caller, input: ParentInput | undefined): Promise<ResolvedParent> {
  if (input === undefined) return { agent: { ...nobody, depths: raised({}, caller.minDepth), completedTurns: () => undefined }, losses: [] }
  if ('runId' in input) return await parentRun(context, caller, input.runId)
  if ('sessionId' in input) return await parentSession(context, caller, input.sessionId)
  return await inlineParent(context, caller, input)
}

async function parentRun (context: RunsContext, caller: Caller, id: string): Promise<ResolvedParent> {
  const live = context.registry.live(caller.tenant, id)
  const record = live?.projection.record ?? await findRun(context, caller, id)
  if (record.cancel !== null) throw refuse('PARENT_ABORTED', { id })
  const spec = live?.spec ?? await context.store.getSpec(caller.tenant, id)
  const session = live ? undefined : await context.store.getSession(caller.tenant, record.sessionId)
  const { log } = live ?? {}
  const cwd = (log ?? session)?.header.cwd
  return {
    losses: [],
    agent: {
      depths: { stored: record.depth },
      model: record.model,
      runId: record.id,
      sessionId: record.sessionId,
      rootId: record.rootId,
      ...(spec?.agentOptions.maxTokens === undefined ? {} : { maxTokens: spec.agentOptions.maxTokens }),
      ...(spec?.system === undefined ? {} : { system: spec.system }),
      ...(cwd === undefined ? {} : { cwd }),
      limits: treeLimits(spec?.limits),
      completedTurns: () => log
        ? seedOf(record.segment, log.completedLength, log.completedTurns)
        : session && seedOf(session.segment, session.completedLength, session.turns)
    }
  }
}

/** Links a run to its ancestors, so that a cancellation reaches what starts below settled ones (driver.md 5.2). */
export async function rememberAncestors (
  { registry, store }: Pick<RunsContext, 'registry' | 'store'>, tenant: string, runId: string
): Promise<void> {
  for (let id: string | null = runId; id !== null && !registry.live(tenant, id);) {
    const record: RunRecord | undefined = await store.getRun(tenant, id)
    if (!record || !registry.remember(tenant, record)) return
    id = record.parentRunId
  }
}

const treeLimits = (limits: RunLimits = {}): RunLimits => ({
  ...(limits.treeRuns === undefined ? {} : { treeRuns: limits.treeRuns }),
  ...(limits.treeTokens === undefined ? {} : { treeTokens: limits.treeTokens })
})

const seedOf = (segment: number, length: number, turns: number): Seed | undefined =>
  length === 0 ? undefined : { stored: { segment, length }, turns, events: length }

/** A session's log begins with what came beside its messages, then with the system prompt that came among them. */
const HEADERS = 2

async function parentSession (context: RunsContext, caller: Caller, id: string): Promise<ResolvedParent> {
  const session = await context.store.getSession(caller.tenant, id)
  if (!session) throw refuse('SESSION_NOT_FOUND', { id })
  if (!session.registered) return await parentRun(context, caller, id)
  const header = transcriptHeader(await context.store.readEvents(session.segment, 0, HEADERS))
  const kind = endpointKind(session.format)
  return {
    losses: session.losses ?? [],
    ...(header && header.tools.length > 0 ? { tools: header.tools } : {}),
    agent: {
      ...nobody,
      sessionId: id,
      depths: raised({ stored: session.header.delegationDepth }, caller.minDepth),
      ...(session.model === null ? {} : { model: session.model }),
      ...(kind ? { kind } : {}),
      ...(kind && kind === session.format ? { wire: kind as WireFormat } : {}),
      ...(session.header.cwd === undefined ? {} : { cwd: session.header.cwd }),
      ...systemOf(header?.system ?? []),
      completedTurns: () => seedOf(session.segment, session.completedLength, session.turns)
    }
  }
}

async function inlineParent (
  context: RunsContext, caller: Caller, input: Exclude<ParentInput, { runId: string } | { sessionId: string }>
): Promise<ResolvedParent> {
  const imported = input.transcript && await inShares(context.importTranscript(input.transcript))
  const kind = endpointKind(input.transcript?.format)
  const agent: ParentAgent = {
    ...nobody,
    depths: raised({ stored: input.delegationDepth, runtime: input.subagentDepth }, caller.minDepth),
    ...(input.model === undefined ? {} : { model: input.model }),
    ...(input.maxTokens === undefined ? {} : { maxTokens: input.maxTokens }),
    ...(input.cwd === undefined ? {} : { cwd: input.cwd }),
    ...(kind ? { kind } : {}),
    ...(imported?.kind ? { wire: imported.kind as WireFormat } : {}),
    ...systemOf(imported?.system ?? []),
    completedTurns: () => imported && inlineSeed(imported.events, imported.turns, context.now())
  }
  return { agent, losses: imported?.losses ?? [], ...(imported && imported.tools.length > 0 ? { tools: imported.tools } : {}) }
}

function inlineSeed (events: readonly NewEvent[], turns: number, time: number): Seed | undefined {
  if (events.length === 0) return undefined
  const loaded = events.map((event, seq) => ({ ...event, seq, time }) as SessionEvent)
  return { stored: { events }, turns, events: events.length, loaded }
}

const systemOf = (system: SystemSection[]): { system?: SystemSection[] } => system.length > 0 ? { system } : {}

/** A claimed depth, raised to the least that the key stands at; a malformed one is left for the driver to refuse (http-api.md 8.1). */
function raised (claimed: DelegationDepths, minDepth: number | undefined): DelegationDepths {
  if (minDepth === undefined) return claimed
  const { runtime } = claimed
  return { ...claimed, runtime: runtime === undefined ? minDepth : isDepth(runtime) ? Math.max(runtime, minDepth) : runtime }
}
