import { campaign, distinct, emptyReport, totalsOf, type Report } from '../http/campaign.ts'
import { startPopulation, type Population } from '../http/population.ts'

/** `npm run soak -- http [requests] [seed]`: as many requests as told, made from the document, in rounds of their own seeds. */

const ROUND = 2400

/** Resolves with the exit code: 0 where every answer was as the document says. */
export async function soakHttp (args: readonly string[]): Promise<number> {
  const count = Number(args[0] ?? 100_000)
  const seed = Number(args[1] ?? Date.now() % 2 ** 31)
  const say = (line: string): void => { process.stdout.write(`${line}\n`) }
  const ends: (() => void | Promise<void>)[] = []
  const population = await startPopulation((end) => { ends.push(end) })
  try {
    say(`http: ${count} requests, seed ${seed}`)
    const before = await vitals(population)
    const total = emptyReport()
    const started = performance.now()
    for (let round = 0; total.sent < count; round++) {
      add(total, await campaign({ population, count: Math.min(ROUND, count - total.sent), seed: seed + round }))
      const seconds = (performance.now() - started) / 1000
      say(`http: ${total.sent} sent in ${seconds.toFixed(0)} s, ${total.violations.length} violations, slowest ${total.slowestMs.toFixed(0)} ms, ${await vitals(population)}`)
    }
    return await tell(population, total, before, say)
  } finally {
    for (const end of ends.toReversed()) await end()
  }
}

function add (total: Report, { sent, totals, violations, slowestMs, healthMs }: Report): void {
  total.sent += sent
  total.slowestMs = Math.max(total.slowestMs, slowestMs)
  total.violations.push(...violations)
  total.healthMs.push(...healthMs)
  for (const [operation, counts] of totals) {
    const sums = total.totals.get(operation) ?? new Map<string, number>()
    total.totals.set(operation, sums)
    for (const [status, n] of counts) sums.set(status, (sums.get(status) ?? 0) + n)
  }
}

async function tell (population: Population, total: Report, before: string, say: (line: string) => void): Promise<number> {
  const faults = population.service.lines.filter(({ level }) => level === 'error' || level === 'fatal')
  for (const line of [...totalsOf(total), `before: ${before}`, `after:  ${await vitals(population)}`,
    `healthz between batches: ${quantiles(total.healthMs)}`]) say(`  ${line}`)
  for (const text of distinct(total.violations)) say(`VIOLATION ${text}`)
  for (const fault of faults.slice(0, 20)) say(`LOGGED ${JSON.stringify(fault)}`)
  const stderr = population.service.stderr()
  if (stderr !== '') say(`STDERR ${stderr.slice(0, 2000)}`)
  const failed = total.violations.length + faults.length + (stderr === '' ? 0 : 1)
  say(`http: ${total.sent} requests, ${total.violations.length} violations, ${faults.length} faults logged: ${failed === 0 ? 'ok' : 'FAILED'}`)
  return failed === 0 ? 0 : 1
}

const quantiles = (values: readonly number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (q: number): string => `${(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0).toFixed(1)} ms`
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)}`
}

/** What the service measures of itself: memory, and the delay of its event loop since the last look. */
async function vitals ({ call }: Population): Promise<string> {
  const { text } = await call('GET', '/metrics')
  const figure = (name: string): number => Number(new RegExp(`^${RegExp.escape(`subagentd_${name}`)} (\\S+)$`,
    'm').exec(text)?.[1])
  const mb = (kind: string): string => `${(figure(`process_memory_bytes{kind="${kind}"}`) / 2 ** 20).toFixed(0)} MB`
  const ms = (quantile: string): string => `${(figure(`event_loop_delay_seconds{quantile="${quantile}"}`) * 1000).toFixed(1)} ms`
  return `resident ${mb('resident')}, heap ${mb('heap_used')}, loop delay p50 ${ms('0.5')} p99 ${ms('0.99')} max ${ms('1')}`
}
