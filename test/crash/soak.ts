import { parseArgs } from 'node:util'
import { KINDS } from './kinds.ts'
import { allPoints, pointTrials, randomOf, randomTrial, recoveryTrials, surveyOf, textOf, trialOf, type Survey } from './plan.ts'
import { runTrial, type Trial, type Verdict } from './trial.ts'

/**
 * `npm run soak -- crash [--kills N] [--seed N] [--jobs N] [--kinds A,B] [--no-points]`: a kill at every point that every kind of use comes to, then
 * again while a killed life is taken up, then N kills at random instants. `--trial 'KINDS KILL…'` makes one trial again.
 */
const OPTIONS = {
  kills: { type: 'string', default: '200' }, seed: { type: 'string' }, jobs: { type: 'string', default: '2' },
  points: { type: 'boolean', default: true }, kinds: { type: 'string' }, trial: { type: 'string' }
} as const

const say = (line: string): void => { process.stdout.write(`${line}\n`) }

interface Tally { trials: number, kills: number, failed: Verdict[], /** Kills of each point by kind. */ killed: Map<string, Map<string, number>> }
type Judge = (verdict: Verdict) => void

/** Resolves with the exit code: 0 where nothing was lost, told twice or left. */
export async function soakCrash (args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, allowNegative: true })
  const jobs = Number(values.jobs)
  const seed = Number(values.seed ?? Date.now() % 2 ** 31)
  const tally: Tally = { trials: 0, kills: 0, failed: [], killed: new Map() }
  const judge = judgeOf(tally)
  if (values.trial !== undefined) {
    judge(await runTrial(trialOf(values.trial.split(' '))))
    return conclude(tally, seed)
  }
  say(`crash: seed ${seed}, ${jobs} at a time`)
  const random = randomOf(seed)
  const surveys = new Map<string, Survey>()
  if (values.points) {
    const names = values.kinds?.split(',') ?? KINDS.map(({ name }) => name)
    await each(names.map((name): Trial => ({ kinds: [name], kills: [] })), jobs, (verdict) => {
      judge(verdict)
      surveys.set(verdict.trial.kinds[0] as string, surveyOf(verdict))
    })
    await phase('points', pointTrials(surveys, random), { jobs, tally, judge })
    await phase('points while it takes up', recoveryTrials(allPoints(), random), { jobs, tally, judge })
    tellTable(surveys, tally)
  }
  const before = tally.kills
  const wanted = Number(values.kills)
  while (tally.kills - before < wanted) {
    const left = Math.ceil((wanted - (tally.kills - before)) / 1.7)
    await phase('random instants', Array.from({ length: left }, () => randomTrial(random)), { jobs, tally, judge })
  }
  say(`crash: ${tally.kills - before} kills at random instants`)
  return conclude(tally, seed)
}

async function phase (name: string, trials: readonly Trial[], { jobs, tally, judge }: { jobs: number, tally: Tally, judge: Judge }): Promise<void> {
  const began = performance.now()
  const before = tally.kills
  let done = 0
  const tell = (): void => say(`crash: ${name}: ${done} of ${trials.length} trials, ${tally.kills - before} kills, ${tally.failed.length} failed, ${((performance.now() - began) / 1000).toFixed(0)} s`)
  await each(trials, jobs, (verdict) => {
    judge(verdict)
    if (++done % 25 === 0) tell()
  })
  tell()
}

async function each (trials: readonly Trial[], jobs: number, judge: Judge): Promise<void> {
  const left = [...trials]
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let trial = left.shift(); trial; trial = left.shift()) judge(await runTrial(trial))
  }))
}

const judgeOf = (tally: Tally): Judge => (verdict) => {
  const { trial: { kinds, kills }, killed, violations } = verdict
  tally.trials++
  tally.kills += killed
  const last = kills.at(-1)
  if (last && 'point' in last && killed === kills.length) {
    const name = kinds.length === 1 ? kinds[0] as string : 'taken up'
    const row = tally.killed.get(last.point) ?? new Map<string, number>()
    row.set(name, (row.get(name) ?? 0) + 1)
    tally.killed.set(last.point, row)
  }
  if (violations.length === 0) return
  tally.failed.push(verdict)
  for (const violation of violations) say(`VIOLATION ${violation}`)
  say(`  again: npm run soak -- crash --trial '${textOf(verdict.trial)}'`)
}

/** Points by kinds: how many of the kinds that come to a point were killed there, how often, and which. */
function tellTable (surveys: ReadonlyMap<string, Survey>, { killed }: Tally): void {
  const points = allPoints()
  const width = Math.max(...points.map((point) => point.length))
  say(`crash: ${'point'.padEnd(width)}  kinds  kills  of them killed while it takes up; kinds`)
  for (const point of points) {
    const row = killed.get(point) ?? new Map<string, number>()
    const hit = [...surveys].filter(([, survey]) => survey.has(point)).map(([name]) => name)
    const alone = [...row].filter(([name]) => name !== 'taken up')
    const kills = [...row.values()].reduce((sum, n) => sum + n, 0)
    const missed = hit.filter((name) => !row.has(name))
    const missing = missed.length === 0 || missed.length === hit.length ? '' : `, not ${missed.length > 6 ? `the ${missed.length} others` : missed.join(' ')}`
    say(`crash: ${point.padEnd(width)}  ${`${alone.length}/${hit.length}`.padStart(5)}  ${String(kills).padStart(5)}  ${String(row.get('taken up') ?? 0).padStart(2)}; ${alone.map(([name, n]) => `${name}×${n}`).join(' ')}${missing}`)
  }
  const never = points.filter((point) => !killed.has(point))
  const pairs = [...killed.values()].reduce((sum, row) => sum + [...row.keys()].filter((name) => name !== 'taken up').length, 0)
  say(`crash: ${points.length} points × ${surveys.size} kinds: ${pairs} pairs killed; points never killed at: ${never.join(', ') || 'none'}`)
}

function conclude ({ trials, kills, failed }: Tally, seed: number): number {
  const violations = failed.reduce((sum, verdict) => sum + verdict.violations.length, 0)
  say(`crash: ${trials} trials, ${kills} kills, ${violations} violations in ${failed.length} trials (seed ${seed}): ${failed.length === 0 ? 'ok' : 'FAILED'}`)
  return failed.length === 0 ? 0 : 1
}
