import { isRefusal, refuse } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import type { SubagentRequest } from '../core/provider.ts'
import type { Delegation } from '../core/run.ts'
import type { Caller, Key, RunView, StartInput } from './api.ts'
import { checkQuota, findRun, mayUse, viewOf, type RunsContext } from './context.ts'
import { createOnce } from './once.ts'
import { rememberAncestors, resolveParent } from './parents.ts'
import { createStarting, type Starting } from './starting.ts'

const ROUTE = 'POST /v1/runs'

export interface StartOptions { signal: AbortSignal, idempotency?: Key, follows?: boolean }
/** A start that a run's own delegation tool makes: in its parent's slot, outside its key's quota (driver.md §11). */
export interface DelegatedStart { signal: AbortSignal, delegation: Delegation }
interface Started { run: RunView, replayed: boolean }
type Start = (caller: Caller, input: StartInput, options: StartOptions) => Promise<Started>

/** Starts runs; one under each key at a time (http-api.md §2). */
export function createStart (context: RunsContext): Start {
  /** Refusals of starts that somebody cancelled: meant for all who wait for the run, unlike those of a lost client. */
  const cancelled = new WeakSet<object>()
  const once = createOnce<Started>((error) => cancelled.has(error as object))
  return async function start (caller, input, options) {
    const { idempotency } = options
    if (!idempotency) return await startOnce(context, cancelled, caller, input, options)
    const { value, shared } = await once(caller.tenant, idempotency, async () =>
      await replay(context, caller, idempotency) ?? await startOnce(context, cancelled, caller, input, options))
    return shared ? { run: await viewOf(context, await findRun(context, caller, value.run.id)), replayed: true } : value
  }
}

/** The run that the key made before. */
async function replay (context: RunsContext, caller: Caller, { key, bodyHash }: Key): Promise<Started | undefined> {
  const known = await context.store.findIdempotency(caller.tenant, ROUTE, key)
  if (known && known.bodyHash !== bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
  const record = known && await context.store.getRun(caller.tenant, known.subject)
  if (known && !record) throw refuse('RUN_NOT_FOUND', { id: known.subject })
  return record && { run: await viewOf(context, record), replayed: true }
}

/** Starts a child for a call of its parent's delegation tool. */
export async function startDelegated (context: RunsContext, caller: Caller, input: StartInput, options: DelegatedStart): Promise<void> {
  await startOnce(context, new WeakSet(), caller, input, { ...options, follows: true })
}

async function startOnce (context: RunsContext, cancelled: WeakSet<object>, caller: Caller, input: StartInput, options: StartOptions & Partial<DelegatedStart>): Promise<Started> {
  const { signal, idempotency, follows = false, delegation } = options
  const { registry } = context
  at('start/received')
  const id = input.id ?? context.newId()
  if (registry.starting(caller.tenant, id) || registry.live(caller.tenant, id)) throw refuse('RUN_EXISTS', { id })
  const start = createStarting(caller.tenant, id, input.parent, signal)
  registry.begin(start)
  try {
    if (!delegation) checkQuota(context, caller)
    const request = await requestOf(context, caller, { ...withAgent(context, input), id }, start)
    const run = await context.providers.start(input.provider, {
      ...request, service: {
        ...request.service,
        ...(idempotency ? { idempotency: { route: ROUTE, ...idempotency } } : {}),
        ...(delegation ? { delegation } : {})
      }
    })
    const record = registry.live(caller.tenant, run.id)?.projection.record ?? await findRun(context, caller, run.id)
    // A run that was just published has no children yet: its row is its view.
    const view = { ...record, treeUsage: record.usage, runningChildren: 0 }
    if (!follows) await context.store.durable()
    at('start/durable')
    return { run: view, replayed: false }
  } catch (error) {
    if (start.cancelled && isRefusal(error)) cancelled.add(error)
    throw error
  } finally {
    start.end()
    registry.end(start)
  }
}

async function requestOf (context: RunsContext, caller: Caller, input: StartInput & { id: string }, start: Starting): Promise<SubagentRequest> {
  checkTranscriptUse(context, input)
  checkScript(context, input)
  checkExternal(context, input)
  const parent = await resolveParent(context, caller, input.parent)
  if (parent.agent.runId !== null && parent.agent.rootId !== null) {
    context.registry.join(start, parent.agent.rootId)
    await rememberAncestors(context, caller.tenant, parent.agent.runId)
  }
  return {
    prompt: input.task,
    parent: parent.agent,
    signal: start.signal,
    ...(input.label === undefined ? {} : { label: input.label }),
    ...(input.agentOptions === undefined ? {} : { agentOptions: input.agentOptions }),
    ...('maxDepth' in input ? { maxDepth: input.maxDepth } : {}),
    ...(input.toolFilter === undefined ? {} : { toolFilter: input.toolFilter }),
    ...(input.persona === undefined ? {} : { persona: input.persona }),
    ...(input.outputSchema === undefined ? {} : { outputSchema: input.outputSchema }),
    service: {
      tenant: caller.tenant,
      id: input.id,
      hostTools: input.tools ?? parent.tools ?? [],
      ...(input.tools === undefined && parent.tools ? { toolsFrom: 'transcript' as const } : {}),
      codeMode: input.codeMode,
      limits: { ...context.limits, ...input.limits },
      relay: input.relay,
      metadata: input.metadata,
      ...(input.external ? { external: input.external } : {}),
      ...(caller.models ? { allowedModels: caller.models } : {}),
      notices: parent.losses.map((loss) => `the model does not see this part of the transcript: ${loss}`),
      allowModel: (model) => { if (!mayUse(caller, model)) throw refuse('MODEL_FORBIDDEN', { model }) }
    }
  }
}

/** The start with what its named agent adds where it says nothing itself. */
function withAgent ({ agents }: RunsContext, input: StartInput): StartInput {
  if (input.agent === undefined) return input
  const agent = agents.find(({ name }) => name === input.agent)
  if (!agent) {
    const detail = `names an unknown agent "${input.agent}"; see GET /v1/agents`
    throw refuse('INVALID_REQUEST', { detail: `agent ${detail}`, errors: [{ pointer: '/agent', detail }] })
  }
  const { persona, toolFilter, model, maxDepth } = agent
  return {
    ...(persona === undefined ? {} : { persona }),
    ...(toolFilter === undefined ? {} : { toolFilter }),
    ...(maxDepth === undefined ? {} : { maxDepth }),
    ...input,
    ...(model === undefined ? {} : { agentOptions: { model, ...input.agentOptions } })
  }
}

/** Only a provider whose children inherit takes a transcript (http-api.md §4). */
function checkTranscriptUse ({ providers }: RunsContext, { parent, provider }: StartInput): void {
  if (!parent || !('transcript' in parent) || parent.transcript === undefined) return
  const found = providers.get(provider)
  if (!found || found.inheritsParentContext) return
  const detail = `provider "${provider}" takes no transcript; use one that inherits the parent's context`
  throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/parent/transcript', detail }] })
}

/** Only a CLI's output is ingested, and only a CLI kept open (claude-code.md). */
function checkExternal ({ providers }: RunsContext, { external, provider }: StartInput): void {
  const found = providers.get(provider)
  if (!external || !found || found.external) return
  const detail = `provider "${provider}" has none: its runs are done here`
  const errors = Object.keys(external).map((field) => ({ pointer: `/${field}`, detail }))
  throw refuse('INVALID_REQUEST', { detail: errors.map(({ pointer }) => `${pointer.slice(1)}: ${detail}`).join('; '), errors })
}

function checkScript ({ scriptViolations }: RunsContext, { agentOptions }: StartInput): void {
  if (agentOptions?.script === undefined) return
  const violations = scriptViolations(agentOptions.script)
  if (violations.length === 0) return
  const errors = violations.map((detail) => ({ pointer: '/agentOptions/script', detail }))
  throw refuse('INVALID_REQUEST', { detail: `agentOptions.script: ${violations.join('; ')}`, errors })
}
