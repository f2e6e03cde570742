import type { Bench, Row } from './bench.ts'
import { createClient, inParallel, runToEnd, timed, type Client } from './client.ts'
import { against, median, ms, rate } from './figures.ts'

const BODY = { task: 'hello' }

/** One client, one run after another: from the start to its result in hand. */
export async function latency (bench: Bench): Promise<Row[]> {
  const count = bench.quick ? 100 : 1_000
  const measure = async (url: string, once: (client: Client) => Promise<unknown>): Promise<number> => {
    const client = createClient(url, 1)
    await timed(Math.ceil(count / 2), () => once(client))
    const times = await timed(count, () => once(client))
    await client.close()
    return median(times)
  }
  const floor = await measure((await bench.floor()).url, (client) => client.post('/v1/runs', BODY))
  const figure = await measure((await bench.service()).url, (client) => runToEnd(client, BODY))
  return [against('start → result, one client, p50', figure, floor, ms, { most: 2 })]
}

/** 32 clients that each start the next run when the last one's result came. */
export async function throughput (bench: Bench): Promise<Row[]> {
  const length = bench.quick ? 1_000 : 5_000
  const measure = async (url: string, once: (client: Client) => Promise<unknown>): Promise<number> => {
    const client = createClient(url, 32)
    await inParallel(500, 32, () => once(client))
    const begun = performance.now()
    let count = 0
    await Promise.all(Array.from({ length: 32 }, async () => {
      while (performance.now() - begun < length) {
        await once(client)
        count++
      }
    }))
    const elapsed = performance.now() - begun
    await client.close()
    return count * 1000 / elapsed
  }
  const floor = await measure((await bench.floor()).url, (client) => client.post('/v1/runs', BODY))
  const figure = await measure((await bench.service()).url, (client) => runToEnd(client, BODY))
  return [against('runs/s, 32 clients, start with Prefer: wait', figure, floor, (value) => rate(value, 'runs'), { least: 0.5 })]
}
