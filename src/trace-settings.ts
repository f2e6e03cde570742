import { given, type Settings } from './settings.ts'

/** What the settings of traces are read from: their faults, and the variables. */
export interface TraceSource extends Settings {
  get (name: string): string | undefined
  /** A variable, or the content of the file that `<name>_FILE` names. */
  secret (name: string): string | undefined
}

const SAMPLERS = [
  'always_on', 'always_off', 'traceidratio', 'parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'
] as const
export type SamplerName = (typeof SAMPLERS)[number]

export interface TraceSettings {
  /** Where spans are posted to. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Of the resource, `service.name` included. */
  readonly resource: Readonly<Record<string, string>>
  readonly sampler: { readonly name: SamplerName, readonly ratio: number }
}

/** The standard `OTEL_*` variables. `undefined` where traces are off: no endpoint is set, or something turns them off. */
export function readTraceSettings (source: TraceSource): TraceSettings | undefined {
  const disabled = source.oneOf('OTEL_SDK_DISABLED', source.get('OTEL_SDK_DISABLED')?.toLowerCase(), ['true', 'false']) === 'true'
  const exporter = source.oneOf('OTEL_TRACES_EXPORTER', source.get('OTEL_TRACES_EXPORTER'), ['otlp', 'none'])
  const url = readEndpoint(source)
  for (const name of ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL']) {
    source.oneOf(name, source.get(name), ['http/protobuf'])
  }
  const headers = {
    ...readPairs(source, 'OTEL_EXPORTER_OTLP_HEADERS', source.secret('OTEL_EXPORTER_OTLP_HEADERS'), HEADER),
    ...readPairs(source, 'OTEL_EXPORTER_OTLP_TRACES_HEADERS', source.secret('OTEL_EXPORTER_OTLP_TRACES_HEADERS'), HEADER)
  }
  const resource = {
    'service.name': 'subagentd',
    ...readPairs(source, 'OTEL_RESOURCE_ATTRIBUTES', source.get('OTEL_RESOURCE_ATTRIBUTES'), /^[^\s,=]+$/),
    ...given({ 'service.name': source.get('OTEL_SERVICE_NAME') })
  }
  const name = source.oneOf('OTEL_TRACES_SAMPLER', source.get('OTEL_TRACES_SAMPLER'), SAMPLERS) ?? 'parentbased_always_on'
  const ratio = readRatio(source)
  return url === undefined || disabled || exporter === 'none' ? undefined : { url, headers, resource, sampler: { name, ratio } }
}

/** The endpoint of traces as it is; that of all signals with the path of traces. */
function readEndpoint (source: TraceSource): string | undefined {
  const own = readUrl(source, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT')
  const shared = readUrl(source, 'OTEL_EXPORTER_OTLP_ENDPOINT')
  return own ?? (shared === undefined ? undefined : `${shared.replace(/\/+$/, '')}/v1/traces`)
}

function readUrl (source: TraceSource, name: string): string | undefined {
  const value = source.get(name)
  if (value === undefined) return undefined
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol)) return source.fault(name, 'must be an http or https URL')
  if (url.username === '' && url.password === '') return value
  return source.fault(name, 'must not hold a user name or password: use OTEL_EXPORTER_OTLP_HEADERS')
}

const HEADER = /^[!#$%&'*+.^_`|~\w-]+$/

/** `name=value,name=value`, the values percent-encoded. No value is told in a fault: it may be a secret. */
function readPairs (source: TraceSource, name: string, value: string | undefined, key: RegExp): Record<string, string> {
  const pairs: Record<string, string> = {}
  for (const [index, entry] of (value?.split(',') ?? []).entries()) {
    if (entry.trim() === '') continue
    const cut = entry.indexOf('=')
    const left = entry.slice(0, cut).trim()
    const right = decoded(entry.slice(cut + 1).trim())
    if (cut > 0 && key.test(left) && right !== undefined) pairs[left] = right
    else source.fault(name, `entry ${index + 1} must be name=value, percent-encoded`)
  }
  return pairs
}

function decoded (text: string): string | undefined {
  try {
    const value = decodeURIComponent(text)
    return /[\r\n\0]/.test(value) ? undefined : value
  } catch {
    return undefined
  }
}

function readRatio (source: TraceSource): number {
  const value = source.get('OTEL_TRACES_SAMPLER_ARG')
  const ratio = value === undefined ? 1 : Number(value)
  if (ratio >= 0 && ratio <= 1) return ratio
  source.fault('OTEL_TRACES_SAMPLER_ARG', 'must be a number from 0 to 1')
  return 1
}
