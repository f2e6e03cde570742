import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { KINDS } from './kinds.ts'
import type { Kill } from './life.ts'
import type { Trial, Verdict } from './trial.ts'

const root = join(import.meta.dirname, '../..')

/** Every fault point that the sources name. */
export function allPoints (): string[] {
  const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => readFileSync(join(root, path), 'utf8'))
  return [...new Set(sources.flatMap((code) => [...code.matchAll(/\bat\('([a-z-]+\/[a-z-]+)'\)/g)].map((match) => match[1] as string)))].toSorted()
}

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
export function randomOf (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** How often a kind comes to each point, as an undisturbed play of it told. */
export type Survey = ReadonlyMap<string, number>

export function surveyOf ({ trial, points }: Verdict): Survey {
  const kind = KINDS.find(({ name }) => name === trial.kinds[0])
  const life = points[kind?.from ?? 0] ?? []
  // The end that every trial comes to is the business of the kind that asks for it.
  const end = kind?.name === 'shutdown' ? -1 : life.indexOf('service/draining')
  const counted = new Map<string, number>()
  for (const point of end === -1 ? life : life.slice(0, end)) counted.set(point, (counted.get(point) ?? 0) + 1)
  return counted
}

const STARTING = new Set(['store/migrating', 'store/opened', 'service/listening', 'service/resumed'])

/** What every kind comes to again and again: which time it is tells more than that it is the first. */
const COMMON = /^(commit|flush|events)\//

/** A kill at each point that a kind comes to: at the first hit, and at a later one; of the store's own points at one of the hits. */
export function pointTrials (surveys: ReadonlyMap<string, Survey>, random: () => number): Trial[] {
  const trials: Trial[] = []
  for (const [kind, survey] of surveys) {
    for (const [point, hits] of survey) {
      if (STARTING.has(point) && kind !== 'plain' && kind !== 'expire') continue
      const later = Math.ceil(random() * hits)
      const chosen = new Set([...COMMON.test(point) ? [] : [1], ...hits > 2 || COMMON.test(point) ? [later] : []])
      for (const hit of chosen) trials.push({ kinds: [kind], kills: [{ point, hit }] })
    }
  }
  return trials
}

const together = (): string[] => KINDS.filter(({ alone }) => !alone).map(({ name }) => name)

/** Many kinds at once, killed while some model answers; then the life that takes it up is killed at each point. */
export function recoveryTrials (points: readonly string[], random: () => number): Trial[] {
  return points.flatMap((point) => [1, 2 + Math.floor(random() * 6)].map((hit): Trial => ({
    kinds: pick(together(), 9, random), kills: [{ point: 'reply/begun', hit: 1 + Math.floor(random() * 8) }, { point, hit }]
  })))
}

/** Some kinds at once, killed at one or two random instants. */
export function randomTrial (random: () => number): Trial {
  const some = KINDS.filter(({ alone }) => alone).map(({ name }) => name)
  const kinds = random() < 0.08 ? pick(some, 1, random) : pick(together(), 3 + Math.floor(random() * 10), random)
  const kill = (): Kill => ({ afterMs: Math.floor(random() * random() * 1500) })
  return { kinds, kills: random() < 0.3 ? [kill()] : [kill(), kill()] }
}

function pick<T> (from: readonly T[], count: number, random: () => number): T[] {
  return from.map((value) => ({ value, order: random() })).toSorted((a, b) => a.order - b.order).slice(0, count).map(({ value }) => value)
}

const textOfKill = (kill: Kill): string => 'point' in kill ? `${kill.point}:${kill.hit}` : String(kill.afterMs)
/** The trial as arguments that make it again. */
export const textOf = ({ kinds, kills }: Trial): string => [kinds.join(','), ...kills.map(textOfKill)].join(' ')

export function trialOf ([kinds = '', ...kills]: readonly string[]): Trial {
  return {
    kinds: kinds.split(','),
    kills: kills.map((text) => {
      const [point = '', hit = '1'] = text.split(':')
      return /^\d+$/.test(text) ? { afterMs: Number(text) } : { point, hit: Number(hit) }
    })
  }
}
