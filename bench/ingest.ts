import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Bench, Row } from './bench.ts'
import { turn } from './chat-frames.ts'
import { createClient, type Client } from './client.ts'
import { megabytes, ms, rate, seconds, within } from './figures.ts'
import { collectGarbage } from './inspector.ts'
import { freePort, type Served } from './process.ts'

/** One chat that its host ingests: how fast, how large it grows, and how soon it is taken up after a restart. */
export async function ingest (bench: Bench): Promise<Row[]> {
  const [some, many, step] = bench.quick ? [20_000, 60_000, 20_000] : [100_000, 1_000_000, 100_000]
  return [...await speed(bench, some), ...await size(bench, many, step), ...await recovery(bench, some)]
}

interface Run { id: string, framesAccepted: number }
const startChat = (client: Client): Promise<Run> => client.post<Run>('/v1/runs', { provider: 'claude-code', ingest: true })

/** Lines of turns from number `first` on, at least `count` of them. */
function linesOf (first: number, count: number): { lines: string[], turns: number } {
  const lines: string[] = []
  let turns = 0
  while (lines.length < count) for (const frame of turn(first + turns++)) lines.push(`${JSON.stringify(frame)}\n`)
  return { lines, turns }
}

/** Posts lines as one chunked body, in pieces as a pipe gives them; resolves with how many are accepted. */
async function pour (pool: Pool, id: string, from: number, lines: readonly string[], size = 50): Promise<number> {
  async function * body (): AsyncGenerator<string> {
    for (let at = 0; at < lines.length; at += size) yield lines.slice(at, at + size).join('')
  }
  const { statusCode, body: answer } = await pool.request({
    method: 'POST', path: `/v1/runs/${id}/frames?from=${from}`, headers: { 'content-type': 'application/x-ndjson' }, body: Readable.from(body())
  })
  const text = await answer.text()
  if (statusCode !== 200) throw new Error(`${statusCode} ${text}`)
  return (JSON.parse(text) as { accepted: number }).accepted
}

const poolOf = ({ url }: Served): Pool => new Pool(url, { connections: 2, headersTimeout: 0, bodyTimeout: 0 })

async function speed (bench: Bench, count: number): Promise<Row[]> {
  const service = await bench.service()
  const [client, pool] = [createClient(service.url, 1), poolOf(service)]
  const { lines } = linesOf(0, count)
  await pour(pool, (await startChat(client)).id, 0, lines.slice(0, count / 10))
  const { id } = await startChat(client)
  const begun = performance.now()
  const accepted = await pour(pool, id, 0, lines)
  const spent = performance.now() - begun
  if (accepted !== lines.length) throw new Error(`${accepted} of ${lines.length} frames were accepted`)
  const single = await startChat(client)
  const posts = Math.min(2_000, count / 10)
  const first = performance.now()
  for (let i = 0; i < posts; i++) await pour(pool, single.id, i, lines.slice(i, i + 1))
  const spentSingly = performance.now() - first
  await Promise.all([client.close(), pool.destroy()])
  await service.stop()
  return [
    within('frames ingested durably, one request', lines.length / spent * 1000, (value) => rate(value, 'frames'), { least: 5_000 }),
    { what: 'frames ingested durably, a request each', figure: rate(posts / spentSingly * 1000, 'frames'), floor: '–', ratio: '–', bar: '–', met: null }
  ]
}

async function size (bench: Bench, count: number, step: number): Promise<Row[]> {
  const inspector = await freePort()
  const service = await bench.service({ nodeArgs: [`--inspect=127.0.0.1:${inspector}`] })
  const [client, pool] = [createClient(service.url, 1), poolOf(service)]
  const { id } = await startChat(client)
  const heaps: number[] = []
  const resident: number[] = []
  let [from, first] = [0, 0]
  while (from < count) {
    const target = (heaps.length + 1) * step
    // In pieces: what the host of the benchmark holds must not slow it.
    while (from < target) {
      const { lines, turns } = linesOf(first, Math.min(10_000, target - from))
      first += turns
      from = await pour(pool, id, from, lines)
    }
    heaps.push(await collectGarbage(inspector))
    resident.push(service.memory().rss)
    process.stderr.write(`  ${from} frames: heap ${megabytes(heaps.at(-1) ?? 0)}, RSS ${megabytes(resident.at(-1) ?? 0)}\n`)
  }
  await Promise.all([client.close(), pool.destroy()])
  await service.stop()
  const grown = (values: readonly number[]): number => (values.at(-1) ?? 0) - (values[1] ?? 0)
  const what = `of a chat after ${count.toLocaleString('en')} frames, over ${(2 * step).toLocaleString('en')}`
  return [
    within(`live heap ${what}`, grown(heaps), megabytes, { most: 10e6 }),
    within(`memory (RSS after a collection) ${what}`, grown(resident), megabytes, { most: 30e6 })
  ]
}

/** A restart under a chat with a long journal: when it takes frames again, and how long nothing else was answered meanwhile. */
async function recovery (bench: Bench, count: number): Promise<Row[]> {
  const database = bench.database()
  const before = await bench.service({ database })
  const [client, pool] = [createClient(before.url, 1), poolOf(before)]
  const { id } = await startChat(client)
  const { lines } = linesOf(0, count)
  await pour(pool, id, 0, lines)
  await Promise.all([client.close(), pool.destroy()])
  await before.stop()
  const service = await bench.service({ database })
  const [again, side] = [poolOf(service), createClient(service.url, 1)]
  const begun = performance.now()
  let open = true
  const taken = pour(again, id, lines.length, ['{}\n']).finally(() => { open = false })
  let longest = 0
  while (open) {
    const asked = performance.now()
    await side.get('/healthz')
    longest = Math.max(longest, performance.now() - asked)
    await pause(1)
  }
  if (await taken !== lines.length + 1) throw new Error('the chat did not go on')
  const spent = performance.now() - begun + service.readyMs
  await Promise.all([again.destroy(), side.close()])
  await service.stop()
  return [
    within(`a chat of ${lines.length.toLocaleString('en')} frames goes on after a restart`, spent, seconds, { most: 15_000 }),
    within('longest wait of another request meanwhile', longest, ms, { most: 250 })
  ]
}
