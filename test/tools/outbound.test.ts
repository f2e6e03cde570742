import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { expect, test, type TestContext } from 'vitest'
import { addressKind, parseAllowed } from '../../src/tools/addresses.ts'
import { checkedLookup, createOutbound, failureReason, OutboundRefused, type Address, type OutboundOptions } from '../../src/tools/outbound.ts'

type Finish = TestContext['onTestFinished']

async function startServer (onTestFinished: Finish, host = '127.0.0.1'): Promise<{ port: number, hosts: string[] }> {
  const hosts: string[] = []
  const server = createServer((request, response) => {
    hosts.push(request.headers.host ?? '')
    if (request.url === '/away') response.writeHead(302, { location: 'http://10.0.0.1/' }).end()
    else response.end('here')
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  onTestFinished(() => new Promise((resolve) => { server.close(() => resolve()); server.closeAllConnections() }))
  return { port: (server.address() as AddressInfo).port, hosts }
}

function outbound (onTestFinished: Finish, options: OutboundOptions = {}) {
  const made = createOutbound(options)
  onTestFinished(() => made.close())
  return made
}
const names = (table: Record<string, string[]>) => {
  const asked: string[] = []
  const resolve = async (hostname: string): Promise<Address[]> => {
    asked.push(hostname)
    return (table[hostname] ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  }
  return { asked, resolve }
}
const refusalOf = (promise: Promise<unknown>): Promise<string> => promise.then(() => 'not refused', failureReason)

test.each([
  ['127.0.0.1', 'a loopback address'], ['127.9.9.9', 'a loopback address'], ['::1', 'a loopback address'],
  ['0.0.0.0', 'an address of this machine'], ['::', 'an address of this machine'],
  ['10.0.0.1', 'a private address'], ['172.16.0.1', 'a private address'], ['192.168.1.1', 'a private address'],
  ['fd00:ec2::254', 'a private address'], ['fec0::1', 'a private address'], ['100.64.0.1', 'a private address'], ['100.100.100.200', 'a private address'],
  ['169.254.169.254', 'a link-local address'], ['fe80::1', 'a link-local address'], ['fe80::1%eth0', 'a link-local address'], ['168.63.129.16', 'a link-local address'],
  ['224.0.0.1', 'a multicast address'], ['ff02::1', 'a multicast address'], ['255.255.255.255', 'a broadcast address'],
  ['240.0.0.1', 'a reserved address'], ['192.0.0.192', 'a reserved address'], ['198.18.0.1', 'a reserved address'], ['192.0.2.1', 'a reserved address'],
  ['::ffff:10.0.0.1', 'a private address'], ['::ffff:127.0.0.1', 'a loopback address'], ['::ffff:a9fe:a9fe', 'a link-local address'],
  ['64:ff9b::7f00:1', 'a loopback address'], ['64:ff9b:1::a00:1', 'a reserved address'], ['::7f00:1', 'a reserved address'],
  ['2002:7f00:1::', 'a reserved address'], ['2001::1', 'a reserved address'], ['2001:db8::1', 'a reserved address'], ['100::1', 'a reserved address'],
  ['4000::1', 'a reserved address'], ['nonsense', 'no address']
])('8.4 %s is refused as %s', (address, kind) => {
  expect(addressKind([], 'any.test', address, 80)).toBe(kind)
})

test.each(['8.8.8.8', '1.1.1.1', '2606:4700::1111', '64:ff9b::808:808', '::ffff:8.8.8.8'])('8.4 %s is public', (address) => {
  expect(addressKind([], 'any.test', address, 80)).toBeUndefined()
})

test('8.4 no address of a private or loopback range is ever taken for public, in whatever form', () => {
  const byte = fc.integer({ min: 0, max: 255 })
  const inner = fc.oneof(
    fc.tuple(fc.constant(10), byte, byte, byte), fc.tuple(fc.constant(127), byte, byte, byte), fc.tuple(fc.constant(0), byte, byte, byte),
    fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), byte, byte), fc.tuple(fc.constant(192), fc.constant(168), byte, byte),
    fc.tuple(fc.constant(169), fc.constant(254), byte, byte), fc.tuple(fc.constant(100), fc.integer({ min: 64, max: 127 }), byte, byte)
  ).map((parts) => parts.join('.'))
  const form = fc.constantFrom((ip: string) => ip, (ip: string) => `::ffff:${ip}`, (ip: string) => `64:ff9b::${ip}`, (ip: string) => `::${ip}`)
  fc.assert(fc.property(inner, form, (ip, make) => { expect(addressKind([], 'x', make(ip), 443)).toBeDefined() }))
})

test.each([
  [['127.0.0.1:9000'], '127.0.0.1', 9000, true], [['127.0.0.1:9000'], '127.0.0.1', 9001, false], [['127.0.0.1:9000'], '127.0.0.2', 9000, false],
  [['10.0.0.0/8'], '10.200.0.1', 1, true], [['10.0.0.0/8:80'], '10.200.0.1', 81, false], [['10.0.0.0/8'], '::ffff:10.0.0.1', 80, true],
  [['[fd00::/8]:8080'], 'fd12::1', 8080, true], [['fd00::/8'], 'fd12::1', 1, true], [['[::1]:9000'], '::1', 9000, true], [['::1'], '::1', 5, true],
  [['Host.Name'], '10.0.0.1', 80, true], [['host.name.:81'], '10.0.0.1', 80, false], [['other.name'], '10.0.0.1', 80, false]
])('8.4 with %j allowed, host.name at %s port %i: %s', (allow, address, port, allowed) => {
  expect(addressKind(parseAllowed(allow), 'host.name', address, port) === undefined).toBe(allowed)
})

test('every entry that cannot be understood is named at once', () => {
  expect(() => parseAllowed(['10.0.0.0/33', 'ok.test', '127.0.0.1:0', '10.1', '300.1.1.1', 'http://x', '-x', '']))
    .toThrow('not a host, an address or a range, with or without a port: "10.0.0.0/33", "127.0.0.1:0", "10.1", "300.1.1.1", "http://x", "-x", ""')
})

test('8.4 a private address is refused before a connection is made, and the text says how to allow it', async ({ onTestFinished }) => {
  const { port, hosts } = await startServer(onTestFinished)
  const { fetch } = outbound(onTestFinished)
  await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow(OutboundRefused)
  expect(await refusalOf(fetch(`http://127.0.0.1:${port}/`)))
    .toBe('requests to "127.0.0.1" are not allowed: it is a loopback address (outbound.allow in the configuration can allow it)')
  for (const odd of ['2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', '0177.0.0.1', '127.1']) {
    expect(await refusalOf(fetch(`http://${odd}:${port}/`))).toContain('are not allowed: it is a loopback address')
  }
  expect(hosts).toEqual([])
})

test('8.4 a name is judged by what it resolves to, and the text does not tell that address', async ({ onTestFinished }) => {
  const { port, hosts } = await startServer(onTestFinished)
  const { resolve } = names({ 'inner.test': ['127.0.0.1'] })
  const { fetch } = outbound(onTestFinished, { resolve })
  const text = await refusalOf(fetch(`http://inner.test:${port}/`))
  expect(text).toContain('requests to "inner.test" are not allowed: its name leads to a loopback address')
  expect(text).not.toContain('127.0.0.1')
  expect(hosts).toEqual([])
})

test('8.4 the address that was checked is the one connected to: a name is resolved once for a connection', async ({ onTestFinished }) => {
  const { port, hosts } = await startServer(onTestFinished)
  const { resolve, asked } = names({ 'rebound.test': ['127.0.0.1'] })
  const { fetch } = outbound(onTestFinished, { resolve, allow: [`127.0.0.1:${port}`] })
  expect(await (await fetch(`http://rebound.test:${port}/`)).text()).toBe('here')
  expect({ asked, hosts }).toEqual({ asked: ['rebound.test'], hosts: [`rebound.test:${port}`] })
})

test('8.4 of several addresses only the allowed ones are connected to', async () => {
  const { resolve } = names({ 'mixed.test': ['10.0.0.1', '8.8.8.8', '::1', '2606:4700::1'] })
  const seen = await new Promise((done) => checkedLookup([], resolve, 80)('mixed.test', { all: true }, (error, found) => done({ error, found })))
  expect(seen).toEqual({ error: null, found: [{ address: '8.8.8.8', family: 4 }, { address: '2606:4700::1', family: 6 }] })
  const one = await new Promise((done) => checkedLookup([], resolve, 80)('mixed.test', { family: 6 }, (error, found, family) => done({ error, found, family })))
  expect(one).toEqual({ error: null, found: '2606:4700::1', family: 6 })
})

test('a name that resolves to nothing says so', async ({ onTestFinished }) => {
  const { fetch } = outbound(onTestFinished, { resolve: names({}).resolve })
  expect(await refusalOf(fetch('http://nowhere.test/'))).toBe('its address does not resolve (ENOTFOUND)')
})

test('8.4 only http and https may be requested, and no credentials in the URL', async ({ onTestFinished }) => {
  const { fetch, refusal } = outbound(onTestFinished)
  expect(await refusalOf(fetch('file:///etc/passwd'))).toBe('only http and https URLs may be requested, not "file:"')
  expect(refusal(new URL('https://a:b@example.com/'))).toBe('a URL with a user name or a password may not be requested')
  expect(refusal(new URL('https://example.com/'))).toBeUndefined()
})

test('a redirect is answered, never followed', async ({ onTestFinished }) => {
  const { port } = await startServer(onTestFinished)
  const { fetch } = outbound(onTestFinished, { allow: ['127.0.0.1'] })
  const response = await fetch(`http://127.0.0.1:${port}/away`, { redirect: 'follow' })
  expect([response.status, response.headers.get('location')]).toEqual([302, 'http://10.0.0.1/'])
})

test('a request that is under way ends with its signal, and closing ends all', async ({ onTestFinished }) => {
  const asked = Promise.withResolvers<void>()
  const server = createServer(() => asked.resolve())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => { server.close() })
  const { fetch, close } = outbound(onTestFinished, { allow: ['127.0.0.1'] })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const controller = new AbortController()
  const aborted = expect(fetch(url, { signal: controller.signal })).rejects.toThrow('enough')
  const left = expect(fetch(url)).rejects.toThrow()
  await asked.promise
  controller.abort(new Error('enough'))
  await aborted
  await close()
  await left
  await expect(fetch(url)).rejects.toThrow('the service is closing')
})

test('the reason of a failed request is told in words', async ({ onTestFinished }) => {
  const { fetch } = outbound(onTestFinished, { allow: ['127.0.0.1'] })
  const { port } = await new Promise<AddressInfo>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => { const at = server.address() as AddressInfo; server.close(() => resolve(at)) })
  })
  expect(await refusalOf(fetch(`http://127.0.0.1:${port}/`))).toBe('the connection was refused (ECONNREFUSED)')
})
