import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createApp, open } from './app.ts'

interface Operation { requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> },
  parameters?: { name: string, in: string }[] }

const json = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(null, '', -1, 2 ** 53, 1e300, 'a'.repeat(1000), '\u0000',
  { a: {} }, [[]]))

/** The value with something else at one place of it, or one member more. */
function spoil (value: unknown, path: readonly number[], junk: unknown, name: string): unknown {
  const [step = 0, ...rest] = path
  if (typeof value !== 'object' || value === null || path.length === 0) return junk
  const keys = Object.keys(value)
  if (Array.isArray(value)) return keys.length === 0 ? [junk] : value.map((item, i) => i === step % keys.length ? spoil(item,
    rest, junk, name) : item as unknown)
  const key = [...keys, name][step % (keys.length + 1)] as string
  return { ...value, [key]: spoil((value as Record<string, unknown>)[key], rest, junk, name) }
}

test('whatever is sent to any operation of the document, the answer is no 5xx, and a refusal is a problem',
  async ({ onTestFinished }) => {
  const { send, errors } = createApp(onTestFinished)
  const { paths } = JSON.parse(await readFile(new URL('../../openapi/openapi.json', import.meta.url),
    'utf8')) as { paths: Record<string, Record<string, Operation>> }
  const operations = Object.entries(paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({ path,
    method, operation })))
  const request = fc.record({
    at: fc.nat(operations.length - 1), example: fc.nat(9), place: fc.array(fc.nat(20), { maxLength: 5 }), junk: json,
      name: fc.string(),
    id: fc.string({ minLength: 1 }), parameter: fc.nat(20), value: fc.string()
  })
  await fc.assert(fc.asyncProperty(request, async ({ at, example, place, junk, name, id, parameter, value }) => {
    const { path, method, operation } = operations[at] as (typeof operations)[number]
    const examples = Object.values(operation.requestBody?.content['application/json']?.examples ?? {})
    const body = examples.length === 0 ? undefined : spoil(examples[example % examples.length]?.value, place, junk, name)
    const names = [...(operation.parameters ?? []).filter((p) => p.in === 'query').map((p) => p.name), name]
    const field = encodeURIComponent((names[parameter % names.length] as string).toWellFormed())
    const query = parameter > 10 ? '' : `?${field}=${encodeURIComponent(value.toWellFormed())}`
    const answer = await send(method.toUpperCase(), path.replace('{id}', encodeURIComponent(id.toWellFormed())) + query, body)
    if (path === '/metrics' && answer.statusCode === 404) return
    expect(answer.statusCode).toBeLessThan(500)
    if (answer.statusCode >= 300) expect(answer.headers['content-type']).toBe('application/problem+json')
  }), { numRuns: 600 })
  expect(errors).toEqual([])
})

test('a client that sends more than the limit over a real connection reads its 413', async ({ onTestFinished }) => {
  const { app } = createApp(onTestFinished)
  const { response } = await open(app, {
    method: 'POST', path: '/v1/runs', headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
      body: `{"task":"${'a'.repeat(500_000)}"}`
  })
  const answer = await response
  expect([answer.statusCode, answer.headers['connection']]).toEqual([413, 'close'])
  answer.resume()
})
