import { setTimeout as pause } from 'node:timers/promises'
import type { Bench, Row } from './bench.ts'
import { median, megabytes, seconds, within } from './figures.ts'

/** From the start of the process to the first good answer of `/readyz`, and what it holds when nothing happens. */
export async function ready (bench: Bench): Promise<Row[]> {
  const times: number[] = []
  for (let i = 0; i < (bench.quick ? 2 : 5); i++) {
    const service = await bench.service()
    times.push(service.readyMs)
    await service.stop()
  }
  const service = await bench.service()
  await pause(2_000)
  return [
    within('ready after start', median(times), seconds, { most: 1_000 }),
    within('idle memory', service.memory().rss, megabytes, { most: 90e6 })
  ]
}
