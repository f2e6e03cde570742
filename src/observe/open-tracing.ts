import type { Logger } from 'pino'
import type { Redact } from '../core/secrets.ts'
import { targetOf } from './gen-ai.ts'
import type { SpanSinkOptions } from './otel.ts'
import type { Requests } from './requests.ts'
import { createTracing, NO_TRACING, type Tracing } from './tracing.ts'

export interface TraceOptions {
  /** Absent: traces are off. */
  settings: (Pick<SpanSinkOptions, 'url' | 'headers' | 'resource'> & { sampler: { name: string, ratio: number } }) | undefined
  endpoints: readonly { name: string, kind: 'openai-chat' | 'anthropic', baseUrl?: string }[]
  requests: Requests
  version: string
  redact: Redact
  log: Logger
}

/** A collector that is away is told of at most so often. */
const TOLD_MS = 60_000

/** Traces by the configuration. Where they are off OpenTelemetry is not even loaded. */
export async function openTracing ({ settings, endpoints, requests, version, redact, log }: TraceOptions): Promise<Tracing> {
  if (!settings) return NO_TRACING
  const { createSpanSink } = await import('./otel.ts')
  const { sampler, ...where } = settings
  const onFault = createSparing((err: unknown, spans: number) => log.warn({ err, spans }, 'traces could not be sent'))
  return createTracing({
    sink: createSpanSink({ ...where, ratio: sampler.ratio, version, onFault }),
    sampler: sampler.name, requests, redact,
    targets: new Map(endpoints.map((endpoint) => [endpoint.name, targetOf(endpoint)])),
    onFault: (message, err) => log.error({ err }, message)
  })
}

type OnLoss = (error: unknown, spans: number) => void
/** Tells the first failure at once, then one a minute, with how many spans were lost until then. */
export function createSparing (tell: OnLoss, now: () => number = () => performance.now()): OnLoss {
  let told = -Infinity
  let lost = 0
  return (error, spans) => {
    lost += spans
    if (now() - told < TOLD_MS) return
    tell(error, lost)
    told = now()
    lost = 0
  }
}
