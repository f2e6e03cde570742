import type { Bench, Row } from './bench.ts'
import { createClient, hanging, timed, type Client, type Run } from './client.ts'
import { ms, percentile, within } from './figures.ts'

/** From the cancel call to the answer that all of it has stopped. */
export async function cancels (bench: Bench): Promise<Row[]> {
  const client = createClient((await bench.service()).url, 16)
  const one = await cancelTimes(client, bench.quick ? 50 : 300, 1)
  const tree = await cancelTimes(client, bench.quick ? 10 : 100, 64)
  await client.close()
  return [
    within('cancel → aborted, one run, p99', percentile(one, 0.99), ms, { most: 20 }),
    within('cancel → aborted, a tree of 64, p99', percentile(tree, 0.99), ms, { most: 60 })
  ]
}

async function cancelTimes (client: Client, count: number, size: number): Promise<number[]> {
  const times: number[] = []
  for (let i = -5; i < count; i++) {
    const root = await client.post('/v1/runs', hanging())
    await Promise.all(Array.from({ length: size - 1 }, () => client.post('/v1/runs', { ...hanging(), parent: { runId: root.id } })))
    const [time = NaN] = await timed(1, () => cancelled(client, root))
    if (i >= 0) times.push(time)
  }
  return times
}

async function cancelled (client: Client, { id }: Run): Promise<void> {
  const run = await client.post(`/v1/runs/${id}/cancel?wait=10`, {})
  if (run.stopReason !== 'aborted') throw new Error(`run ${id} is ${run.status}, ${run.stopReason}`)
}
