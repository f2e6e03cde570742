import type { RunResult, SessionEvent } from '../src/core/events.ts'
import { relayFault, relayOf } from '../src/core/relay.ts'
import type { PendingToolCall, RelayOptions, SessionRecord } from '../src/core/run.ts'
import { toolResultOf } from '../src/core/tool-result.ts'
import type { EventPage, RunTree, RunView, StreamItem } from '../src/runs/api.ts'
import { frame } from './sse.ts'

/** What the application gives, as the wire has it: times as ISO 8601, links, no internals. */

const iso = (ms: number): string => new Date(ms).toISOString()
const isoOrNull = (ms: number | null): string | null => ms === null ? null : iso(ms)

export const pendingView = (calls: readonly PendingToolCall[]) =>
  calls.map(({ toolCallId, name, input, deadline }) => ({ toolCallId, name, input, deadline: isoOrNull(deadline) }))

export function runView (run: RunView) {
  const self = `/v1/runs/${run.id}`
  return {
    id: run.id,
    sessionId: run.sessionId,
    continues: run.continues,
    provider: run.provider,
    label: run.label,
    status: run.status,
    stopReason: run.stopReason,
    error: run.error,
    depth: run.depth,
    parent: { runId: run.parentRunId, sessionId: run.parentSessionId },
    rootId: run.rootId,
    model: run.model,
    seed: { turns: run.seed.turns, events: run.seed.events },
    notices: run.notices,
    createdAt: iso(run.createdAt),
    startedAt: isoOrNull(run.startedAt),
    settledAt: isoOrNull(run.settledAt),
    expiresAt: isoOrNull(run.expiresAt),
    cancel: run.cancel && { at: iso(run.cancel.at), reason: run.cancel.reason, by: run.cancel.by },
    usage: run.usage,
    treeUsage: run.treeUsage,
    pendingToolCalls: pendingView(run.pendingToolCalls),
    runningChildren: run.runningChildren,
    externalId: run.external?.id ?? null,
    framesAccepted: run.external?.framesAccepted ?? null,
    metadata: run.metadata,
    links: { self, result: `${self}/result`, events: `${self}/events`, cancel: `${self}/cancel` }
  }
}

export interface TreeView extends ReturnType<typeof runView> { children: TreeView[] }
export const treeView = (tree: RunTree): TreeView => ({ ...runView(tree), children: tree.children.map(treeView) })

/** A result with what the host hands to its model (http-api.md §5). `options` are judged before. */
export function resultView (runId: string, result: RunResult, options: RelayOptions) {
  const toolResult = toolResultOf(result)
  return {
    runId,
    stopReason: result.stopReason,
    output: result.output,
    structured: result.structured ?? null,
    diagnostic: result.diagnostic ?? null,
    error: result.error ?? null,
    usage: result.usage,
    toolResult,
    ...relayFault(options) === undefined && relayOf(toolResult, options)
  }
}

export const unsettledView = (run: RunView) =>
  ({ runId: run.id, status: run.status, pendingToolCalls: pendingView(run.pendingToolCalls) })

/** A run, with its result when it is settled. */
export const runWithResult = (run: RunView, options: RelayOptions) =>
  ({ ...runView(run), result: run.result && resultView(run.id, run.result, options) })

export function sessionView (session: SessionRecord) {
  const { header } = session
  return {
    id: session.id,
    length: session.length,
    turns: session.turns,
    registered: session.registered,
    createdAt: iso(header.createdAt),
    model: session.model,
    format: session.format,
    delegationDepth: header.delegationDepth ?? 0,
    cwd: header.cwd ?? null,
    metadata: session.metadata
  }
}
export const sessionLength = ({ id, length, turns }: SessionRecord) => ({ id, length, turns })

type LoggedEvent = EventPage['events'][number]

/** An event's data with its times as ISO 8601, and without what only the service reads. */
function dataView (event: Omit<LoggedEvent, 'runId'>, relay: RelayOptions): unknown {
  const known = event as SessionEvent
  switch (known.type) {
    case 'run/cancel': return { ...known.data, at: iso(known.data.at) }
    case 'tool/call': return known.data.deadline === undefined ? known.data : {
      ...known.data, deadline: iso(known.data.deadline)
    }
    case 'run/settled': return resultView(known.data.runId, known.data.result, relay)
    default: return event.data
  }
}

const logged = (runId: string, event: Omit<LoggedEvent, 'runId'>, type: string, relay: RelayOptions) =>
  ({ runId, seq: event.seq, time: iso(event.time), type, data: dataView(event, relay) })

/** A page of the log; the stream's own `run/settled` is called `settled`, as on the live stream (6.2). */
export const pageView = (id: string, page: EventPage, relay: RelayOptions) => ({
  events: page.events.map((event) =>
    logged(
      event.runId, event, event.type === 'run/settled' && event.runId === id ? 'settled' : event.type,
      event.runId === id ? relay : {}
    )),
  after: page.after,
  settled: page.settled
})

/** The text of one item of the stream of run `id` (6.1, 6.2). */
export type ItemText = (id: string, item: StreamItem, relay: RelayOptions) => string

/** Makes the text of what many readers get once; it lives as long as what it tells of. */
export function createItemText (): ItemText {
  const shared = new WeakMap<object, string>()
  return (id, item, relay) => {
    const told = item.type === 'delta' && item.shared ? item.delta : item.type === 'event' && item.shared ? item.event : undefined
    if (told === undefined) return textOf(id, item, relay)
    const kept = shared.get(told)
    if (kept !== undefined) return kept
    const made = textOf(id, item, relay)
    shared.set(told, made)
    return made
  }
}

function textOf (id: string, item: StreamItem, relay: RelayOptions): string {
  switch (item.type) {
    case 'run': return plain('run', item.run.id, runView(item.run))
    case 'delta': return plain('delta', item.runId, item.delta)
    case 'snapshot': return plain('snapshot', item.runId, item.snapshot)
    // Who comes again after it goes on from there.
    case 'gap': return frame({ id: item.oldest, event: 'gap', data: JSON.stringify({ runId: id, type: 'gap', data: { oldest: item.oldest } }) })
    case 'event': {
      const { event } = item
      const data = logged(item.runId, event, event.type, item.runId === id ? relay : {})
      return frame({ id: item.cursor, event: event.type, data: JSON.stringify(data) })
    }
    case 'settled': {
      const { runId, seq, time, result } = item
      const data = { runId, seq, time: iso(time), type: 'settled', data: resultView(runId, result, runId === id ? relay : {}) }
      return frame({ id: item.cursor, event: 'settled', data: JSON.stringify(data) })
    }
    default: return item satisfies never
  }
}

const plain = (type: string, runId: string, data: unknown): string => frame(
  { event: type, data: JSON.stringify({ runId, type, data }) }
)
