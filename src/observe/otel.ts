import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { ClientRequest } from 'node:http'
import {
  createTraceState, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags, type HrTime, type Link, type SpanContext
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOnSampler, BatchSpanProcessor, SamplingDecision, TraceIdRatioBasedSampler, TracerProvider,
  type IdGenerator, type SpanExporter
} from '@opentelemetry/sdk-trace'
import type { FinishedSpan } from './run-spans.ts'
import type { SpanPlace } from './trace-context.ts'

/** The only file that knows OpenTelemetry; loaded where traces are on, never else. Nothing of it is registered globally. */

export interface SpanSinkOptions {
  url: string
  headers: Readonly<Record<string, string>>
  resource: Readonly<Record<string, string>>
  ratio: number
  version: string
  /** Spans that could not be sent are gone. */
  onFault: (error: Error, spans: number) => void
}

export interface SpanSink {
  /** Takes a span that is over, and sampled. Never throws, never waits. */
  take (trace: SpanPlace, span: FinishedSpan): void
  /** The decision by ratio, the same for a trace wherever it is made. */
  inRatio (traceId: string): boolean
  /** Sends what is left; what is not sent when `cut` aborts is gone, and nothing of it keeps the process. */
  close (cut: AbortSignal): Promise<void>
}

const SCOPE = 'subagentd'
/** Spans that wait to be sent: past so many they are dropped. */
const MAX_WAITING = 8192
/** Of one request to the collector. */
const EXPORT_MS = 10_000

export function createSpanSink ({ url, headers, resource, ratio, version, onFault }: SpanSinkOptions): SpanSink {
  const ids = new GivenIds()
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: EXPORT_MS })
  const requests = followRequests()
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.version': version, ...resource }),
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor({ exporter: telling(exporter, requests.during, onFault), maxQueueSize: MAX_WAITING })]
  })
  const tracer = provider.getTracer(SCOPE, version)
  const sampler = new TraceIdRatioBasedSampler(ratio)
  return {
    take (place, { name, kind, spanId, parent, start, end, attributes, failed, links }) {
      ids.next = { traceId: place.traceId, spanId }
      const context = parent
        ? trace.setSpanContext(ROOT_CONTEXT, contextOf({ ...place, spanId: parent.spanId }, parent.remote))
        : ROOT_CONTEXT
      const span = tracer.startSpan(name, {
        kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL,
        startTime: timeOf(start),
        attributes,
        links: links.map((place): Link => ({ context: contextOf(place, true) })),
        root: parent === undefined
      }, context)
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end(timeOf(Math.max(start, end)))
    },
    inRatio: (traceId) => sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED,
    close: (cut) => requests.close(cut, () => provider.shutdown())
  }
}

const contextOf = ({ traceId, spanId, sampled, state }: SpanPlace, isRemote: boolean): SpanContext => ({
  traceId, spanId, isRemote, traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
  ...state === undefined ? {} : { traceState: createTraceState(state) }
})

/** A bare number would be taken for a time since the process began where it is small. */
const timeOf = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round(ms % 1000 * 1e6)]

/** The ids that a span is to have, set right before it is made. */
class GivenIds implements IdGenerator {
  next = { traceId: '', spanId: '' }
  generateTraceId = (): string => this.next.traceId
  generateSpanId = (): string => this.next.spanId
}

function telling (exporter: SpanExporter, during: (work: () => void) => void, onFault: SpanSinkOptions['onFault']): SpanExporter {
  return {
    export (spans, done) {
      during(() => exporter.export(spans, (result) => {
        if (result.code !== 0) onFault(result.error ?? new Error('the collector took no spans'), spans.length)
        done(result)
      }))
    },
    shutdown: () => exporter.shutdown()
  }
}

/** The exporter gives no hold on its requests: Node tells of each that is made, and its own are those made within `during`. */
interface Requests {
  readonly during: (work: () => void) => void
  /** From here on a request that fails is not made again; at `cut` all of them end, and so does each that comes later. */
  close (cut: AbortSignal, shutdown: () => Promise<void>): Promise<void>
}

const MADE = 'http.client.request.created'

function followRequests (): Requests {
  const own = new AsyncLocalStorage<true>()
  const open = new Set<ClientRequest>()
  let closing = false
  let isCut = false
  // Without a code an error is none that the exporter would try again after.
  const end = (request: ClientRequest): void => { request.destroy(new Error('the service ended before the collector answered')) }
  const onMade = (message: unknown): void => {
    if (!own.getStore()) return
    const { request } = message as { request: ClientRequest }
    open.add(request)
    request.on('error', (error: { code?: unknown }) => { if (closing) delete error.code })
    request.on('close', () => { open.delete(request) })
    if (isCut) end(request)
  }
  subscribe(MADE, onMade)
  const onCut = (): void => {
    isCut = true
    for (const request of open) end(request)
  }
  return {
    during: (work) => { own.run(true, work) },
    async close (cut, shutdown) {
      closing = true
      if (cut.aborted) onCut()
      else cut.addEventListener('abort', onCut, { once: true })
      try {
        await shutdown()
      } finally {
        cut.removeEventListener('abort', onCut)
        // A failed one may wait to be made again: it ends as soon as it is.
        isCut = true
        setTimeout(() => unsubscribe(MADE, onMade), EXPORT_MS).unref()
      }
    }
  }
}
