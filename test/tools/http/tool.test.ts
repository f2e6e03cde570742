import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, test, type TestContext } from 'vitest'
import type { Json } from '../../../src/core/json.ts'
import type { ToolContext, ToolOutcome } from '../../../src/core/tool.ts'
import { createHttpTool, type HttpToolConfig } from '../../../src/tools/http/tool.ts'
import { createOutbound } from '../../../src/tools/outbound.ts'
import { createSchemaCompiler } from '../../../src/tools/schema.ts'

type Finish = TestContext['onTestFinished']
interface Seen { method: string, url: string, headers: IncomingMessage['headers'], body: string }
type Answer = (response: ServerResponse, seen: Seen) => void
const compile = createSchemaCompiler()
const SECRET = 'a-very-secret-key-123'

async function startServer (onTestFinished: Finish, answer: Answer = (response) => { response.end('ok') }) {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => { chunks.push(chunk) }).on('end', () => {
      const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() }
      seen.push(one)
      answer(response, one)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise((resolve) => { server.close(() => resolve()); server.closeAllConnections() }))
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

function toolOf (onTestFinished: Finish, config: Partial<HttpToolConfig> & { url: string }, allow = ['127.0.0.1']) {
  const outbound = createOutbound({ allow })
  onTestFinished(() => outbound.close())
  const names = [...JSON.stringify([config.url, config.body ?? null]).matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
  const inputSchema = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, {}])), required: names }
  return createHttpTool({ name: 'weather', description: 'the weather', method: 'GET', inputSchema, ...config }, { outbound, compile })
}

const context = (signal = new AbortController().signal): ToolContext => ({ toolCallId: 'c1', execution: {}, runId: 'r1', tenant: 't1', signal })
const call = (tool: ReturnType<typeof createHttpTool>, input: Json = {}, signal?: AbortSignal): Promise<ToolOutcome> => tool.execute(input, context(signal))
const textOf = ({ content }: ToolOutcome): string => content.map((block) => block.type === 'text' ? block.text : '').join('')

test('properties stand in the path and the query, encoded, so that none leaves its place', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const tool = toolOf(onTestFinished, { url: `${origin}/users/{id}/x-{kind}?q={q}&fixed=1&list={list}&both={a}-{b}` })
  await call(tool, { id: 'a/b?c#d', kind: 7, q: 'x&y=z', list: ['1', 'two & a half'], a: 'A', b: true })
  expect(seen[0]?.url).toBe('/users/a%2Fb%3Fc%23d/x-7?q=x%26y%3Dz&fixed=1&list=1&list=two%20%26%20a%20half&both=A-true')
})

test('a query parameter without a value is left out', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const tool = toolOf(onTestFinished, { url: `${origin}/s?q={q}&limit={limit}&page={page}` })
  await call(tool, { q: '', page: null })
  expect(seen[0]?.url).toBe('/s?q=')
})

test('a path property cannot leave its segment', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const tool = toolOf(onTestFinished, { url: `${origin}/users/{id}/secrets` })
  for (const id of ['..', '.', '']) {
    expect(textOf(await call(tool, { id }))).toBe('Error: invalid arguments: "id" must not be empty, "." or ".."')
  }
  expect(textOf(await call(tool, { id: ['..'] }))).toBe('Error: invalid arguments: "id" must be a text, a number or a boolean')
  expect(seen).toEqual([])
  for (const id of ['%2e%2e', '..\\', '\ud800', '../..', '..;']) await call(tool, { id })
  expect(seen.map(({ url }) => url)).toEqual(
    ['%252e%252e', '..%5C', '%EF%BF%BD', '..%2F..', '..%3B'].map((segment) => `/users/${segment}/secrets`))
})

test('two properties in one segment cannot make a step up together', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const tool = toolOf(onTestFinished, { url: `${origin}/a/{x}{y}/b` })
  expect(textOf(await call(tool, { x: '.', y: '.' }))).toContain('must not be empty')
  expect(seen).toEqual([])
})

test('a method with a body sends the whole input as JSON', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const tool = toolOf(onTestFinished, { url: `${origin}/items/{id}`, method: 'POST' })
  await call(tool, { id: 'x', deep: { list: [1, null] } })
  expect(seen[0]).toMatchObject({ method: 'POST', url: '/items/x', body: '{"id":"x","deep":{"list":[1,null]}}', headers: { 'content-type': 'application/json' } })
})

test('a body template takes properties as they are, within texts, and leaves absent ones out', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished)
  const body = { query: '{q}', note: 'for {q}: {n}', list: ['{items}', '{none}', null], fixed: { a: 1, b: '{none}' }, raw: '{not a name}' }
  const tool = toolOf(onTestFinished, { url: `${origin}/`, method: 'PUT', body, inputSchema: { type: 'object', properties: { q: {}, n: {}, items: {}, none: {} } } })
  await call(tool, { q: 'say "hi"', n: 3, items: [1, 2] })
  expect(JSON.parse(seen[0]?.body ?? '')).toEqual({ query: 'say "hi"', note: 'for say "hi": 3', list: [[1, 2], null], fixed: { a: 1 }, raw: '{not a name}' })
})

test('a success is its text; headers of the configuration are sent, and a secret that comes back is taken out', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished, (response, { headers }) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ sent: headers.authorization, url: encodeURIComponent(SECRET) }))
  })
  const tool = toolOf(onTestFinished, { url: `${origin}/`, headers: { Authorization: `Bearer ${SECRET}` }, secrets: [SECRET] })
  const outcome = await call(tool)
  expect(seen[0]?.headers.authorization).toBe(`Bearer ${SECRET}`)
  expect(outcome).toEqual({ isError: false, content: [{ type: 'text', text: '{"sent":"Bearer [redacted]","url":"[redacted]"}' }] })
})

test('what is no success is an error with the status and a short body, without secrets', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => { response.writeHead(404, 'Not Here').end(`no ${SECRET} ${'x'.repeat(100_000)} the end`) })
  const outcome = await call(toolOf(onTestFinished, { url: `${origin}/`, secrets: [SECRET] }))
  expect(outcome.isError).toBe(true)
  expect(textOf(outcome)).toMatch(/^Error: HTTP 404 Not Here: no \[redacted\] x+/)
  expect(textOf(outcome)).toContain('bytes are missing here')
  expect(textOf(outcome).length).toBeLessThan(2100)
})

test('an empty success says so', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => { response.writeHead(204).end() })
  expect(await call(toolOf(onTestFinished, { url: `${origin}/` }))).toEqual({ isError: false, content: [{ type: 'text', text: '(no content: HTTP 204 No Content)' }] })
})

test('content that is no text is told by its type and size', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => { response.setHeader('content-type', 'image/png').end(Buffer.alloc(5000)) })
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/` })))).toBe('[image/png, 5000 bytes: not a text]')
})

test('a text in another encoding, or compressed, is read', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response, { url }) => {
    if (url === '/latin') response.setHeader('content-type', 'text/plain; charset=iso-8859-1').end(Buffer.from('déjà', 'latin1'))
    else response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }).end(gzipSync('packed '.repeat(1000)))
  })
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/latin` })))).toBe('déjà')
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/gzip`, maxBytes: 70 }))))
    .toBe(`${'packed '.repeat(10)}\n[... 6930 of 7000 bytes are missing here ...]`)
})

test('a large response is cut between characters, and the mark says how much is missing', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => { response.setHeader('content-type', 'text/plain').end('漢'.repeat(1000)) })
  const cut = textOf(await call(toolOf(onTestFinished, { url: `${origin}/`, maxBytes: 100 })))
  expect(cut).toBe(`${'漢'.repeat(33)}\n[... 2901 of 3000 bytes are missing here ...]`)
})

test('a response without an end is read no further than it is counted, and a secret across the cut is not shown in part', async ({ onTestFinished }) => {
  const closed = Promise.withResolvers<void>()
  const { origin } = await startServer(onTestFinished, (response) => {
    response.setHeader('content-type', 'text/plain').write(`${'x'.repeat(90)}${SECRET}`)
    const chunk = Buffer.alloc(256 * 1024, 'y')
    const more = (): void => { while (!response.destroyed && response.write(chunk)); }
    response.on('drain', more).on('close', () => closed.resolve())
    more()
  })
  const cut = textOf(await call(toolOf(onTestFinished, { url: `${origin}/`, maxBytes: 100, secrets: [SECRET] })))
  expect(cut).toMatch(/^x{90}\[redacted\]\n\[\.\.\. more than 8\d{6} bytes are missing here \.\.\.\]$/)
  await closed.promise
})

test('a declared length says how much is missing without reading it', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '5000000000' }).write('z'.repeat(50_000))
  })
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/`, maxBytes: 10 }))))
    .toBe('zzzzzzzzzz\n[... 4999999990 of 5000000000 bytes are missing here ...]')
})

test('8.4 redirects are followed by hand: a POST becomes a GET on 302, stays one on 307', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished, (response, { url }) => {
    if (url === '/302') response.writeHead(302, { location: '/end' }).end()
    else if (url === '/307') response.writeHead(307, { location: 'end?x' }).end()
    else response.end('there')
  })
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/302`, method: 'POST' }), { a: 1 }))).toBe('there')
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/307`, method: 'POST' }), { a: 2 }))).toBe('there')
  expect(seen.map(({ method, url, body }) => ({ method, url, body }))).toEqual([
    { method: 'POST', url: '/302', body: '{"a":1}' }, { method: 'GET', url: '/end', body: '' },
    { method: 'POST', url: '/307', body: '{"a":2}' }, { method: 'POST', url: '/end?x', body: '{"a":2}' }
  ])
  expect(seen[1]?.headers['content-type']).toBeUndefined()
})

test('8.4 each redirect is judged like the first request', async ({ onTestFinished }) => {
  const other = await startServer(onTestFinished)
  const { origin } = await startServer(onTestFinished, (response) => { response.writeHead(302, { location: `${other.origin}/inner` }).end() })
  const outcome = await call(toolOf(onTestFinished, { url: `${origin}/` }, [new URL(origin).host]))
  expect(outcome.isError).toBe(true)
  expect(textOf(outcome)).toContain('Error: the request failed: a redirect was not followed: requests to "127.0.0.1" are not allowed')
  expect(other.seen).toEqual([])
})

test('8.4 headers of the configuration do not go to another origin', async ({ onTestFinished }) => {
  const other = await startServer(onTestFinished)
  const { origin } = await startServer(onTestFinished, (response) => { response.writeHead(307, { location: `${other.origin}/` }).end() })
  const tool = toolOf(onTestFinished, { url: `${origin}/`, method: 'POST', headers: { authorization: `Bearer ${SECRET}`, 'x-api-key': SECRET } })
  expect(textOf(await call(tool, { a: 1 }))).toBe('ok')
  expect(other.seen[0]?.body).toBe('{"a":1}')
  expect(JSON.stringify(other.seen[0]?.headers)).not.toContain(SECRET)
})

test('8.4 the sixth redirect is not followed', async ({ onTestFinished }) => {
  const { origin, seen } = await startServer(onTestFinished, (response, { url }) => { response.writeHead(302, { location: `${url}x` }).end() })
  expect(textOf(await call(toolOf(onTestFinished, { url: `${origin}/` })))).toBe('Error: the request failed: it was redirected more than 5 times')
  expect(seen).toHaveLength(6)
})

test('the time limit covers the body; the text of a tool that is not idempotent warns', async ({ onTestFinished }) => {
  const { origin } = await startServer(onTestFinished, (response) => { response.write('begun') })
  const get = await call(toolOf(onTestFinished, { url: `${origin}/`, timeoutMs: 50 }))
  expect(textOf(get)).toBe('Error: the request took longer than 50 ms')
  const post = await call(toolOf(onTestFinished, { url: `${origin}/`, method: 'POST', timeoutMs: 50 }))
  expect(textOf(post)).toBe('Error: the request took longer than 50 ms; it may have been carried out all the same: check before retrying')
})

test('the signal of the run ends the request', async ({ onTestFinished }) => {
  const asked = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const { origin } = await startServer(onTestFinished, (response) => { response.on('close', () => left.resolve()); asked.resolve() })
  const controller = new AbortController()
  const outcome = call(toolOf(onTestFinished, { url: `${origin}/` }), {}, controller.signal)
  await asked.promise
  controller.abort(new Error('cancelled by its parent'))
  await expect(outcome).rejects.toThrow('cancelled by its parent')
  await left.promise
})

test('a connection that is refused never reached the server, and the text says nothing else', async ({ onTestFinished }) => {
  const { port } = await new Promise<AddressInfo>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => { const at = server.address() as AddressInfo; server.close(() => resolve(at)) })
  })
  expect(textOf(await call(toolOf(onTestFinished, { url: `http://127.0.0.1:${port}/`, method: 'POST' }))))
    .toBe('Error: the request failed: the connection was refused (ECONNREFUSED)')
})

test('reading methods are idempotent unless the configuration says otherwise', ({ onTestFinished }) => {
  const url = 'http://127.0.0.1:9/'
  expect(toolOf(onTestFinished, { url }).idempotent).toBe(true)
  expect(toolOf(onTestFinished, { url, method: 'DELETE' }).idempotent).toBe(false)
  expect(toolOf(onTestFinished, { url, method: 'PUT', idempotent: true }).idempotent).toBe(true)
})

test('a description that cannot work is refused with everything that is wrong in it', ({ onTestFinished }) => {
  const bad = (config: Partial<HttpToolConfig> & { url: string }) => () => toolOf(onTestFinished, config, [])
  expect(bad({ url: 'https://example.com/{id}?q={other}', name: 'a b', inputSchema: { type: 'object', properties: { id: {}, left: {} } }, headers: { Host: 'x' } })).toThrow(
    'HTTP tool "a b": the name must be 1 to 64 letters, digits, "_" or "-"; a header "Host" is set by the connection itself; ' +
    '"{other}" is no property of the inputSchema; "{id}" is in the path, so the inputSchema must require it; the property "left" is never sent')
  expect(bad({ url: 'https://{host}/' })).toThrow('the url must have its placeholders in the path or the query')
  expect(bad({ url: 'ftp://x/' })).toThrow('the url must be an absolute http or https URL without a fragment')
  expect(bad({ url: 'https://x/#y' })).toThrow('without a fragment')
  expect(bad({ url: 'https://u:p@x/' })).toThrow('the url must not hold a user name or a password')
  expect(bad({ url: 'https://x/{a b}' })).toThrow('the url has a brace that belongs to no {name}')
  expect(bad({ url: 'https://x/?{a}=1' })).toThrow('must not have a placeholder in the name of a query parameter')
  expect(bad({ url: 'https://x/', body: {} })).toThrow('a GET request has no body')
  expect(bad({ url: 'https://x/', inputSchema: { type: 'objekt' } })).toThrow('the inputSchema cannot be used')
  expect(bad({ url: 'http://127.0.0.1:1/{id}' })).toThrow('requests to "127.0.0.1" are not allowed')
  expect(bad({ url: 'https://x/', headers: { 'x-key': `${SECRET}\nb` } })).toThrow('"x-key" has a name or a value that HTTP does not allow')
  expect(bad({ url: 'https://x/', headers: { 'x-key': `${SECRET}\u0000b` } })).not.toThrow(SECRET)
})
