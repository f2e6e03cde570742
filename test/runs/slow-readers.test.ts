import Fastify from 'fastify'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createLives } from '../../routes/lives.ts'
import { frame, sendEvents } from '../../routes/sse.ts'

interface Streaming { port: number, given: () => number, ended: Promise<string> }

/** A server whose one route streams what `items` gives, with a short patience. */
async function streaming (items: (over: AbortSignal) => AsyncGenerator<string[]>, times: { heartbeatMs: number, stallMs: number }): Promise<Streaming> {
  const app = Fastify()
  const lives = createLives(new AbortController().signal)
  const ended = Promise.withResolvers<string>()
  let given = 0
  app.get('/', (_, reply) => {
    const life = lives(reply)
    void life.done.then(ended.resolve)
    async function * counted (): AsyncGenerator<string[]> {
      for await (const batch of items(life.over)) {
        given += batch.length
        yield batch
      }
    }
    sendEvents(reply, life, counted(), (data) => frame({ event: 'x', data }), times)
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => app.close())
  return { port: (app.server.address() as AddressInfo).port, given: () => given, ended: ended.promise }
}

async function request (port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => { socket.destroy() })
  await once(socket, 'connect')
  socket.write('GET / HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n')
  return socket
}

/** Without end, as fast as it is taken. */
async function * flood (over: AbortSignal): AsyncGenerator<string[]> {
  for (let n = 0; !over.aborted; n++) {
    yield ['x'.repeat(10_000)]
    await turn()
  }
}

test('6.4 a reader that takes nothing is cut off, by us, and was given no more than the buffers hold', async () => {
  const { port, given, ended } = await streaming(flood, { heartbeatMs: 20, stallMs: 150 })
  const socket = await request(port)
  socket.pause()
  expect(await ended).toBe('closed')
  expect(given() * 10_000).toBeLessThan(20e6)
})

test('6.4 a reader of a silent stream is not cut off: comments show that it lives', async () => {
  async function * silent (over: AbortSignal): AsyncGenerator<string[]> {
    yield ['first']
    await new Promise((resolve) => { over.addEventListener('abort', resolve, { once: true }) })
  }
  const { port } = await streaming(silent, { heartbeatMs: 20, stallMs: 150 })
  const socket = await request(port)
  let text = ''
  socket.on('data', (bytes: Buffer) => { text += bytes.toString() })
  await expect.poll(() => text.match(/^: .*$/gm)?.length ?? 0).toBeGreaterThan(15)
  expect(text).toContain('event: x\ndata: first\n\n')
  expect(socket.closed).toBe(false)
})
