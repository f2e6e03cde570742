import { Pool } from 'undici'
import type { Bench, Row } from './bench.ts'
import { createClient, runToEnd, timed } from './client.ts'
import { median, ms, within } from './figures.ts'

const DELTAS = 200

/** What the service adds to a model call over HTTP with 200 deltas: over a bare streaming request to the same server. */
export async function overhead (bench: Bench): Promise<Row[]> {
  const count = bench.quick ? 50 : 300
  const upstream = await bench.upstream()
  const service = await bench.service({ env: { OPENAI_API_KEY: 'none', OPENAI_BASE_URL: `${upstream.url}/v1` } })
  const pool = new Pool(upstream.url, { connections: 1 })
  const client = createClient(service.url, 1)
  const bare = (): Promise<void> => bareCall(pool)
  const whole = (): Promise<unknown> => runToEnd(client, { task: 'hello', agentOptions: { model: 'openai/bench', maxTokens: DELTAS } })
  for (const once of [bare, whole]) await timed(50, once)
  const floor = median(await timed(count, bare))
  const figure = median(await timed(count, whole))
  await pool.destroy()
  await client.close()
  return [{
    ...within('overhead on a model call, 200 deltas, p50', figure - floor, ms, { most: 5 }),
    figure: `${ms(figure)}, ${ms(figure - floor)} over the floor`,
    floor: ms(floor),
    ratio: (figure / floor).toFixed(2)
  }]
}

async function bareCall (pool: Pool): Promise<void> {
  const body = JSON.stringify({ model: 'bench', stream: true, max_tokens: DELTAS, messages: [{ role: 'user', content: 'hello' }] })
  const answer = await pool.request({ method: 'POST', path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body })
  let deltas = 0
  let rest = ''
  for await (const part of answer.body) {
    const blocks = (rest + String(part)).split('\n\n')
    rest = blocks.pop() ?? ''
    deltas += blocks.filter((block) => block.includes('"content"')).length
  }
  if (deltas !== DELTAS) throw new Error(`the model server sent ${deltas} deltas`)
}
