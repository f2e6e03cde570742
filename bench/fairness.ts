import { connect } from 'node:net'
import { writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Bench, Row } from './bench.ts'
import { createClient, eventsOf, hanging, runToEnd, scripted, timed, type Client } from './client.ts'
import { against, beside, median, megabytes, ms, within } from './figures.ts'

/** What one tenant's flood does to another, and what readers that do not read do to the service. */
export async function fairness (bench: Bench): Promise<Row[]> {
  return [...await flooded(bench), ...await stalled(bench)]
}

/** A client of each of two tenants. `POST` answers whatever its status. */
function keysFile (bench: Bench): string {
  const path = `${bench.database()}.keys.yaml`
  const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex')
  writeFileSync(path, JSON.stringify(['a', 'b'].map((id) => ({ id, sha256: sha256(`key-${id}`), tenant: id }))))
  return path
}
const as = (id: string): Record<string, string> => ({ authorization: `Bearer key-${id}` })

/** Tenant A starts runs that never end as fast as it can, with 64 connections; tenant B's runs go from start to result meanwhile. */
async function flooded (bench: Bench): Promise<Row[]> {
  const count = bench.quick ? 30 : 200
  const service = await bench.service({ env: { API_KEYS_FILE: keysFile(bench) } })
  const client = createClient(service.url, 4)
  const perCall = async (work: () => Promise<unknown>): Promise<number> => median(await timed(count, work))
  const run = (): Promise<unknown> => runToEnd(client, { task: 'hello' }, as('b'))
  const looks = async (): Promise<unknown> => await client.get('/healthz')
  await timed(50, run)
  const [alone, health] = [await perCall(run), await perCall(looks)]
  const flood = startFlood(service.url)
  await flood.full
  const [during, busy] = [await perCall(run), await perCall(looks)]
  const { taken, refused } = await flood.stop()
  // The flood is over, what it started still hangs: its places and its part of the queue stay taken.
  const [after, quiet] = [await perCall(run), await perCall(looks)]
  await client.close()
  return [
    against('B start → result, p50: A has its share of places and queue, against nobody', after, alone, ms, { most: 1.5 }),
    beside('B start → result, p50: A goes on starting with 64 connections', during, alone, ms),
    against('health, p50: A has its share', quiet, health, ms, { most: 1.5 }),
    beside('health, p50: A goes on starting', busy, health, ms),
    { what: 'A: starts taken, refused', figure: `${taken}, ${refused}`, floor: '–', ratio: '–', bar: '–', met: null }
  ]
}

function startFlood (url: string): { full: Promise<unknown>, stop: () => Promise<{ taken: number, refused: number }> } {
  const pool = new Pool(url, { connections: 64, pipelining: 1 })
  const full = Promise.withResolvers<undefined>()
  const counts = { taken: 0, refused: 0 }
  let going = true
  const body = JSON.stringify(hanging())
  const headers = { 'content-type': 'application/json', ...as('a') }
  const clients = Promise.all(Array.from({ length: 64 }, async () => {
    while (going) {
      const answer = await pool.request({ method: 'POST', path: '/v1/runs', headers, body })
      await answer.body.dump()
      if (answer.statusCode === 201) counts.taken++
      else counts.refused++
      if (counts.refused === 1) full.resolve(undefined)
    }
  }))
  clients.catch(full.reject)
  return {
    full: full.promise,
    async stop () {
      going = false
      await clients
      await pool.close()
      return counts
    }
  }
}

/** Readers that send their request and read nothing, of a run whose log is far larger than any buffer. */
async function stalled (bench: Bench): Promise<Row[]> {
  const readers = bench.quick ? 20 : 100
  const steps = bench.quick ? 100 : 300
  const service = await bench.service()
  const client = createClient(service.url, 8)
  const text = 'x'.repeat(100_000)
  const run = await runToEnd(client, {
    ...scripted([...Array.from({ length: steps }, () => ({ say: text, call: { name: 'none' } })), { say: 'end' }]), limits: { steps: steps + 10 }
  })
  await count(client, run.id)
  const before = service.memory().rss
  service.resetPeak()
  const sockets = await Promise.all(Array.from({ length: readers }, async () => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
    await once(socket, 'connect')
    socket.pause()
    socket.write(`GET /v1/runs/${run.id}/events HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n`)
    return socket
  }))
  await pause(3000)
  const grown = service.memory().peak - before
  const [alongside] = await timed(1, () => runToEnd(client, { task: 'hello' }))
  for (const socket of sockets) socket.destroy()
  await client.close()
  return [
    within(`${readers} readers that read nothing, of a log of ${Math.round(steps / 10)} MB: memory over before, each`, grown / readers, megabytes, { most: 3e6 }),
    { what: 'a run beside them, start → result', figure: ms(alongside ?? NaN), floor: '–', ratio: '–', bar: '–', met: null }
  ]
}

async function count (client: Client, id: string): Promise<number> {
  let events = 0
  for await (const { event } of eventsOf(await client.stream(`/v1/runs/${id}/events`))) if (event !== '') events++
  return events
}
