import { readFile } from 'node:fs/promises'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect, test } from 'vitest'
import { generate } from '../../openapi/generate.ts'
import { REFUSAL_CODES } from '../../src/core/errors.ts'
import { createApp } from '../routes/app.ts'
import { RUN_ID, settled } from '../routes/fake-runs.ts'

interface Operation {
  operationId: string
  summary?: string
  tags?: string[]
  parameters?: { name: string, in: string, example?: unknown }[]
  requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> }
  responses: Record<string, { description: string, content?: Record<string, { schema: { $ref?: string } }> }>
}
interface Document {
  openapi: string, paths: Record<string, Record<string, Operation>>, components: { schemas: Record<string, object> }
}

const read = async (): Promise<Document> => JSON.parse(
  await readFile(new URL('../../openapi/openapi.json', import.meta.url), 'utf8')
) as Document
const operationsOf = (document: Document) => Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })))

/** Checks values against the document's own components. */
async function checker (): Promise<(ref: string, value: unknown) => string | undefined> {
  const document = await read()
  const ajv = new Ajv2020({ strict: false, discriminator: true, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'doc', components: document.components })
  return (ref, value) => {
    const check = ajv.compile({ $ref: `doc${ref}` })
    return check(value) ? undefined : ajv.errorsText(check.errors)
  }
}

test('the document is valid OpenAPI 3.1', async () => {
  const document = await read()
  expect(document.openapi).toBe('3.1.0')
  expect(await new Validator().validate(document as never)).toMatchObject({ valid: true })
})

test('the committed document is the one that the routes make: else run "npm run openapi"', async () => {
  expect(await readFile(new URL('../../openapi/openapi.json', import.meta.url), 'utf8') === await generate()).toBe(true)
})

test('every route is documented, and nothing else', async ({ onTestFinished }) => {
  const { app } = createApp(onTestFinished)
  await app.ready()
  const documented = operationsOf(await read()).map(({ method, path }) => `${method} ${path}`)
  for (const { method, path } of operationsOf(await read())) {
    expect(app.hasRoute({ method: method as 'GET', url: path.replaceAll(/\{(\w+)\}/g, ':$1') })).toBe(true)
  }
  const expected = [
    'POST /v1/runs', 'GET /v1/runs', 'GET /v1/runs/{id}', 'GET /v1/runs/{id}/result', 'POST /v1/runs/{id}/cancel',
    'POST /v1/runs/cancel',
    'DELETE /v1/runs/{id}', 'GET /v1/runs/{id}/events', 'GET /v1/runs/{id}/tree', 'POST /v1/runs/{id}/frames', 'GET /v1/runs/{id}/frames', 'POST /v1/runs/{id}/tool-results',
    'POST /v1/runs/{id}/messages',
    'POST /v1/sessions',
    'GET /v1/sessions/{id}', 'DELETE /v1/sessions/{id}', 'POST /v1/sessions/{id}/messages', 'GET /v1/providers',
    'GET /v1/tools', 'GET /v1/models',
    'GET /v1/agents', 'GET /v1', 'GET /healthz', 'GET /readyz', 'GET /metrics'
  ]
  expect(documented.toSorted()).toEqual(expected.toSorted())
})

test('every operation says what it is, what it takes and what it refuses', async () => {
  const document = await read()
  const ids = operationsOf(document).map(({ operation }) => operation.operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const { path, operation } of operationsOf(document)) {
    expect(operation).toMatchObject({ summary: expect.any(String), tags: [expect.any(String)] })
    for (const parameter of operation.parameters ?? []) if (parameter.in === 'path') expect([path, parameter.example]).toEqual(
      [path, expect.any(String)]
    )
    const examples = Object.values(operation.requestBody?.content['application/json']?.examples ?? {})
    if (operation.requestBody && operation.operationId !== 'ingestFrames') expect(examples.length).toBeGreaterThan(0)
    for (const [status, response] of Object.entries(operation.responses)) {
      if (Number(status) >= 400) expect(Object.keys(response.content ?? {})).toEqual(['application/problem+json'])
    }
  }
})

test('every code of a refusal is in the document', async () => {
  const { components } = await read()
  expect(components.schemas['Problem']).toMatchObject({ properties: { code: { enum: REFUSAL_CODES } } })
})

test('every example is taken as it stands', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  runs.override.appendSession = async (caller, id) => ({ session: await runs.getSession(caller, id), replayed: false })
  for (const { path, method, operation } of operationsOf(await read())) {
    const parameters = operation.parameters ?? []
    const query = parameters.filter(
      (p) => p.in === 'query' && p.example !== undefined
    ).map((p) => `${p.name}=${String(p.example)}`).join('&')
    const url = `${path.replace('{id}', String(parameters.find((p) => p.in === 'path')?.example))}${query && `?${query}`}`
    const headers = Object.fromEntries(
      parameters.filter((p) => p.in === 'header' && p.example !== undefined).map((p) => [p.name, String(p.example)])
    )
    const bodies = Object.values(operation.requestBody?.content['application/json']?.examples ?? { none: { value: undefined } })
    if (operation.operationId === 'getMetrics') continue
    for (const { value } of bodies) {
      const { statusCode } = await send(method, url, value, headers)
      expect([operation.operationId, statusCode, Object.keys(operation.responses).includes(String(statusCode))]).toEqual(
        [operation.operationId, expect.any(Number), true]
      )
      expect(statusCode).toBeLessThan(300)
    }
  }
})

test('answers are what the document says', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  const check = await checker()
  runs.override.eventPage = async () => (
    { events: [{ runId: RUN_ID, seq: 0, time: 1, type: 'turn/start', data: { turn: 1 } }], after: 'c', settled: false }
  )
  for (
    const run of [
      runs.run, settled({ structured: { a: 1 } }),
      settled({ stopReason: 'error', error: { code: 'MODEL_ERROR', message: 'm', retryable: true } })
    ]
  ) {
    runs.run = run
    for (const { path, method, operation } of operationsOf(await read())) {
      if (operation.operationId === 'getMetrics') continue
      const body = Object.values(operation.requestBody?.content['application/json']?.examples ?? {})[0]?.value
      const answer = await send(method, path.replace('{id}', RUN_ID), body)
      const { $ref } = operation.responses[answer.statusCode]?.content?.[
        String(answer.headers['content-type']).split(';')[0] as string
      ]?.schema ?? {}
      if (answer.statusCode !== 204) expect([operation.operationId, $ref && check($ref.slice(0), answer.json())]).toEqual(
        [operation.operationId, undefined]
      )
    }
  }
  expect(check('#/components/schemas/Problem', (await send('POST', '/v1/runs', {})).json())).toBeUndefined()
})
