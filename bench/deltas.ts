import type { Bench, Row } from './bench.ts'
import { createClient, eventsOf, scripted, settled, type Client, type Run } from './client.ts'
import { against, megabytes, rate, seconds, within } from './figures.ts'

/** Long enough that every reader stands there before the first delta. */
const HEAD_START_MS = 1_500

export async function deltas (bench: Bench): Promise<Row[]> {
  return [...await oneReader(bench), ...await manyReaders(bench)]
}

/** One reader of a message that is written as fast as the process can. */
async function oneReader (bench: Bench): Promise<Row[]> {
  const count = 10_000
  const service = await bench.service()
  const client = createClient(service.url, 4)
  const script = scripted([{ delayMs: 500, slow: { text: 'word '.repeat(count), delayMs: 0, deltas: count } }])
  await follow(client, await client.post('/v1/runs', script))
  const before = service.memory().rss
  service.resetPeak()
  const seen = await follow(client, await client.post('/v1/runs', script))
  const grown = service.memory().peak - before
  await client.close()
  return [
    {
      ...within('10,000 deltas through one SSE reader', count * 1000 / seen.elapsed, (value) => rate(value, 'deltas'), { least: 50_000 }),
      floor: `${seen.single} singly, rest in snapshots`
    },
    within('10,000 deltas: memory over before', grown, megabytes, { most: 20e6 })
  ]
}

/** A run whose message comes in 200 pieces, 5 ms apart: alone, and with 1,000 readers. */
async function manyReaders (bench: Bench): Promise<Row[]> {
  const readers = bench.quick ? 100 : 1_000
  const client = createClient((await bench.service()).url, readers + 4)
  const body = scripted([{ delayMs: HEAD_START_MS, slow: { text: 'word '.repeat(200), delayMs: 5, deltas: 200 } }])
  const lasting = async (count: number): Promise<number> => {
    const begun = performance.now()
    const run = await client.post('/v1/runs', body)
    const reading = Array.from({ length: count }, () => follow(client, run))
    await settled(client, run.id)
    const elapsed = performance.now() - begun
    await Promise.all(reading)
    return elapsed
  }
  const alone = await lasting(1)
  const crowded = await lasting(readers)
  await client.close()
  return [against(`a run with ${readers.toLocaleString('en')} readers, against one`, crowded, alone, seconds, { most: 1.1 })]
}

interface Seen { /** From the first delta to the end of the message. */ elapsed: number, single: number }

/** Reads a run's stream to its end. */
async function follow (client: Client, { id }: Run): Promise<Seen> {
  let [first, last, single] = [NaN, NaN, 0]
  for await (const { event, data } of eventsOf(await client.stream(`/v1/runs/${id}/events`))) {
    const written = event === 'delta' || (event === 'snapshot' && !data.includes('"parts":[]'))
    if (written && Number.isNaN(first)) first = performance.now()
    if (event === 'delta') single++
    if (event === 'assistant/message') last = performance.now()
  }
  if (Number.isNaN(last)) throw new Error(`the stream of run ${id} ended without its message`)
  return { elapsed: last - (Number.isNaN(first) ? last : first), single }
}
