import { diskBytes, type Bench, type Row } from './bench.ts'
import { createClient, settled, timed, type Client, type Run } from './client.ts'
import { against, median, ms, within } from './figures.ts'

const MODEL = { agentOptions: { model: 'scripted/demo' } }
/** The least that a turn of a transcript becomes: its start, two messages, its end. */
const EVENTS_A_TURN = 4
/** Messages of one request. */
const PIECE = 20_000

/** A fork costs what a spawn costs, however long the parent's history is (driver.md 3.7). */
export async function forks (bench: Bench): Promise<Row[]> {
  const small = await startTimes(bench, 5_000, bench.quick ? 30 : 200)
  const large = await startTimes(bench, 100_000, bench.quick ? 10 : 60)
  return [
    against(`fork of ${events(small)} events against spawn, start → 201, p50`, small.fork, small.spawn, ms, { most: 1.3 }),
    against(`fork of ${events(large)} events against spawn, start → 201, p50`, large.fork, large.spawn, ms, { most: 1.5 }),
    await diskGrowth(bench, bench.quick ? 30 : 200)
  ]
}

interface Times { fork: number, spawn: number, seed: number }
const events = ({ seed }: Times): string => seed.toLocaleString('en')

/** Forks and spawns in turn, each after the one before has settled, so that neither pays for the other's run. */
async function startTimes (bench: Bench, length: number, count: number): Promise<Times> {
  const client = createClient((await bench.service()).url, 2)
  const fork = forkOf(await keepSession(client, length))
  const spawn = { task: 'hello', ...MODEL }
  let seed = 0
  const times: { fork: number[], spawn: number[] } = { fork: [], spawn: [] }
  for (let i = -5; i < count; i++) {
    for (const [kind, body] of [['fork', fork], ['spawn', spawn]] as const) {
      let run: Run | undefined
      const [time = NaN] = await timed(1, async () => { run = await client.post('/v1/runs', body) })
      if (run === undefined) continue
      await settled(client, run.id)
      if (i >= 0) times[kind].push(time)
      if (kind === 'fork') seed = run.seed.events
    }
  }
  await client.close()
  return { fork: median(times.fork), spawn: median(times.spawn), seed }
}

/** Bytes that a fork adds to the database, over those that a spawn adds; measured on closed files. */
async function diskGrowth (bench: Bench, count: number): Promise<Row> {
  const database = bench.database()
  let session = ''
  await visit(bench, database, async (client) => { session = await keepSession(client, 5_000) })
  const kept = diskBytes(database)
  await visit(bench, database, (client) => repeat(client, count, forkOf(session)))
  const forked = diskBytes(database)
  await visit(bench, database, (client) => repeat(client, count, { task: 'hello', ...MODEL }))
  const spawned = diskBytes(database)
  const [perFork, perSpawn] = [(forked - kept) / count, (spawned - forked) / count]
  const kilobytes = (bytes: number): string => `${(bytes / 1e3).toFixed(1)} kB`
  return {
    ...within('disk a fork of 5,000 events adds, over a spawn', perFork - perSpawn, kilobytes, { most: 4_096 }),
    figure: `${kilobytes(perFork)} against ${kilobytes(perSpawn)}`
  }
}

async function visit (bench: Bench, database: string, work: (client: Client) => Promise<void>): Promise<void> {
  const service = await bench.service({ database })
  const client = createClient(service.url, 2)
  await work(client)
  await client.close()
  await service.stop()
}

async function repeat (client: Client, count: number, body: object): Promise<void> {
  await timed(count, async () => settled(client, (await client.post('/v1/runs', body)).id))
}

/** Registers a host's session whose completed turns are at least `length` events; answers its id. */
async function keepSession (client: Client, length: number): Promise<string> {
  const turns = Math.ceil(length / EVENTS_A_TURN)
  const messages = Array.from({ length: turns }, (_, i) => [
    { role: 'user', content: `question ${i}` }, { role: 'assistant', content: `answer ${i}, in a few words` }
  ]).flat()
  const pieces = Array.from({ length: Math.ceil(messages.length / PIECE) }, (_, i) => messages.slice(i * PIECE, (i + 1) * PIECE))
  const { id } = await client.post<{ id: string }>('/v1/sessions', { transcript: { format: 'openai-chat', messages: pieces[0] }, model: 'scripted/demo' })
  for (const [i, piece] of pieces.slice(1).entries()) await client.post(`/v1/sessions/${id}/messages`, { after: (i + 1) * PIECE, messages: piece })
  return id
}

const forkOf = (sessionId: string): object => ({ provider: 'fork', task: 'hello', parent: { sessionId }, ...MODEL })
