import { channel } from 'node:diagnostics_channel'
import { expect, test } from 'vitest'
import { FAULT_POINTS } from '../../src/core/fault-point.ts'
import { KINDS } from './kinds.ts'
import { allPoints, randomOf, randomTrial, textOf, trialOf } from './plan.ts'
import { runTrial, type Trial } from './trial.ts'

/** A short run of `npm run soak -- crash`: each kill is a SIGKILL of the real service, each trial ends with every check on what is left. */
const POINTS = [
  'tree child/published', 'background child/settled', 'tools,host tool/ran:2', 'cancel,structured cancel/durable', 'fork,steered commit/committed:12',
  'shutdown service/drained'
]
const RANDOM = 4
/** So many at once: a trial mostly waits for processes to start. */
const AT_ONCE = 3

test('what was acknowledged survives SIGKILL at any instant, once and the same for every reader', { timeout: 90_000 }, async () => {
  const random = randomOf(2026)
  const instants = Array.from({ length: RANDOM }, (): Trial => {
    const { kinds } = randomTrial(random)
    return { kinds: kinds.filter((name) => name !== 'mcp').slice(0, 3), kills: [{ afterMs: Math.floor(random() * 120) }] }
  })
  const left = [...POINTS.map((text) => trialOf(text.split(' '))), ...instants]
  const failed: string[] = []
  let kills = 0
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let trial = left.shift(); trial; trial = left.shift()) {
      const { violations, killed } = await runTrial(trial)
      kills += killed
      if (violations.length > 0) failed.push(`${textOf(trial)}: ${violations.join('; ')}`)
    }
  }))
  expect(failed).toEqual([])
  // A point is always come to; an instant may come after a fast machine was done.
  expect(kills).toBeGreaterThanOrEqual(POINTS.length)
})

test('nobody listens to fault points but the harness, and no two kinds of use share a name', () => {
  expect(channel(FAULT_POINTS).hasSubscribers).toBe(false)
  expect(allPoints().length).toBeGreaterThan(45)
  expect(new Set(KINDS.map(({ name }) => name)).size).toBe(KINDS.length)
})
