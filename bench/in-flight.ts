import { setTimeout as pause } from 'node:timers/promises'
import type { Bench, Row } from './bench.ts'
import { createClient, hanging, inParallel, runToEnd, settled, slow, type Client } from './client.ts'
import { megabytes, ms, seconds, within } from './figures.ts'

/** 500 clients at once, each waiting for a model that answers after a second. */
export async function inFlight500 (bench: Bench): Promise<Row[]> {
  const service = await bench.service()
  const client = createClient(service.url, 500)
  await inParallel(200, 32, () => runToEnd(client, { task: 'warm up' }))
  service.resetPeak()
  const begun = performance.now()
  await inParallel(500, 500, () => runToEnd(client, slow(1_000)))
  const wall = performance.now() - begun
  const { peak } = service.memory()
  await client.close()
  return [
    within('500 in flight, model answers after 1 s: wall', wall, seconds, { most: 1_400 }),
    within('500 in flight: peak memory', peak, megabytes, { most: 130e6 })
  ]
}

/** 10,000 runs that all wait for their model at the same time. */
export async function inFlight10000 (bench: Bench): Promise<Row[]> {
  const count = bench.quick ? 1_000 : 10_000
  const service = await bench.service({ env: { MAX_RUNNING: String(count + 10), MAX_QUEUED: String(count) } })
  const client = createClient(service.url, 128)
  const [health, status, cancel] = watchAnswers(service.url)
  const begun = performance.now()
  const ids: string[] = []
  await inParallel(count, 128, async () => { ids.push((await client.post('/v1/runs', slow(5_000))).id) })
  const started = performance.now() - begun
  const reasons = await resultsOf(client, ids)
  const wall = performance.now() - begun
  const { peak } = service.memory()
  const slowest = await Promise.all([health, status, cancel].map((watch) => watch.stop()))
  await client.close()
  const what = `${count.toLocaleString('en')} in flight, model answers after 5 s`
  return [
    within(`${what}: completed`, reasons.filter((reason) => reason === 'completed').length, String, { least: count }),
    { what: `${what}: wall (all started after)`, figure: `${seconds(wall)} (${seconds(started)})`, floor: '–', ratio: '–', bar: '–', met: null },
    within(`${what}: peak memory`, peak, megabytes, { most: 1e9 }),
    within(`${what}: slowest health answer`, slowest[0] ?? NaN, ms, { most: 100 }),
    { what: `${what}: slowest status; slowest start and cancel of a run beside them`, figure: `${ms(slowest[1] ?? NaN)}; ${ms(slowest[2] ?? NaN)}`, floor: '–', ratio: '–', bar: '–', met: null }
  ]
}

async function resultsOf (client: Client, ids: readonly string[]): Promise<string[]> {
  const reasons: string[] = []
  await inParallel(ids.length, 128, async (i) => { reasons.push((await settled(client, ids[i] ?? '')).stopReason) })
  return reasons
}

interface Watch { /** Answers the longest wait in ms. */ stop: () => Promise<number> }

/** Asks for health, for a run's status, and to cancel a run that was just started, each again and again until stopped. */
function watchAnswers (url: string): [health: Watch, status: Watch, cancel: Watch] {
  const start = (client: Client): Promise<{ id: string }> => client.post('/v1/runs', hanging())
  return [
    watch(url, (client) => client.get('/healthz')),
    watch(url, (client) => client.get('/v1/runs?limit=1')),
    watch(url, async (client) => await client.post(`/v1/runs/${(await start(client)).id}/cancel?wait=30`, {}))
  ]
}

function watch (url: string, ask: (client: Client) => Promise<unknown>): Watch {
  const client = createClient(url, 1)
  let watching = true
  const watched = (async () => {
    let slowest = 0
    while (watching) {
      const begun = performance.now()
      await ask(client)
      slowest = Math.max(slowest, performance.now() - begun)
      await pause(20)
    }
    return slowest
  })()
  // Whoever stops it gets the failure; until then it must not count as unhandled.
  watched.catch(() => {})
  return {
    async stop () {
      watching = false
      const slowest = await watched
      await client.close()
      return slowest
    }
  }
}
