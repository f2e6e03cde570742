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
  /** Sends what is left. */
  close (): Promise<void>
}

const SCOPE = 'subagentd'
/** Spans that wait to be sent: past so many they are dropped. */
const MAX_WAITING = 8192
/** Of one request to the collector. */
const EXPORT_MS = 10_000

export function createSpanSink ({ url, headers, resource, ratio, version, onFault }: SpanSinkOptions): SpanSink {
  const ids = new GivenIds()
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: EXPORT_MS })
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.version': version, ...resource }),
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor({ exporter: telling(exporter, onFault), maxQueueSize: MAX_WAITING })]
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
    close: () => provider.shutdown()
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

function telling (exporter: SpanExporter, onFault: SpanSinkOptions['onFault']): SpanExporter {
  return {
    export (spans, done) {
      exporter.export(spans, (result) => {
        if (result.code !== 0) onFault(result.error ?? new Error('the collector took no spans'), spans.length)
        done(result)
      })
    },
    shutdown: () => exporter.shutdown()
  }
}
