import { expect, test } from 'vitest'
import { loadConfig, type ConfigError } from '../../src/config.ts'

const read = (env: Record<string, string>, files: Record<string, string> = {}) => loadConfig(env, (path) => {
  const text = files[path]
  if (text === undefined) throw new Error('no such file')
  return text
}).tracing
const faults = (env: Record<string, string>, files?: Record<string, string>): string[] => {
  try {
    read(env, files)
    return []
  } catch (error) {
    return (error as ConfigError).faults.map(({ key, detail }) => `${key}: ${detail}`)
  }
}
const ON = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' }

test('traces are off by default, and where a variable of OpenTelemetry turns them off', () => {
  expect(read({})).toBeUndefined()
  expect(read({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'always_on' })).toBeUndefined()
  expect(read({ ...ON, OTEL_SDK_DISABLED: 'True' })).toBeUndefined()
  expect(read({ ...ON, OTEL_TRACES_EXPORTER: 'none' })).toBeUndefined()
})

test('the endpoint of all signals gets the path of traces, that of traces is taken as it is', () => {
  expect(read(ON)).toEqual({
    url: 'http://c:4318/v1/traces', headers: {}, resource: { 'service.name': 'subagentd' }, sampler: { name: 'parentbased_always_on', ratio: 1 }
  })
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/base/' })?.url).toBe('https://c/base/v1/traces')
  expect(read({ ...ON, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t/x' })?.url).toBe('http://t/x')
})

test('headers are pairs, percent-encoded, from a file where they are a secret; those of traces win', () => {
  expect(read({ ...ON, OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%3Db, x=1' })?.headers).toEqual({ 'api-key': 'a=b', x: '1' })
  expect(read({ ...ON, OTEL_EXPORTER_OTLP_HEADERS_FILE: '/secret', OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x=2' }, { '/secret': 'api-key=k,x=1\n' })?.headers)
    .toEqual({ 'api-key': 'k', x: '2' })
})

test('the resource has the name of the service, which wins over the attributes', () => {
  expect(read({ ...ON, OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,host.name=h' })?.resource).toEqual({ 'service.name': 'a', 'host.name': 'h' })
  expect(read({ ...ON, OTEL_RESOURCE_ATTRIBUTES: 'service.name=a', OTEL_SERVICE_NAME: 'b' })?.resource).toEqual({ 'service.name': 'b' })
})

test('each bad value stops the start by its name, and no secret is told', () => {
  expect(faults({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://user:canary@c', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_HEADERS: 'canary,ok=1,a=canary%zz,b=canary%0Ax', OTEL_SDK_DISABLED: 'yes', OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_TRACES_SAMPLER_ARG: '2', OTEL_TRACES_EXPORTER: 'zipkin'
  })).toEqual([
    'OTEL_SDK_DISABLED: must be one of true, false',
    'OTEL_TRACES_EXPORTER: must be one of otlp, none',
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must not hold a user name or password: use OTEL_EXPORTER_OTLP_HEADERS',
    'OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https URL',
    'OTEL_EXPORTER_OTLP_PROTOCOL: must be one of http/protobuf',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 1 must be name=value, percent-encoded',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 3 must be name=value, percent-encoded',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 4 must be name=value, percent-encoded',
    expect.stringContaining('OTEL_TRACES_SAMPLER: must be one of always_on'),
    'OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1'
  ])
})
