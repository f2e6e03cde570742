import { isRefusal } from '../core/errors.ts'
import { text, type Block, type RunResult, type StopReason } from '../core/events.ts'
import { derivedId } from '../core/ids.ts'
import { at } from '../core/fault-point.ts'
import { CancelReason, followSignal, SuspendReason, type LiveRun } from '../core/live.ts'
import type { RunRecord } from '../core/run.ts'
import type { ToolContext } from '../core/tool.ts'
import type { Caller, StartInput } from './api.ts'
import type { RunsContext } from './context.ts'
import { startDelegated } from './start.ts'

/** What a run's delegation tool asks for (driver.md §11). */
export interface DelegateInput { provider: string, prompt: Block[], label: string, agent?: string, background: boolean, call: ToolContext }
export interface DelegatedRun { id: string, result: Promise<RunResult> }

/** The deepest child that a delegation tool makes (driver.md 6.2). */
const MAX_DEPTH = 3

export interface Delegation {
  /** Starts a child of the calling run, or attaches to the one that the same call made before a restart (2.8). Rejects with a `Refusal`. */
  delegate (input: DelegateInput): Promise<DelegatedRun>
  /** The result of a child that the calling run started in the background. */
  collect (id: string, call: ToolContext): Promise<RunResult>
  /** Ends the delegated children of a run whose turn ended, and waits for them. */
  endChildren (run: LiveRun): Promise<void>
  /** Tells a run that is taken up again of its children that settled before it could be told. */
  catchUp (run: LiveRun): Promise<void>
  /** Tells the parent of a child that settled, whichever process started it. */
  childSettled (child: LiveRun): void
}

export function createDelegation (context: RunsContext): Delegation {
  const { registry, store } = context
  return {
    async delegate ({ provider, prompt, label, agent, background, call }) {
      const { tenant, runId, toolCallId } = call
      const parent = liveParent(context, call)
      // One call makes one child, whichever process makes it.
      const id = derivedId(runId, toolCallId)
      const controller = new AbortController()
      const unlink = followSignal(call.signal, 'parent', background ? () => {} : (reason) => controller.abort(reason))
      const known = await store.getRun(tenant, id)
      if (!known) {
        const { allowedModels: models, maxDepth: most = MAX_DEPTH } = parent.spec
        const caller: Caller = { tenant, ...(models ? { models } : {}) }
        const maxDepth = Math.min(MAX_DEPTH, most, context.agents.find(({ name }) => name === agent)?.maxDepth ?? MAX_DEPTH)
        const input: StartInput = {
          id, provider, task: prompt, label, parent: { runId }, maxDepth, codeMode: 'native', limits: {}, relay: {}, metadata: {},
          ...(agent === undefined ? {} : { agent })
        }
        await startDelegated(context, caller, input, { signal: controller.signal, delegation: { toolCallId, background } })
        at('child/published')
      }
      noteStart(parent, { id, toolCallId, label })
      if (known?.stopReason) tell(parent, { id, label, toolCallId, background, stopReason: known.stopReason })
      const result = settled(context, tenant, id, call.signal, background).finally(unlink)
      result.catch(() => {})
      return { id, result }
    },
    async collect (id, call) {
      const record = await store.getRun(call.tenant, id)
      const spec = await store.getSpec(call.tenant, id)
      if (record?.parentRunId !== call.runId || !spec?.delegation?.background) throw new Error(`no subagent "${id}" of this run runs in the background`)
      return await settled(context, call.tenant, id, call.signal, true)
    },
    async endChildren (run) {
      // One in the foreground is left only where a restart cut its call off.
      const children = registry.descendants(run.tenant, run.id).live.filter(({ spec, projection }) =>
        spec.delegation !== undefined && projection.record.parentRunId === run.id)
      for (const child of children) {
        for (const each of [...registry.descendants(child.tenant, child.id).live, child]) each.abort(new CancelReason('parent', 'the parent run ended'))
      }
      await Promise.all(children.map((child) => child.stopped))
    },
    async catchUp (run) {
      const children = run.log.own.flatMap((event) => event.type === 'subagent/start' ? [event.data.runId] : [])
      for (const id of children.filter((child) => !isNoted(run, 'subagent/end', child))) {
        const record = await store.getRun(run.tenant, id)
        const delegation = record && (await store.getSpec(run.tenant, id))?.delegation
        if (delegation && record.stopReason) tell(run, { id, label: record.label ?? '', ...delegation, stopReason: record.stopReason })
      }
    },
    childSettled ({ id, tenant, spec: { delegation }, projection: { record: { parentRunId, label, stopReason } } }) {
      at('child/settled')
      const parent = parentRunId === null ? undefined : registry.live(tenant, parentRunId)
      if (parent && delegation && stopReason) tell(parent, { id, label: label ?? '', ...delegation, stopReason })
    }
  }
}

function liveParent ({ registry }: RunsContext, { tenant, runId }: ToolContext): LiveRun {
  const parent = registry.live(tenant, runId)
  if (!parent) throw new Error(`run ${runId} is not live here`)
  return parent
}

/**
 * The child's result, once it is released. A child that a restart has yet to take up is waited for. A foreground child ends with
 * its call; one in the background goes on, and only the waiting ends. Rejects with the suspension where the process ends first.
 */
async function settled (context: RunsContext, tenant: string, id: string, signal: AbortSignal, background: boolean): Promise<RunResult> {
  const { registry, store } = context
  for (;;) {
    const record: RunRecord | undefined = await store.getRun(tenant, id)
    if (!record) throw new Error('the subagent was deleted')
    if (record.result) return record.result
    const live = registry.live(tenant, id)
    if (signal.reason instanceof SuspendReason || (background && signal.aborted)) throw signal.reason
    const unlink = live && !background ? followSignal(signal, 'parent', (reason) => live.abort(reason)) : () => {}
    await nextChange(context, record, { live, signal, background })
    unlink()
  }
}

interface Watched { live: LiveRun | undefined, signal: AbortSignal, background: boolean }

async function nextChange ({ registry }: RunsContext, record: RunRecord, { live, signal, background }: Watched): Promise<void> {
  const changed = Promise.withResolvers<undefined>()
  const wake = (): void => changed.resolve(undefined)
  const unwatch = live ? () => {} : registry.watchRoot(record.tenant, record.rootId, wake)
  live?.stopped.then(wake, wake)
  signal.addEventListener('abort', wake)
  if (signal.aborted && !live) wake()
  if (!live && registry.live(record.tenant, record.id)) wake()
  await changed.promise
  if (live && signal.aborted && !background) await live.stopped
  signal.removeEventListener('abort', wake)
  unwatch()
}

interface News { id: string, label: string, toolCallId: string, background: boolean, stopReason: StopReason }

const isNoted = (parent: LiveRun, type: 'subagent/start' | 'subagent/end', id: string): boolean =>
  parent.log.own.some((event) => event.type === type && event.data.runId === id)

/** Notes in the parent's log that it has this child, once: a crash may have come between the child's publication and the note. */
function noteStart (parent: LiveRun, { id, toolCallId, label }: Pick<News, 'id' | 'toolCallId' | 'label'>): void {
  if (!isNoted(parent, 'subagent/start', id)) parent.note({ type: 'subagent/start', data: { runId: id, toolCallId, label } })
}

/** Notes in the parent's log that a child settled, and tells its model of one in the background; once, whoever tells it first. */
function tell (parent: LiveRun, { id, label, toolCallId, background, stopReason }: News): void {
  noteStart(parent, { id, toolCallId, label })
  if (isNoted(parent, 'subagent/end', id)) return
  parent.note({ type: 'subagent/end', data: { runId: id, toolCallId, stopReason } })
  if (!background) return
  try {
    parent.accept([text(`The background subagent ${id} (${label}) settled: ${stopReason}. Collect its result with subagent_result.`)], 'child')
  } catch (error) {
    // The parent's turn is over: nobody is left to tell.
    if (!isRefusal(error)) throw error
  }
}
