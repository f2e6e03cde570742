import type { Bench, Row } from './bench.ts'
import { createClient, eventsOf, runToEnd, scripted, type Client, type Run } from './client.ts'
import { megabytes, median, rate, within } from './figures.ts'
import { collectGarbage } from './inspector.ts'
import { freePort, type Served } from './process.ts'

const STEPS = 100
const PARALLEL = 10
const CALLS = STEPS * PARALLEL

/** The tool path: 1,000 calls of one run that its host answers, and 1,000 that one program makes, again and again. */
export async function tools (bench: Bench): Promise<Row[]> {
  return [...await hostTools(bench), ...await programs(bench)]
}

const lookUp = { name: 'look_up', description: 'Looks a number up', inputSchema: { type: 'object', properties: { n: { type: 'integer' } } } }
const asking = {
  ...scripted([
    ...Array.from({ length: STEPS }, (_, step) => ({
      calls: Array.from({ length: PARALLEL }, (_call, at) => ({ id: `c${step}_${at}`, name: lookUp.name, input: { n: step * PARALLEL + at } }))
    })),
    { say: 'done' }
  ]),
  tools: [lookUp],
  limits: { steps: 2 * STEPS }
}

/** Each call is answered by a request of its own, as soon as the run's stream tells of it. */
async function hostTools (bench: Bench): Promise<Row[]> {
  const { client, growth } = await measured(bench)
  const rates: number[] = []
  const once = async (): Promise<void> => {
    const begun = performance.now()
    await answering(client, await client.post('/v1/runs', asking))
    rates.push(CALLS * 1000 / (performance.now() - begun))
  }
  const memory = await growth(bench.quick ? 2 : 10, bench.quick ? 2 : 40, once)
  await client.close()
  return [
    within('host tool, 1,000 calls of one run', median(rates), (value) => rate(value, 'calls'), { least: 1000 }), ...memory('host tool')
  ]
}

async function answering (client: Client, { id }: Run): Promise<void> {
  const answers: Promise<unknown>[] = []
  let last = ''
  for await (const { event, data } of eventsOf(await client.stream(`/v1/runs/${id}/events`))) {
    last = event
    if (event !== 'tool/call') continue
    const { toolCallId } = (JSON.parse(data) as { data: { toolCallId: string } }).data
    answers.push(client.post(`/v1/runs/${id}/tool-results`, { results: [{ toolCallId, content: 'found' }] }))
  }
  await Promise.all(answers)
  if (last !== 'settled' || answers.length !== CALLS) throw new Error(`run ${id}: ${answers.length} calls, its last event is ${last}`)
}

/** A program that adds its way through 1,000 calls, ten at once. */
const code = `let sum = 0
for (let i = 0; i < ${STEPS}; i++) {
  for (const text of await Promise.all(Array.from({ length: ${PARALLEL} }, () => tools.add({ a: 1, b: 1 })))) sum += Number(text)
}
return { sum }`
const computing = { ...scripted([{ call: { name: 'run_code', input: { code } } }, { say: 'done' }]), codeMode: 'code' }

async function programs (bench: Bench): Promise<Row[]> {
  const { client, growth } = await measured(bench, true)
  const [few, many] = bench.quick ? [2, 10] : [20, 200]
  await checkSum(client, await runToEnd(client, computing))
  let begun = 0
  let runs = 0
  const memory = await growth(few, many, async () => {
    if (runs++ === few) begun = performance.now()
    await runToEnd(client, computing)
  })
  const elapsed = performance.now() - begun
  await client.close()
  const figure = within('Code Mode, 1,000 calls of one program', many * CALLS * 1000 / elapsed, (value) => rate(value, 'calls'), { least: 1000 })
  return [{ ...figure, figure: `${figure.figure}, ${(many * 1000 / elapsed).toFixed(1)} programs/s` }, ...memory('Code Mode')]
}

/** That the program did what is measured. */
async function checkSum (client: Client, { id }: Run): Promise<void> {
  for await (const { event, data } of eventsOf(await client.stream(`/v1/runs/${id}/events`))) {
    if (event === 'tool/result' && data.includes('"name":"run_code"') && data.includes(String(2 * CALLS))) return
  }
  throw new Error(`run ${id}: its program did not add up`)
}

interface Measured {
  client: Client
  /** Does it `few` times, then `many` times more; how much more memory is held after those. */
  growth (few: number, many: number, once: () => Promise<unknown>): Promise<(what: string) => Row[]>
}

async function measured (bench: Bench, tooled = false): Promise<Measured> {
  const inspector = await freePort()
  const service = await bench.service({ tooled, nodeArgs: [`--inspect=127.0.0.1:${inspector}`] })
  return {
    client: createClient(service.url, 2 * PARALLEL),
    async growth (few, many, once) {
      const after = async (count: number): Promise<{ heap: number, rss: number }> => {
        for (let i = 0; i < count; i++) await once()
        return await held(service, inspector)
      }
      const early = await after(few)
      const late = await after(many)
      return (what) => [
        within(`${what}: live heap after ${few + many} such runs, over ${few}`, late.heap - early.heap, megabytes, { most: 10e6 }),
        within(`${what}: memory (RSS after a collection) after ${few + many}, over ${few}`, late.rss - early.rss, megabytes, { most: 20e6 })
      ]
    }
  }
}

async function held (service: Served, inspector: number): Promise<{ heap: number, rss: number }> {
  const heap = await collectGarbage(inspector)
  return { heap, rss: service.memory().rss }
}
