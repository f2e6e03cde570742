import type { LiveRun } from '../core/live.ts'
import type { Redact } from '../core/secrets.ts'
import type { TraceHeaders } from '../core/run.ts'
import type { Store } from '../core/store.ts'
import { createFamilies, type Traced } from './families.ts'
import { endpointOf, type Attributes, type ModelTarget } from './gen-ai.ts'
import type { SpanSink } from './otel.ts'
import type { Requests } from './requests.ts'
import { RunSpans, toolSpanId, type FinishedSpan } from './run-spans.ts'
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
  /** Takes secrets out of names that come from elsewhere. */
  redact: Redact
  onFault: (message: string, error: unknown) => void
}

/** More links than that tell nothing. */
const MAX_LINKS = 32

export function createTracing ({ sink, sampler, requests, targets, redact, onFault }: TracingOptions): Tracing {
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
      if (traced.place.sampled) observe(run, traced, { sink, targetOf, redact, onFault })
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

interface Telling extends Pick<TracingOptions, 'sink' | 'redact' | 'onFault'> { targetOf: (model: string) => ModelTarget }

/** What a stopped process saw of the run is read again, so that the rest has its beginning; what it told is not told again. */
function observe (run: LiveRun, traced: Traced, { sink, targetOf, redact, onFault }: Telling): void {
  const { log, projection, spec } = run
  let isPast = true
  const spans = new RunSpans({
    place: traced.place, links: traced.links, spec, target: targetOf, record: () => projection.record,
    ...traced.parent ? { parent: traced.parent } : {}
  }, (span) => {
    if (isPast) return
    try { sink.take(traced.place, safeSpan(span, redact)) } catch (error) { onFault('a span could not be made', error) }
  })
  const first = projection.record.firstSeq - log.seedLength
  const header = log.own.slice(0, first).findLast((event) => event.type === 'request/header')
  for (const event of [...header ? [header] : [], ...log.own.slice(first)]) spans.note(event)
  isPast = false
  log.observe((events) => { for (const event of events) spans.note(event) })
}

const MAX_CHARS = 128

/** Names of models and tools come from hosts, servers and CLIs: none is long, and none holds a secret of the configuration. */
function safeSpan (span: FinishedSpan, redact: Redact): FinishedSpan {
  const safe = (text: string): string => redact(text).slice(0, MAX_CHARS).toWellFormed()
  const attributes = Object.entries(span.attributes).map(([name, value]) => [name, typeof value === 'string' ? safe(value) : value])
  return { ...span, name: safe(span.name), attributes: Object.fromEntries(attributes) as Attributes }
}

/** By `OTEL_TRACES_SAMPLER`. `parent`: whether the trace is sampled where it comes from. */
function createSampler (name: string, sink: SpanSink): (traceId: string, parent: boolean | undefined) => boolean {
  const root = (traceId: string): boolean => name.endsWith('traceidratio') ? sink.inRatio(traceId) : name.endsWith('always_on')
  return (traceId, parent) => name.startsWith('parentbased_') && parent !== undefined ? parent : root(traceId)
}

/** How long the last spans may take; in a hurry they are dropped at once. */
const CLOSE_MS = 2000

async function closeWithin (sink: SpanSink, hurry: AbortSignal, onFault: TracingOptions['onFault']): Promise<void> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), CLOSE_MS)
  const cut = AbortSignal.any([hurry, late.signal])
  const over = Promise.withResolvers<undefined>()
  if (cut.aborted) over.resolve(undefined)
  else cut.addEventListener('abort', () => over.resolve(undefined), { once: true })
  const sent = sink.close(cut).catch((error: unknown) => { if (!cut.aborted) onFault('the last spans could not be sent', error) })
  await Promise.race([sent, over.promise])
  clearTimeout(timer)
}
