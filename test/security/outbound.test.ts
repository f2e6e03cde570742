import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpTool } from '../../src/tools/http/tool.ts'
import { createOutbound, failureReason, type Address } from '../../src/tools/outbound.ts'
import { createSchemaCompiler } from '../../src/tools/schema.ts'

const compile = createSchemaCompiler()

/** Two servers on every address of this machine: `open` may be reached, and redirects to where it is told; `inner` never may. */
async function scene (resolve?: (name: string) => Promise<Address[]>) {
  const hits: string[] = []
  let target = ''
  const listen = async (answer: (path: string) => { status: number, location?: string }): Promise<number> => {
    const server = createServer((request, response) => {
      const { status, location } = answer(request.url ?? '')
      response.writeHead(status, { connection: 'close', ...location === undefined ? {} : { location } }).end('here')
    })
    await new Promise<void>((done) => server.listen(0, '::', done))
    onTestFinished(() => new Promise((done) => { server.close(() => done()); server.closeAllConnections() }))
    return (server.address() as AddressInfo).port
  }
  const inner = await listen((path) => {
    hits.push(path)
    return { status: 200 }
  })
  const open = await listen((path) => path === '/go' ? { status: 307, location: target } : { status: 200 })
  const outbound = createOutbound({ allow: [`127.0.0.1:${open}`], ...resolve ? { resolve } : {} })
  onTestFinished(() => outbound.close())
  const tool = createHttpTool({ name: 'go', description: 'goes', inputSchema: { type: 'object', properties: {} }, method: 'GET', url: `http://127.0.0.1:${open}/go` }, { outbound, compile })
  return {
    open, inner, outbound, hits,
    async go (to: string): Promise<string> {
      target = to
      const { content, isError } = await tool.execute({}, { signal: new AbortController().signal } as Parameters<typeof tool.execute>[1])
      return `${isError ? '' : 'OK: '}${content.map((block) => block.type === 'text' ? block.text : block.type).join('')}`
    }
  }
}

test.for<[what: string, location: (inner: number, open: number) => string]>([
  ['an address of this machine', (p) => `http://127.0.0.1:${p}/`], ['another one', (p) => `http://127.1.2.3:${p}/`], ['in decimal', (p) => `http://2130706433:${p}/`],
  ['in octal', (p) => `http://0177.0.0.1:${p}/`], ['in long octal', (p) => `http://017700000001:${p}/`], ['in hex', (p) => `http://0x7f000001:${p}/`], ['in mixed parts', (p) => `http://0x7f.1:${p}/`],
  ['with two parts', (p) => `http://127.1:${p}/`], ['in full-width digits', (p) => `http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1:${p}/`], ['percent-encoded', (p) => `http://%31%32%37.0.0.1:${p}/`],
  ['with a final dot', (p) => `http://127.0.0.1.:${p}/`], ['any address', (p) => `http://0.0.0.0:${p}/`], ['zero', (p) => `http://0:${p}/`], ['IPv6', (p) => `http://[::1]:${p}/`],
  ['any IPv6 address', (p) => `http://[::]:${p}/`], ['IPv6 that maps', (p) => `http://[::ffff:127.0.0.1]:${p}/`], ['IPv6 that maps, in hex', (p) => `http://[::ffff:7f00:1]:${p}/`],
  ['IPv6 that is compatible', (p) => `http://[::127.0.0.1]:${p}/`], ['IPv6 behind a gateway', (p) => `http://[64:ff9b::7f00:1]:${p}/`], ['6to4', (p) => `http://[2002:7f00:1::]:${p}/`],
  ['localhost', (p) => `http://localhost:${p}/`], ['localhost as a root name', (p) => `http://localhost.:${p}/`], ['LOCALHOST', (p) => `http://LOCALHOST:${p}/`],
  ['a cloud\'s metadata', () => 'http://169.254.169.254/latest/meta-data/'], ['its address in decimal', () => 'http://2852039166/'], ['its IPv6', () => 'http://[fd00:ec2::254]/'],
  ['a private network', () => 'http://10.0.0.1/'], ['a user name that looks like the allowed host', (p, o) => `http://127.0.0.1:${o}@127.0.0.1:${p}/`],
  ['a password', (p) => `http://a:b@127.0.0.1:${p}/`], ['a user name alone', (_, o) => `http://user@127.0.0.1:${o}/`], ['backslashes', (p) => `http:\\\\127.0.0.1:${p}\\`],
  ['no scheme', (p) => `//127.0.0.1:${p}/`], ['a tab', (p) => `http://127.0.\t0.1:${p}/`], ['a file', () => 'file:///etc/passwd'], ['data', () => 'data:text/plain,x'],
  ['gopher', (p) => `gopher://127.0.0.1:${p}/`], ['FTP', (p) => `ftp://127.0.0.1:${p}/`], ['a script', () => 'javascript:alert(1)']
])('8.4 a redirect to %s is not followed', async ([, location]) => {
  const { go, inner, open, hits } = await scene()
  expect(await go(location(inner, open))).toMatch(/^Error: the request failed: (a redirect was not followed: |requests to "[^"]*" are not allowed: |it was redirected to something that is no URL|its address does not resolve)/)
  expect(hits).toEqual([])
})

test('8.4 a redirect to where requests may go is followed', async () => {
  const { go, open } = await scene()
  expect(await go(`http://127.0.0.1:${open}/there`)).toBe('OK: here')
  expect(await go('/there')).toBe('OK: here')
})

test('8.4 a name that leads to a good address first and to this machine then is refused at its second connection', async () => {
  const answers: string[] = []
  const { outbound, open, hits } = await scene(async () => {
    const address = answers.length === 0 ? '127.0.0.1' : '::1'
    answers.push(address)
    return [{ address, family: address === '::1' ? 6 : 4 }]
  })
  expect(await (await outbound.fetch(`http://rebound.test:${open}/`)).text()).toBe('here')
  expect(answers).toEqual(['127.0.0.1'])
  const reason = await outbound.fetch(`http://rebound.test:${open}/`).then(() => 'taken', failureReason)
  expect(reason).toContain('requests to "rebound.test" are not allowed: its name leads to a loopback address')
  expect([answers, hits]).toEqual([['127.0.0.1', '::1'], []])
})

test('8.4 between the check and the connection no name is resolved again, whatever it would say then', async () => {
  let asked = 0
  const { outbound, open, hits, inner } = await scene(async () => [{ address: asked++ === 0 ? '127.0.0.1' : '::1', family: 4 }])
  expect((await outbound.fetch(`http://once.test:${open}/`)).status).toBe(200)
  expect(asked).toBe(1)
  const all = await Promise.all(Array.from({ length: 5 }, () => outbound.fetch(`http://once.test:${inner}/`).then(() => 'taken', failureReason)))
  expect(all.every((reason) => reason.includes('are not allowed'))).toBe(true)
  expect(hits).toEqual([])
})

test('8.4 a name with good and bad addresses is connected to by the good one alone', async () => {
  const { outbound, open, hits } = await scene(async () => [{ address: '::1', family: 6 }, { address: '10.255.255.1', family: 4 }, { address: '127.0.0.1', family: 4 }])
  expect(await (await outbound.fetch(`http://both.test:${open}/`)).text()).toBe('here')
  expect(hits).toEqual([])
})
