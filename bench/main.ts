import { cpus, totalmem, type } from 'node:os'
import { runSection, type Row, type Section } from './bench.ts'
import { cancels } from './cancels.ts'
import { deltas } from './deltas.ts'
import { fairness } from './fairness.ts'
import { tableOf } from './figures.ts'
import { forks } from './forks.ts'
import { inFlight10000, inFlight500 } from './in-flight.ts'
import { ingest } from './ingest.ts'
import { memory } from './memory.ts'
import { normalizer } from './normalizer.ts'
import { overhead } from './overhead.ts'
import { ready } from './ready.ts'
import { retention } from './retention.ts'
import { latency, throughput } from './starts.ts'
import { tools } from './tools.ts'

/** `npm run bench -- [--quick] [name…]`: every section, or those named. Each has so many seconds. */
const SECTIONS: Record<string, [section: Section, seconds: number]> = {
  ready: [ready, 60],
  latency: [latency, 60],
  throughput: [throughput, 60],
  'in-flight-500': [inFlight500, 60],
  'in-flight-10000': [inFlight10000, 120],
  memory: [memory, 300],
  forks: [forks, 240],
  cancels: [cancels, 120],
  deltas: [deltas, 60],
  overhead: [overhead, 60],
  fairness: [fairness, 180],
  retention: [retention, 600],
  tools: [tools, 240],
  normalizer: [normalizer, 120],
  ingest: [ingest, 900]
}

async function main (args: readonly string[]): Promise<void> {
  const quick = args.includes('--quick')
  const wanted = args.filter((arg) => arg !== '--quick')
  const unknown = wanted.filter((name) => !Object.hasOwn(SECTIONS, name))
  if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}; known: ${Object.keys(SECTIONS).join(', ')}`)
  const [cpu] = cpus()
  console.log(`${cpu?.model ?? 'unknown CPU'}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()}`)
  console.log(`Node ${process.version}, ${new Date().toISOString().slice(0, 10)}${quick ? ', quick: not for quoting' : ''}\n`)
  // Fills the compile cache, as the first start on a machine does.
  await runSection(async (bench) => { await (await bench.service()).stop(); return [] }, quick, 60)
  const rows: Row[] = []
  for (const [name, [section, seconds]] of Object.entries(SECTIONS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue
    process.stderr.write(`${name} …\n`)
    rows.push(...await rowsOf(name, section, quick, seconds))
  }
  console.log(tableOf(rows))
  if (rows.some(({ figure }) => figure === 'failed')) process.exitCode = 1
}

/** A section that fails is a line of the table that says why: the others still count. */
async function rowsOf (name: string, section: Section, quick: boolean, seconds: number): Promise<Row[]> {
  try {
    return await runSection(section, quick, seconds)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
    return [{ what: name, figure: 'failed', floor: '–', ratio: '–', bar: '–', met: false }]
  }
}

await main(process.argv.slice(2))
