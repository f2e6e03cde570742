import { isRefusal, refuse } from '../core/errors.ts'
import { CancelReason } from '../core/live.ts'
import type { SubagentRequest } from '../core/provider.ts'
import type { Caller, Key, RunView, StartInput } from './api.ts'
import { findRun, mayUse, viewOf, type RunsContext } from './context.ts'
import { resolveParent } from './parents.ts'
import type { StartingRun } from './registry.ts'

const ROUTE = 'POST /v1/runs'

export interface StartOptions { signal: AbortSignal, idempotency?: Key }
interface Started { run: RunView, replayed: boolean }

/** Starts runs; one under each key at a time (http-api.md §2). */
export function createStart (context: RunsContext): (caller: Caller, input: StartInput, options: StartOptions) => Promise<Started> {
  /** Starts under way by tenant and key: a second one with the same key waits for the first. */
  const underWay = new Map<string, { bodyHash: string, done: Promise<Started> }>()
  return async function start (caller, input, options) {
    const { idempotency } = options
    if (!idempotency) return await startOnce(context, caller, input, options)
    const name = JSON.stringify([caller.tenant, idempotency.key])
    for (let other = underWay.get(name); other; other = underWay.get(name)) {
      if (other.bodyHash !== idempotency.bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
      const started = await other.done.catch((error: unknown) => { if (!isRefusal(error)) throw error })
      if (started) return { run: await viewOf(context, await findRun(context, caller, started.run.id)), replayed: true }
      // The first one was refused and bound nothing; this one is judged by itself.
      if (underWay.get(name) === other) underWay.delete(name)
    }
    const done = replayOrStart(context, caller, input, { ...options, idempotency })
    const mine = { bodyHash: idempotency.bodyHash, done }
    underWay.set(name, mine)
    try {
      return await done
    } finally {
      if (underWay.get(name) === mine) underWay.delete(name)
    }
  }
}

async function replayOrStart (context: RunsContext, caller: Caller, input: StartInput, options: StartOptions & { idempotency: Key }): Promise<Started> {
  const known = await context.store.findIdempotency(caller.tenant, ROUTE, options.idempotency.key)
  if (known && known.bodyHash !== options.idempotency.bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
  const record = known && await context.store.getRun(caller.tenant, known.subject)
  if (record) return { run: await viewOf(context, record), replayed: true }
  return await startOnce(context, caller, input, options)
}

async function startOnce (context: RunsContext, caller: Caller, input: StartInput, { signal, idempotency }: StartOptions): Promise<Started> {
  const controller = new AbortController()
  const onAbort = (): void => controller.abort(new CancelReason('disconnect', 'the client went away'))
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  const id = input.id ?? context.newId()
  const start: StartingRun = {
    tenant: caller.tenant, id, abort: (reason) => controller.abort(reason),
    parentRunId: input.parent && 'runId' in input.parent ? input.parent.runId : null
  }
  if (context.registry.starting(caller.tenant, id) || context.registry.live(caller.tenant, id)) {
    signal.removeEventListener('abort', onAbort)
    throw refuse('RUN_EXISTS', { id })
  }
  context.registry.begin(start)
  try {
    checkQuota(context, caller)
    const request = await requestOf(context, caller, { ...input, id }, controller.signal)
    const run = await context.providers.start(input.provider, {
      ...request, service: { ...request.service, ...(idempotency ? { idempotency: { route: ROUTE, ...idempotency } } : {}) }
    })
    const live = context.registry.live(caller.tenant, run.id)
    const record = live?.projection.record ?? await findRun(context, caller, run.id)
    // A run that was just published has no children yet: its row is its view.
    return { run: { ...record, treeUsage: record.usage, runningChildren: 0 }, replayed: false }
  } finally {
    signal.removeEventListener('abort', onAbort)
    context.registry.end(start)
  }
}

function checkQuota ({ registry }: RunsContext, { tenant, limits }: Caller): void {
  if (limits?.running !== undefined && registry.count(tenant) > limits.running) {
    throw refuse('QUOTA_EXCEEDED', { detail: `this key may have ${limits.running} runs open at once`, retryAfter: 1 })
  }
}

async function requestOf (context: RunsContext, caller: Caller, input: StartInput & { id: string }, signal: AbortSignal): Promise<SubagentRequest> {
  checkTranscriptUse(context, input)
  checkScript(context, input)
  const parent = await resolveParent(context, caller, input.parent)
  return {
    prompt: input.task,
    parent: parent.agent,
    signal,
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
      codeMode: input.codeMode,
      limits: { ...context.limits, ...input.limits },
      relay: input.relay,
      metadata: input.metadata,
      notices: parent.losses.map((loss) => `the model does not see this part of the transcript: ${loss}`),
      allowModel: (model) => { if (!mayUse(caller, model)) throw refuse('MODEL_FORBIDDEN', { model }) }
    }
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

function checkScript ({ scriptViolations }: RunsContext, { agentOptions }: StartInput): void {
  if (agentOptions?.script === undefined) return
  const violations = scriptViolations(agentOptions.script)
  if (violations.length === 0) return
  const errors = violations.map((detail) => ({ pointer: '/agentOptions/script', detail }))
  throw refuse('INVALID_REQUEST', { detail: `agentOptions.script: ${violations.join('; ')}`, errors })
}
