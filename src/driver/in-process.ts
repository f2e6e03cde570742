import { asMaxDepth, childDepth } from '../core/depth.ts'
import { isRefusal, outcome, messageOf } from '../core/errors.ts'
import { noUsage, type RunResult, type SessionEvent, type SessionHeader } from '../core/events.ts'
import type { LiveRun } from '../core/live.ts'
import type { Seed, SubagentRequest, SubagentRun } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import type { Publication, Store } from '../core/store.ts'
import type { Agent, Slot } from '../loop/agent.ts'
import { buildAgent, type AgentParts, type AgentSetup, type CaptureHooks } from './agent.ts'
import { checkNotAborted, CreationTransaction } from './creation.ts'
import { ChildRun } from './child-run.ts'
import { tighterLimits } from './limits.ts'

/** A place that executes runs, or one in the queue for it (`free: false`). */
export interface ReservedSlot extends Slot { readonly free: boolean }

export interface DriverOptions extends AgentParts {
  store: Store
  newId: () => string
  /** The deployment's cap on depth, beside the request's. */
  maxDepth?: number
  now: () => number
  random: () => number
  /** How long a settled run is kept. */
  retentionMs: number
  /** A slot for a published run; reserved before publication so that a full queue refuses (http-api.md 8.3). */
  reserve: (resumed: boolean) => ReservedSlot
  /** Makes the run visible to this process' callers, and takes it away again. */
  announce: (run: LiveRun) => void
  retire: (run: LiveRun) => void
  /** A fault: a bug or a lost store, with its cause. */
  onFault: (message: string, error: unknown, context: object) => void
  onModelCall?: Agent['onModelCall']
  onSettled?: (run: RunRecord) => void
}

export interface InProcessRunOptions { seed?: Seed, provider: string }

/** The one driver of in-process children (seed 003): spawn passes no seed, fork the parent's completed turns. */
export interface InProcessDriver {
  /**
   * Fulfils once the child is published; rejects with a `Refusal` once everything of it is undone (driver.md 4.1).
   * Order of checks: maxDepth → signal → the parent's depth → safe range → cap.
   */
  startInProcessRun (request: SubagentRequest, options: InProcessRunOptions): Promise<SubagentRun>
  /** Takes up a run that a stopped process left open (driver.md 2.8). Its failure to build is an outcome. */
  resumeInProcessRun (record: RunRecord, spec: RunSpec): Promise<SubagentRun>
}

export function createInProcessDriver (options: DriverOptions): InProcessDriver {
  return {
    async startInProcessRun (request, { seed, provider }) {
      const maxDepth = asMaxDepth(request.maxDepth)
      checkNotAborted(request.signal)
      const depth = childDepth(request.parent.depths, lower(maxDepth, options.maxDepth))
      const id = request.service.id ?? options.newId()
      const creation = new CreationTransaction(id, request.signal)
      try {
        const spec = specOf(options, request, seed, depth)
        const capture: CaptureHooks = { onCapture: () => {} }
        const setup = await creation.step(() => buildAgent(options, spec, { onCapture: (...args) => capture.onCapture(...args) }))
        const slot = await creation.step(() => options.reserve(false), (reserved) => reserved.release())
        const { publication, record } = publicationOf(options, request, { id, provider, spec, setup, seed, queued: !slot.free })
        creation.check()
        const place = await options.store.publish(publication)
        const run = new ChildRun(options, { record: { ...record, ...place }, spec, setup, slot, capture, header: publication.header })
        options.announce(run)
        creation.detach()
        run.begin(request.signal, seed?.loaded)
        return run
      } catch (error) {
        for (const failure of await creation.rollback()) options.onFault('rollback of a child failed', failure, { runId: id })
        throw error
      }
    },
    async resumeInProcessRun (record, spec) {
      const header = headerOf(record, spec)
      const slot = options.reserve(true)
      const capture: CaptureHooks = { onCapture: () => {} }
      const own = await options.store.readEvents(record.segment, record.seed.events)
      const run = new ChildRun(options, {
        record, spec, slot, capture, header, own, setup: setupOf(() => buildAgent(options, spec, restoredCapture(capture, own)))
      })
      options.announce(run)
      run.begin(undefined)
      return run
    }
  }
}

const lower = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b)

/** A child that cannot be built after its publication settles as `SETUP_FAILED` (driver.md §4.4). */
function setupOf (build: () => AgentSetup): AgentSetup | { failed: RunResult } {
  try {
    return build()
  } catch (error) {
    const failure = outcome('SETUP_FAILED', isRefusal(error) ? error.message : `the agent could not be built: ${messageOf(error)}`)
    return { failed: { output: [], stopReason: 'error', diagnostic: failure.message, error: failure, usage: noUsage() } }
  }
}

function restoredCapture (capture: CaptureHooks, own: readonly SessionEvent[]): CaptureHooks {
  const found = own.find((event) => event.type === 'run/structured')
  return { onCapture: (...args) => capture.onCapture(...args), ...(found?.type === 'run/structured' ? { captured: found.data.value } : {}) }
}

/** Agent options: the parent's model and token cap, then the request's, then the child's depth, which none can override (driver.md §4.3). */
function specOf (options: DriverOptions, request: SubagentRequest, seed: Seed | undefined, depth: number): RunSpec {
  const { parent, service } = request
  const given = request.agentOptions ?? {}
  const model = options.models.resolve(given.model ?? parent.model ?? options.models.defaultModel, parent.kind)
  service.allowModel?.(model.id)
  const maxTokens = given.maxTokens ?? parent.maxTokens
  return {
    prompt: request.prompt,
    model: model.id,
    agentOptions: { ...given, model: model.id, ...(maxTokens === undefined ? {} : { maxTokens }) },
    hostTools: service.hostTools,
    codeMode: service.codeMode,
    limits: tighterLimits(service.limits, parent.limits),
    relay: service.relay,
    ...(request.persona === undefined ? {} : { persona: request.persona }),
    ...(seed && parent.system ? { system: parent.system } : {}),
    ...(request.toolFilter === undefined ? {} : { toolFilter: request.toolFilter }),
    ...(request.outputSchema === undefined ? {} : { outputSchema: request.outputSchema }),
    depth
  }
}

interface Child { id: string, provider: string, spec: RunSpec, setup: AgentSetup, seed: Seed | undefined, queued: boolean }

function publicationOf (options: DriverOptions, request: SubagentRequest, child: Child): { publication: Publication, record: Omit<RunRecord, 'segment' | 'firstSeq'> } {
  const { parent, service } = request
  const { id, spec, seed, setup } = child
  const createdAt = options.now()
  const foreign = seed !== undefined && setup.model.kind !== parent.wire
  const record: Omit<RunRecord, 'segment' | 'firstSeq'> = {
    id, tenant: service.tenant, sessionId: id, continues: null, provider: child.provider, label: request.label ?? null,
    status: child.queued ? 'queued' : 'running', stopReason: null, error: null, depth: spec.depth,
    parentRunId: parent.runId, parentSessionId: parent.sessionId, rootId: parent.rootId ?? id, model: spec.model,
    seed: { turns: seed?.turns ?? 0, events: seed?.events ?? 0 }, notices: foreign ? service.notices : [],
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

const headerOf = (record: Omit<RunRecord, 'segment' | 'firstSeq'>, spec: RunSpec): SessionHeader => ({
  id: record.sessionId, tenant: record.tenant, createdAt: record.createdAt, provider: record.provider, delegationDepth: spec.depth,
  ...(record.parentSessionId === null ? {} : { parentSession: record.parentSessionId }),
  ...(record.seed.events === 0 ? {} : { seedLength: record.seed.events }),
  ...(record.label === null ? {} : { label: record.label })
})
