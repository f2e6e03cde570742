import { expect, test } from 'vitest'
import { createPace } from '../../routes/pace.ts'

/** A pace whose turns a test makes. */
function paced () {
  const turns: (() => void)[] = []
  const pace = createPace((turn) => turns.push(turn))
  const begun: string[] = []
  const enter = (tenant: string): void => {
    const later = pace.enter(tenant)
    if (later) void later.then(() => begun.push(tenant))
    else begun.push(tenant)
  }
  const next = async (): Promise<void> => {
    turns.shift()?.()
    for (let n = 0; n < 3; n++) await Promise.resolve()
  }
  return { pace, turns, begun, enter, next }
}

test('requests of one tenant alone all begin at once', () => {
  const { enter, begun, turns } = paced()
  for (let n = 0; n < 100; n++) enter('a')
  expect([begun.length, turns.length]).toEqual([100, 0])
})

test('8.3 beside another tenant\'s, a few of a tenant begin in each turn, in their order, and the other\'s at once', async () => {
  const { enter, begun, next, turns } = paced()
  enter('b')
  for (let n = 0; n < 10; n++) enter('a')
  enter('b')
  expect(begun).toEqual(['b', 'a', 'a', 'a', 'a', 'b'])
  await next()
  expect(begun.slice(6)).toEqual(['a', 'a', 'a', 'a'])
  enter('a')
  await next()
  expect(begun.slice(10)).toEqual(['a', 'a', 'a'])
  while (turns.length > 0) await next()
  expect(begun).toHaveLength(13)
})

test('once the other tenant has left, requests begin at once again', async () => {
  const { pace, enter, begun, next, turns } = paced()
  enter('b')
  for (let n = 0; n < 6; n++) enter('a')
  pace.leave('b')
  while (turns.length > 0) await next()
  expect(begun).toHaveLength(7)
  for (let n = 0; n < 20; n++) enter('a')
  expect(begun).toHaveLength(27)
})
