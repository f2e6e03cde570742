import type { LiveRun } from '../core/live.ts'
import type { RunRecord, RunSpec } from '../core/run.ts'
import type { Requests } from './requests.ts'
import { runSpanId, toolSpanId } from './run-spans.ts'
import { parseTrace, traceIdOf, type SpanPlace } from './trace-context.ts'

/** Where a run stands in a trace. */
export interface Traced {
  place: SpanPlace
  parent?: { spanId: string, remote: boolean }
  /** In its host's trace. */
  hosted: boolean
  links: SpanPlace[]
}
type Kin = Pick<RunRecord, 'tenant' | 'parentRunId'>

/** Which trace a run belongs to, and below which span: its host's own, its parent's, or one that its root begins. */
export interface Families {
  find (tenant: string, id: string): Traced | undefined
  /** Also of a run that is removed. */
  of (run: LiveRun): Traced | undefined
  add (run: LiveRun, host: SpanPlace | undefined): Traced
  remove (run: LiveRun): void
  /** The span in a trace that came from a host, if the run is to stand below one. */
  hostSpan (run: Kin, spec: RunSpec): SpanPlace | undefined
}

/** `decide`: whether a trace is sampled; `parent`: whether it is where it comes from. */
export function createFamilies (
  requests: Pick<Requests, 'current'>, decide: (traceId: string, parent: boolean | undefined) => boolean
): Families {
  const runs = new Map<string, Traced>()
  const places = new WeakMap<LiveRun, Traced>()
  const keyOf = (tenant: string, id: string): string => `${tenant}/${id}`
  const find = (tenant: string, id: string): Traced | undefined => runs.get(keyOf(tenant, id))
  const parentOf = ({ tenant, parentRunId }: Kin): Traced | undefined =>
    parentRunId === null ? undefined : find(tenant, parentRunId)
  return {
    find,
    of: (run) => places.get(run),
    add (run, host) {
      const { record } = run.projection
      const traceId = host?.traceId ?? traceIdOf(run.tenant, record.rootId)
      const own = parentSpan(record, run.spec)
      const parent = host?.spanId ?? own
      const kin = parentOf(record)
      const traced: Traced = {
        place: {
          traceId, spanId: runSpanId(run.tenant, run.id), sampled: decide(traceId, host?.sampled),
          ...host?.state === undefined ? {} : { state: host.state }
        },
        hosted: host !== undefined,
        links: kin && parent !== own ? [kin.place] : [],
        ...parent === undefined ? {} : { parent: { spanId: parent, remote: parent !== own } }
      }
      runs.set(keyOf(run.tenant, run.id), traced)
      places.set(run, traced)
      return traced
    },
    remove: ({ tenant, id }) => { runs.delete(keyOf(tenant, id)) },
    hostSpan (run, spec) {
      // A run that was seen in a chat is not started by the request that brought the news.
      const own = spec.delegation || spec.external?.way === 'child' ? undefined : parseTrace(requests.current()?.trace ?? {})
      const parent = parentOf(run)
      return own ?? (parent?.hosted ? { ...parent.place, spanId: parentSpan(run, spec) ?? parent.place.spanId } : undefined)
    }
  }
}

/** The span in this service that a child stands under: its parent's call of the tool that made it, or its parent. */
function parentSpan ({ tenant, parentRunId }: Kin, { delegation }: RunSpec): string | undefined {
  if (parentRunId === null) return undefined
  return delegation ? toolSpanId(tenant, parentRunId, delegation.toolCallId) : runSpanId(tenant, parentRunId)
}
