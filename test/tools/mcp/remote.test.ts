import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test, type TestContext } from 'vitest'
import { createOutbound } from '../../../src/tools/outbound.ts'
import { callContext, expectError, mcpRoom, textOf } from './mcp-room.ts'

interface Rpc { id?: number, method: string, params?: { name?: string, requestId?: number, arguments?: { text?: string } } }
interface Seen { method: string, headers: IncomingMessage['headers'], rpc?: Rpc }

/** A server over streamable HTTP whose tools are its faults. */
async function startRemote (onTestFinished: TestContext['onTestFinished']) {
  const seen: Seen[] = []
  const sessions = new Set<string>()
  const held = new Set<ServerResponse>()
  let hung = Promise.withResolvers<number>()
  const answer = (request: IncomingMessage, response: ServerResponse, rpc: Rpc | undefined): void => {
    seen.push({ method: request.method ?? '', headers: request.headers, ...(rpc ? { rpc } : {}) })
    const session = request.headers['mcp-session-id']
    const json = (result: object): void => { response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id: rpc?.id, result })) }
    if (request.headers.authorization !== 'Bearer right-token') return void response.writeHead(401).end('who are you, Bearer wrong-token?')
    if (rpc?.method === 'initialize') {
      sessions.add(`s${sessions.size + 1}-${seen.length}`)
      response.setHeader('mcp-session-id', [...sessions].at(-1) ?? '')
      return json({ protocolVersion: '2025-06-18', capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'remote', version: '1' } })
    }
    if (typeof session !== 'string' || !sessions.has(session)) return void response.writeHead(404).end('no such session')
    if (request.method === 'GET') return void response.writeHead(405).end()
    if (request.method === 'DELETE') { sessions.delete(session); return void response.writeHead(204).end() }
    if (rpc?.id === undefined) return void response.writeHead(202).end()
    if (rpc.method === 'tools/list') {
      return json({ tools: ['echo', 'cut', 'drop', 'hang', 'redirect', 'unready', 'flood', 'bad'].map((name) => ({ name, inputSchema: { type: 'object' } })) })
    }
    if (rpc.method === 'ping') return json({})
    switch (rpc.params?.name) {
      case 'cut': return void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': nothing\n\n')
      case 'drop': response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': begun\n\n', () => response.destroy()); return
      case 'hang': held.add(response); hung.resolve(rpc.id); return
      case 'redirect': return void response.writeHead(307, { location: 'http://10.0.0.1/mcp' }).end()
      case 'unready': return void response.writeHead(503).end('<html>busy</html>')
      case 'bad': return void response.writeHead(400).end('bad arguments')
      case 'flood': response.writeHead(200, { 'content-type': 'text/event-stream' }); flood(response); return
      default: return json({ content: [{ type: 'text', text: rpc.params?.arguments?.text ?? '' }] })
    }
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => { chunks.push(chunk) }).on('end', () => {
      answer(request, response, chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString()) as Rpc)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise((resolve) => { server.close(() => resolve()); server.closeAllConnections() }))
  const { port } = server.address() as AddressInfo
  return {
    port, seen, sessions, url: `http://127.0.0.1:${port}/mcp`,
    hung: async () => { const id = await hung.promise; hung = Promise.withResolvers(); return id },
    methods: () => seen.flatMap(({ rpc, method }) => rpc?.method ?? method)
  }
}

function flood (response: ServerResponse): void {
  const chunk = Buffer.alloc(1024 * 1024, 'x')
  const more = (): void => { while (!response.destroyed && response.write(chunk)); }
  response.write('data: ')
  response.on('drain', more)
  more()
}

const remote = (url: string, more: object = {}) =>
  ({ kind: 'http' as const, name: 'remote', url, headers: { authorization: 'Bearer right-token' }, secrets: ['right-token', 'wrong-token'], timeoutMs: 2000, ...more })

test('8.4 a remote server at a private address is not reached unless the configuration allows it', async ({ onTestFinished }) => {
  const { url, seen } = await startRemote(onTestFinished)
  const outbound = createOutbound()
  onTestFinished(() => outbound.close())
  const { source } = mcpRoom(onTestFinished, [remote(url)], { outbound })
  const { notices } = await source.list(new AbortController().signal)
  expect(notices).toEqual([expect.stringContaining('MCP server "remote" is not available: requests to "127.0.0.1" are not allowed: it is a loopback address')])
  expect(seen).toEqual([])
})

test('8.4 a redirect of a remote server to a private address is not followed', async ({ onTestFinished }) => {
  const { url } = await startRemote(onTestFinished)
  const { call } = mcpRoom(onTestFinished, [remote(url)])
  expectError(await call('remote__redirect'), /^Error: MCP server "remote" failed the call of "redirect": it answered HTTP 307/)
  expect(textOf(await call('remote__echo', { text: 'goes on' }))).toBe('goes on')
})

test('a session that the server forgot is begun anew, and the call is made once', async ({ onTestFinished }) => {
  const { url, sessions, methods } = await startRemote(onTestFinished)
  const { tool } = mcpRoom(onTestFinished, [remote(url)])
  const echo = await tool('remote__echo')
  sessions.clear()
  expect(textOf(await echo.execute({ text: 'once' }, callContext()))).toBe('once')
  expect(methods().filter((method) => method === 'tools/call')).toHaveLength(2)
  expect(sessions.size).toBe(1)
})

test('a request that a server refuses costs no other call its connection', async ({ onTestFinished }) => {
  const { url, methods, hung } = await startRemote(onTestFinished)
  const { call, source } = mcpRoom(onTestFinished, [remote(url)])
  const hanging = call('remote__hang')
  await hung()
  expectError(await call('remote__bad'), 'Error: MCP server "remote" failed the call of "bad": it answered HTTP 400: bad arguments')
  expect(methods().filter((method) => method === 'initialize')).toHaveLength(1)
  await source.close()
  expectError(await hanging, /was lost during the call/)
})

test.each(['cut', 'drop'])('a response stream that ends without an answer (%s) is an error at once, not at the timeout', async (name) => {
  const finishers: (() => Promise<void>)[] = []
  const finish = ((fn: () => Promise<void>) => { finishers.unshift(fn) }) as never
  const { url } = await startRemote(finish)
  const { call } = mcpRoom(finish, [remote(url, { timeoutMs: 60_000 })])
  expectError(await call(`remote__${name}`), 'Error: MCP server "remote" was lost during the call: the response ended without an answer; outcome unknown: check before retrying')
  expect(textOf(await call('remote__echo', { text: 'next' }))).toBe('next')
  for (const end of finishers) await end()
})

test('a call is cancelled with its run, and the server is told', async ({ onTestFinished }) => {
  const { url, hung, seen } = await startRemote(onTestFinished)
  const { call } = mcpRoom(onTestFinished, [remote(url)])
  const controller = new AbortController()
  const hanging = call('remote__hang', {}, controller.signal)
  const id = await hung()
  controller.abort(new Error('cancelled'))
  await expect(hanging).rejects.toThrow('cancelled')
  expect(textOf(await call('remote__echo', { text: 'other' }))).toBe('other')
  expect(seen.find(({ rpc }) => rpc?.method === 'notifications/cancelled')?.rpc?.params?.requestId).toBe(id)
})

test('what a server answers instead of a result is told, without secrets and without pages', async ({ onTestFinished }) => {
  const { url } = await startRemote(onTestFinished)
  const { call } = mcpRoom(onTestFinished, [remote(url)])
  expectError(await call('remote__unready'), 'Error: MCP server "remote" failed the call of "unready": it answered HTTP 503; outcome unknown: check before retrying')
  const { source } = mcpRoom(onTestFinished, [remote(url, { headers: { authorization: 'Bearer wrong-token' } })])
  const { notices } = await source.list(new AbortController().signal)
  expect(notices[0]).toMatch(/^MCP server "remote" is not available: .*401/)
  expect(notices[0]).not.toContain('wrong-token')
})

test('a message without an end costs the connection, not the memory', async ({ onTestFinished }) => {
  const { url } = await startRemote(onTestFinished)
  const { call } = mcpRoom(onTestFinished, [remote(url, { timeoutMs: 60_000 })])
  expectError(await call('remote__flood'), /^Error: MCP server "remote" was lost during the call/)
  expect(textOf(await call('remote__echo', { text: 'next' }))).toBe('next')
})

test('the list of a remote server is kept for a minute, and closing ends its session', async ({ onTestFinished }) => {
  const { url, methods, sessions } = await startRemote(onTestFinished)
  const { source, list, clock } = mcpRoom(onTestFinished, [remote(url)])
  await list()
  await list()
  expect(methods().filter((method) => method === 'tools/list')).toHaveLength(1)
  clock.now += 61_000
  await list()
  expect(methods().filter((method) => method === 'tools/list')).toHaveLength(2)
  await source.close()
  expect(methods().at(-1)).toBe('DELETE')
  expect(sessions.size).toBe(0)
})
