import type { LiveRun } from '../core/live.ts'
import type { TraceHeaders } from '../core/run.ts'
import type { Store } from '../core/store.ts'
import { createFamilies, type Traced } from './families.ts'
import { endpointOf, type ModelTarget } from './gen-ai.ts'
import type { SpanSink } from './otel.ts'
import type { Requests } from './requests.ts'
import { RunSpans, toolSpanId } from './run-spans.ts'
import { headersOf, parseTrace } from './trace-context.ts'

export interface Tracing {
  /** Keeps with a run the trace that its host started it in, so that it goes on there after a restart. */
  keeping (store: Store): Store
  /** Follows a run from its announcement on. */
  follow (run: LiveRun, resumed: boolean): void
  /** The run is released. */
  forget (run: LiveRun): void
  /** The id of a run's trace. */
  traceOf (run: LiveRun): string | undefined
  /** A request spoke to a run: the trace it came with is linked. */
  spokeTo (tenant: string, runId: string): void
  /** The headers of a request that a call of a tool makes. */
  headers (call: { tenant: string, runId: string, toolCallId: string }): TraceHeaders | undefined
  /** Sends what is left, within a bounded time. Never rejects. */
  close (hurry: AbortSignal): Promise<void>
}

export const NO_TRACING: Tracing = {
  keeping: (store) => store, follow () {}, forget () {}, traceOf: () => undefined, spokeTo () {}, headers: () => undefined,
  close: () => Promise.resolve()
}

export interface TracingOptions {
  sink: SpanSink
  sampler: string
  requests: Pick<Requests, 'current'>
  /** By the name of their endpoint. */
  targets: ReadonlyMap<string, ModelTarget>
  onFault: (message: string, error: unknown) => void
}

/** More links than that tell nothing. */
const MAX_LINKS = 32

export function createTracing ({ sink, sampler, requests, targets, onFault }: TracingOptions): Tracing {
  const families = createFamilies(requests, createSampler(sampler, sink))
  const targetOf = (model: string): ModelTarget => targets.get(endpointOf(model)) ?? { provider: endpointOf(model) }
  return {
    keeping: (store) => ({
      ...store,
      publish (publication) {
        // A follow-up takes over what the run before it was built from, but not its trace.
        const spec = { ...publication.spec }
        delete spec.trace
        const host = families.hostSpan(publication.run, spec)
        return store.publish({ ...publication, spec: host ? { ...spec, trace: headersOf(host) } : spec })
      }
    }),
    follow (run, resumed) {
      const { projection: { record }, spec } = run
      const traced = families.add(run, resumed ? parseTrace(spec.trace ?? {}) : families.hostSpan(record, spec))
      if (traced.place.sampled) observe(run, traced, { sink, targetOf, onFault })
    },
    forget: (run) => families.remove(run),
    traceOf: (run) => families.of(run)?.place.traceId,
    spokeTo (tenant, id) {
      const traced = families.find(tenant, id)
      const place = traced && parseTrace(requests.current()?.trace ?? {})
      if (place && traced.links.length < MAX_LINKS) traced.links.push(place)
    },
    headers ({ tenant, runId, toolCallId }) {
      const place = families.find(tenant, runId)?.place
      return place && headersOf({ ...place, spanId: toolSpanId(tenant, runId, toolCallId) })
    },
    close: (hurry) => closeWithin(sink, hurry, onFault)
  }
}

interface Telling { sink: SpanSink, targetOf: (model: string) => ModelTarget, onFault: TracingOptions['onFault'] }

/** What a stopped process saw of the run is read again, so that the rest has its beginning; what it told is not told again. */
function observe (run: LiveRun, traced: Traced, { sink, targetOf, onFault }: Telling): void {
  const { log, projection, spec } = run
  let isPast = true
  const spans = new RunSpans({
    place: traced.place, links: traced.links, spec, target: targetOf, record: () => projection.record,
    ...traced.parent ? { parent: traced.parent } : {}
  }, (span) => {
    if (isPast) return
    try { sink.take(traced.place, span) } catch (error) { onFault('a span could not be made', error) }
  })
  for (const event of log.own.slice(projection.record.firstSeq - log.seedLength)) spans.note(event)
  isPast = false
  log.observe((events) => { for (const event of events) spans.note(event) })
}

/** By `OTEL_TRACES_SAMPLER`. `parent`: whether the trace is sampled where it comes from. */
function createSampler (name: string, sink: SpanSink): (traceId: string, parent: boolean | undefined) => boolean {
  const root = (traceId: string): boolean => name.endsWith('traceidratio') ? sink.inRatio(traceId) : name.endsWith('always_on')
  return (traceId, parent) => name.startsWith('parentbased_') && parent !== undefined ? parent : root(traceId)
}

/** How long the last spans may take; in a hurry, less. */
const CLOSE_MS = 5000
const HURRY_MS = 1000

async function closeWithin (sink: SpanSink, hurry: AbortSignal, onFault: TracingOptions['onFault']): Promise<void> {
  const late = Promise.withResolvers<undefined>()
  const sent = sink.close().catch((error: unknown) => onFault('the last spans could not be sent', error))
  const timers = [setTimeout(() => late.resolve(undefined), CLOSE_MS)]
  const onHurry = (): void => { timers.push(setTimeout(() => late.resolve(undefined), HURRY_MS)) }
  if (hurry.aborted) onHurry()
  else hurry.addEventListener('abort', onHurry)
  await Promise.race([sent, late.promise])
  hurry.removeEventListener('abort', onHurry)
  for (const timer of timers) clearTimeout(timer)
}
