import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { gatherFacts } from './facts.ts'
import { createHost } from './host.ts'
import { violationsOf } from './invariants.ts'
import { KINDS, type Kind } from './kinds.ts'
import type { Kill } from './life.ts'
import { SCRIPTS } from './scripts.ts'
import { openTown, type Town } from './town.ts'
import { startWorld, type World } from './world.ts'

export interface Trial { kinds: readonly string[], kills: readonly Kill[] }
export interface Verdict {
  trial: Trial
  violations: string[]
  /** How many of the kills happened. */
  killed: number
  /** The points that each life came to, in order. */
  points: string[][]
  ms: number
}

/** A trial longer than this stalls somewhere. */
const TRIAL_MS = 60_000
const QUIET_MS = 3000

export const kindsOf = ({ kinds }: Trial): Kind[] => kinds.map((name) => {
  const kind = KINDS.find((each) => each.name === name)
  if (!kind) throw new Error(`no kind "${name}"; known: ${KINDS.map((each) => each.name).join(', ')}`)
  return kind
})

/** Plays the kinds, all at once, on a service that is killed as planned, and judges what is there in the end. */
export async function runTrial (trial: Trial): Promise<Verdict> {
  const began = performance.now()
  const kinds = kindsOf(trial)
  const folder = mkdtempSync(join(tmpdir(), 'crash-'))
  const world = await startWorld(SCRIPTS)
  const town = openTown({ folder, env: environment(folder, world, kinds), kills: trial.kills, from: Math.max(...kinds.map(({ from = 0 }) => from)), sweeps: kinds.some(({ sweeps }) => sweeps) })
  const violations: string[] = []
  try {
    const over = new AbortController()
    const late = delay(TRIAL_MS, undefined, { signal: over.signal }).then(() => { throw new Error(`not over in ${TRIAL_MS} ms`) })
    await Promise.race([play(town, world, kinds, violations), late]).finally(() => over.abort())
    late.catch(() => {})
  } catch (error) {
    violations.push(error instanceof Error ? `${error.message}${error.cause instanceof Error ? ` (${error.cause.message})` : ''}` : String(error))
  }
  const how = await town.close()
  if (how !== 0) violations.push(`the last life did not stop cleanly: ${how}`)
  violations.push(...town.violations(), ...await leftovers(folder, world))
  const points = Array.from({ length: town.lives() }, (_, n) => town.points(n))
  await world.close()
  rmSync(folder, { recursive: true, force: true })
  return { trial, violations, killed: town.killed(), points, ms: performance.now() - began }
}

async function play (town: Town, world: World, kinds: readonly Kind[], violations: string[]): Promise<void> {
  const host = createHost(town)
  const checks = await Promise.all(kinds.map(({ play }, n) => play(host, `k${n}`)))
  const facts = await gatherFacts(host)
  violations.push(...violationsOf(facts, host, world), ...checks.flatMap((check) => check(facts, world)))
}

/** What a crash or a stop must not leave: a request, a process, a damaged file, bytes that nobody owns. */
async function leftovers (folder: string, world: World): Promise<string[]> {
  const quiet = await world.quiet(QUIET_MS)
  const alive = await processesOf(folder)
  return [
    ...quiet ? [] : [`${world.open()} requests are still open after the end`],
    ...alive.map((command) => `a process is left: ${command}`),
    ...fileFaults(join(folder, 'runs.db'))
  ]
}

async function processesOf (folder: string): Promise<string[]> {
  const find = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return command.includes(folder) ? [command] : []
    } catch {
      return []
    }
  })
  let found = find()
  for (let waited = 0; found.length > 0 && waited < QUIET_MS; waited += 50) {
    await delay(50)
    found = find()
  }
  return found
}

function fileFaults (path: string): string[] {
  const db = new DatabaseSync(path)
  try {
    const rows = (sql: string): unknown[] => db.prepare(sql).all().map((row) => Object.values(row)[0])
    const damage = rows('PRAGMA integrity_check').filter((row) => row !== 'ok')
    const orphans = rows(`SELECT id FROM segments WHERE owned = 0 AND id NOT IN (SELECT base FROM segments WHERE base IS NOT NULL)
      AND id NOT IN (SELECT segment FROM garbage)`)
    const loose = rows('SELECT DISTINCT segment FROM events WHERE segment NOT IN (SELECT id FROM segments)')
    const specs = rows('SELECT run FROM specs WHERE run NOT IN (SELECT n FROM runs)')
    return [
      ...damage.map((row) => `the file is damaged: ${String(row)}`),
      ...orphans.map((id) => `nobody owns segment ${String(id)}, and no sweep finds it`),
      ...[...loose, ...specs].map((id) => `rows are left of what is gone: ${String(id)}`)
    ]
  } finally {
    db.close()
  }
}

function environment (folder: string, world: World, kinds: readonly Kind[]): Record<string, string> {
  const tool = (name: string, idempotent: boolean): object => ({
    description: `runs ${name}`, method: 'POST', url: `http://${world.toolOrigin}/${name}`, idempotent, body: { key: '{key}', ms: '{ms}' },
    inputSchema: { type: 'object', properties: { key: { type: 'string' }, ms: { type: 'integer' } }, required: ['key'] }
  })
  const config = {
    delegation: true,
    outbound: { allow: [world.toolOrigin] },
    tools: { once: tool('once', false), again: tool('again', true) },
    ...kinds.some(({ mcp }) => mcp) ? { mcp: { kit: { command: process.execPath, args: ['test/tools/mcp/faulty-server.ts', 'good', folder] } } } : {}
  }
  const path = join(folder, 'config.yaml')
  writeFileSync(path, JSON.stringify(config))
  return {
    CONFIG: path, DATABASE_URL: `sqlite:${join(folder, 'runs.db')}`, OPENAI_BASE_URL: world.modelUrl, OPENAI_API_KEY: 'none',
    DEFAULT_MODEL: 'openai/fake', LOG_LEVEL: 'info', SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '60', ...Object.assign({}, ...kinds.map(({ env }) => env)) as object
  }
}
