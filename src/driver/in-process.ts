import { asMaxDepth, childDepth } from '../core/depth.ts'
import { isRefusal, outcome } from '../core/errors.ts'
import type { Outcome } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { FollowUp, Seed, SubagentRequest, SubagentRun } from '../core/provider.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import { LimitReason } from '../loop/agent.ts'
import { buildAgent, createHooks, type AgentSetup } from './agent.ts'
import { checkNotAborted, CreationTransaction } from './creation.ts'
import { ChildRun } from './child-run.ts'
import { continueRun } from './follow-up.ts'
import { tighterLimits } from './limits.ts'
import { announce, type DriverOptions, type ReservedSlot } from './options.ts'
import { headerOf, publicationOf } from './publication.ts'
import { dropSeed, keepSeed } from './seed.ts'
import { capturedValue } from './structured-output.ts'

export interface InProcessRunOptions { seed?: Seed, provider: string }

/** The one driver of in-process children (seed 003): spawn passes no seed, fork the parent's completed turns. */
export interface InProcessDriver {
  /**
   * Fulfils once the child is published; rejects with a `Refusal` once everything of it is undone (driver.md 4.1).
   * Order of checks: maxDepth → signal → the parent's depth → safe range → cap.
   */
  startInProcessRun (request: SubagentRequest, options: InProcessRunOptions): Promise<SubagentRun>
  /** A new run on a settled one's session: same agent, same place in the tree, its own result. */
  readonly continueInProcessRun: (request: FollowUp) => Promise<SubagentRun>
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
        const spec = specOf(options, request, seed, { depth, ...(maxDepth === undefined ? {} : { maxDepth }) })
        const hooks = createHooks()
        const setup = await creation.step(() => buildAgent(options, spec, hooks, request.signal))
        const slot = await creation.step(() => slotOf(options, spec, request.service.tenant, false), (reserved) => reserved.release())
        const { store } = options
        const kept = await creation.step(() => keepSeed(store, seed, request.signal), (made) => dropSeed(store, seed, made))
        const { publication, record } = publicationOf(options, request, { id, provider, spec, setup, seed: kept, queued: !slot.free })
        creation.check()
        at('publication/begun')
        const place = await store.publish(publication)
        at('publication/written')
        const run = new ChildRun(options, { record: { ...record, ...place }, spec, setup, slot, hooks, header: publication.header })
        announce(options, run)
        creation.detach()
        run.begin(request.signal, seed?.loaded)
        return run
      } catch (error) {
        for (const failure of await creation.rollback()) options.onFault('rollback of a child failed', failure, { runId: id })
        throw error
      }
    },
    continueInProcessRun: (request) => continueRun(options, request),
    async resumeInProcessRun (record, spec) {
      const { store } = options
      at('resume/begun')
      const own = await store.readEvents(record.segment, record.seed.events)
      const header = (await store.getSession(record.tenant, record.sessionId))?.header ?? headerOf(record, spec)
      const captured = capturedValue(own.slice(record.firstSeq - record.seed.events))
      const hooks = { ...createHooks(), ...(captured ? { captured: captured.value } : {}) }
      const setup = async (signal: AbortSignal): ReturnType<typeof setupOf> => {
        await options.catchUp?.(run)
        return await setupOf(options, record, buildAgent(options, spec, hooks, signal), signal)
      }
      const run: ChildRun = new ChildRun(options, { record, spec, slot: slotOf(options, spec, record.tenant, true), hooks, header, own, resumed: true, setup })
      announce(options, run)
      run.begin(undefined)
      return run
    }
  }
}

/** A child of a delegation tool runs in its parent's slot (driver.md §11). */
const slotOf = (options: DriverOptions, spec: RunSpec, tenant: string, resumed: boolean): ReservedSlot =>
  spec.delegation ? PARENTS_SLOT : options.reserve(tenant, resumed)

const PARENTS_SLOT: ReservedSlot = { free: true, ready: true, release () {}, acquire: () => Promise.resolve() }

const lower = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b)

/** A child that cannot be built after its publication settles as `SETUP_FAILED` (driver.md §4.4); one that is stopped meanwhile has not failed. */
async function setupOf (
  { onFault }: DriverOptions, { id }: RunRecord, built: Promise<AgentSetup>, signal: AbortSignal
): Promise<AgentSetup | { failed: Outcome | undefined }> {
  try {
    return await built
  } catch (error) {
    const { reason }: { reason?: unknown } = signal
    if (signal.aborted) return { failed: reason instanceof LimitReason ? outcome(reason.code, reason.message) : undefined }
    if (isRefusal(error)) return { failed: outcome('SETUP_FAILED', error.message) }
    onFault('the agent of a run could not be built again', error, { runId: id })
    return { failed: outcome('SETUP_FAILED', 'the agent could not be built') }
  }
}

/** Agent options: the parent's model and token cap, then the request's, then the child's depth, which none can override (driver.md §4.3). */
function specOf (
  options: DriverOptions, request: SubagentRequest, seed: Seed | undefined, depths: { depth: number, maxDepth?: number }
): RunSpec {
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
    ...(service.toolsFrom ? { toolsFrom: service.toolsFrom } : {}),
    codeMode: service.codeMode,
    limits: tighterLimits(service.limits, parent.limits),
    relay: service.relay,
    ...(request.persona === undefined ? {} : { persona: request.persona }),
    ...(seed && parent.system ? { system: parent.system } : {}),
    ...(request.toolFilter === undefined ? {} : { toolFilter: request.toolFilter }),
    ...(request.outputSchema === undefined ? {} : { outputSchema: request.outputSchema }),
    ...(service.delegation === undefined ? {} : { delegation: service.delegation }),
    ...(service.allowedModels === undefined ? {} : { allowedModels: service.allowedModels }),
    ...depths
  }
}
