import type { Bench, Row } from './bench.ts'
import { createClient, inParallel, runToEnd } from './client.ts'
import { collectGarbage } from './inspector.ts'
import { megabytes, within } from './figures.ts'
import { freePort } from './process.ts'

/** What stays in memory of runs that have settled: nothing. */
export async function memory (bench: Bench): Promise<Row[]> {
  const [few, many] = bench.quick ? [500, 5_000] : [1_000, 100_000]
  const inspector = await freePort()
  const service = await bench.service({ nodeArgs: [`--inspect=127.0.0.1:${inspector}`] })
  const client = createClient(service.url, 32)
  const after = async (count: number): Promise<{ rss: number, heap: number }> => {
    await inParallel(count, 32, () => runToEnd(client, { task: 'hello' }))
    const heap = await collectGarbage(inspector)
    return { rss: service.memory().rss, heap }
  }
  const early = await after(few)
  const late = await after(many - few)
  await client.close()
  const what = `after ${many.toLocaleString('en')} settled runs, over ${few.toLocaleString('en')}`
  return [
    within(`memory (RSS after a collection) ${what}`, late.rss - early.rss, megabytes, { most: 20e6 }),
    within(`live heap ${what}`, late.heap - early.heap, megabytes, { most: 20e6 })
  ]
}
