import fc from 'fast-check'
import { expect, test } from 'vitest'
import { text, type EventMap, type SessionHeader } from '../../src/core/events.ts'
import { SessionLog, type SessionLogOptions } from '../../src/core/log.ts'
import { balancedLogs } from './histories.ts'

const header: SessionHeader = { id: 's', tenant: 't', createdAt: 0 }
const message = (value: string): EventMap['user/message'] => ({ content: [text(value)] })
const logOf = (options: Partial<SessionLogOptions> = {}): SessionLog =>
  new SessionLog({ header, commit: async () => {}, now: () => 42, onObserverFault: (error) => { throw error }, ...options })
const settle = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

test('a log that keeps only its end tells the same of itself as one that keeps all, and never a wrong event', async () => {
  await fc.assert(fc.asyncProperty(balancedLogs, fc.integer({ min: 1, max: 6 }), fc.array(fc.nat(8), { maxLength: 20 }), async (events, keep, pauses) => {
    const whole = logOf()
    const log = logOf({ keep })
    for (const [i, { type, data }] of events.entries()) {
      for (const each of [whole, log]) each.append(type, data as never)
      if (pauses.includes(i % 9)) await log.durable()
      expect([log.length, log.completedLength, log.completedTurns]).toEqual([whole.length, whole.completedLength, whole.completedTurns])
    }
    await Promise.all([whole.durable(), log.durable()])
    expect([log.length, log.completedLength, log.completedTurns]).toEqual([whole.length, whole.completedLength, whole.completedTurns])
    expect(log.own.length).toBeLessThanOrEqual(2 * keep)
    const first = log.length - log.own.length
    for (let seq = 0; seq <= log.length; seq++) expect(log.committedFrom(seq, 3)).toEqual(seq < first ? undefined : whole.committedFrom(seq, 3))
    if (first > 0) expect(() => [...log]).toThrow('not in memory')
    else expect([...log]).toEqual([...whole])
  }), { numRuns: 60 })
})

test('a log that keeps only its end forgets nothing that is not committed, and goes on after what the store holds already', async () => {
  const commits: (() => void)[] = []
  const commit = (): Promise<void> => new Promise((resolve) => { commits.push(resolve) })
  const log = logOf({ keep: 2, stored: { length: 10, completedLength: 8, turns: 3 }, commit })
  expect([log.length, log.completedLength, log.completedTurns]).toEqual([10, 8, 3])
  for (let i = 0; i < 8; i++) expect(log.append('user/message', message(`${i}`)).seq).toBe(10 + i)
  await settle()
  expect([log.own.length, log.committedFrom(10, 9), log.committedFrom(9, 9)]).toEqual([8, [], undefined])
  log.append('turn/end', { turn: 4, reason: 'completed' })
  await settle()
  commits[0]?.()
  await settle()
  expect(log.own.map(({ seq }) => seq)).toEqual([16, 17, 18])
  expect(log.committedFrom(16, 9)?.map(({ seq }) => seq)).toEqual([16, 17])
  expect([log.length, log.completedLength, log.completedTurns]).toEqual([19, 19, 4])
  commits[1]?.()
  await log.durable()
  expect([log.length, log.completedLength, log.completedTurns]).toEqual([19, 19, 4])
})
