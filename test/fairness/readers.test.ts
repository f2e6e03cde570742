import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'
import { createSseParser, readEvents, type SseEvent } from '../support/sse.ts'

/** A settled run that said so many texts of so many characters. */
async function longRun (service: Service, texts: number, chars: number): Promise<string> {
  const script = [...Array.from({ length: texts }, () => ({ say: 'x'.repeat(chars), call: { name: 'none' } })), { say: 'end' }]
  const { id } = await service.start({ task: 'a', limits: { steps: texts + 1 }, agentOptions: { script } })
  await service.result(id)
  return id
}

/** A reader that asks for the stream and takes nothing of it. */
async function stall (service: Service, id: string, after = ''): Promise<Socket> {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
  onTestFinished(() => { socket.destroy() })
  await once(socket, 'connect')
  socket.pause()
  socket.write(`GET /v1/runs/${id}/events${after} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\nconnection: close\r\n\r\n`)
  return socket
}

/** Takes at least so many events off a stalled connection, then all when `count` is not given. */
async function take (socket: Socket, count = Infinity): Promise<SseEvent[]> {
  const parser = createSseParser()
  const events: SseEvent[] = []
  let head = true
  let rest = ''
  for await (const bytes of socket as AsyncIterable<Buffer>) {
    rest += bytes.toString()
    if (head) {
      const end = rest.indexOf('\r\n\r\n')
      if (end === -1) continue
      rest = rest.slice(end + 4)
      head = false
    }
    // Chunked: a size, its bytes, a line break.
    for (let size = /^([0-9a-f]+)\r\n/.exec(rest); size; size = /^([0-9a-f]+)\r\n/.exec(rest)) {
      const [from, length] = [size[0].length, parseInt(size[1] as string, 16)]
      if (rest.length < from + length + 2) break
      events.push(...parser.push(rest.slice(from, from + length)))
      rest = rest.slice(from + length + 2)
    }
    if (events.length >= count) break
  }
  return events
}

test('6.4 readers that take nothing are read no more for than their connections hold; runs beside them go on; then each can go on', async () => {
  const service = await startService(onTestFinished)
  const id = await longRun(service, 130, 100_000)
  const all = (await (await readEvents(service, id)).all()).filter((event) => event.id !== undefined)
  const { store } = service.app
  const { readEventPage } = store
  let chars = 0
  let largest = 0
  store.readEventPage = async (...args) => {
    const page = await readEventPage(...args)
    const size = page.events.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0)
    chars += size
    largest = Math.max(largest, size)
    return page
  }
  const READERS = 4
  const sockets = await Promise.all(Array.from({ length: READERS }, () => stall(service, id)))
  for (let n = 0; n < 3; n++) await service.result((await service.start({ task: 'beside' })).id)
  expect(largest).toBeLessThan(262_144 + 2 * 100_000)
  expect(chars).toBeLessThan(READERS * 10e6)
  const [whole, cut] = sockets as [Socket, Socket]
  const seen = (await take(whole)).filter((event) => event.id !== undefined)
  expect(seen).toEqual(all)
  const some = (await take(cut, 40)).filter((event) => event.id !== undefined)
  cut.destroy()
  const later = await (await readEvents(service, id, { lastEventId: some.at(-1)?.id as string })).all()
  expect([...some, ...later.filter((event) => event.id !== undefined)].map((event) => event.id)).toEqual(all.map((event) => event.id))
})

test('6.6 a page ends sooner where its events are large, and the next goes on: none lost, none twice', async () => {
  const service = await startService(onTestFinished)
  const id = await longRun(service, 24, 500_000)
  const seqs: number[] = []
  const sizes: number[] = []
  for (const tree of [false, true]) {
    let cursor = ''
    for (let settled = false; !settled;) {
      const { body, text } = await service.call('GET', `/v1/runs/${id}/events?limit=1000&tree=${tree}${cursor}`)
      sizes.push(text.length)
      if (!tree) seqs.push(...body.events.map((event: { seq: number }) => event.seq))
      cursor = `&after=${body.after}`
      settled = body.settled
    }
  }
  expect(seqs).toEqual(seqs.map((_, n) => n))
  expect(seqs.length).toBeGreaterThan(3 * 24)
  expect(Math.max(...sizes)).toBeLessThan(10e6)
  expect(sizes.length).toBeGreaterThanOrEqual(4)
})
