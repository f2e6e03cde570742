import { expect, test } from 'vitest'
import { createChatLimits, type ChatAtWork, type ChatLimits, type ChatLimitsOptions } from '../../../src/providers/claude-code/chat-limits.ts'
import { createTestClock, type TestClock } from '../../drive/host.ts'

const AT_WORK: ChatAtWork = { isIdle: false, goesOn: true, runningChildren: 0, tokens: 0 }

interface Room { limits: ChatLimits, clock: TestClock, /** What the tree was asked for so far. */ asked: () => number, reached: string[], faults: unknown[] }

function open (limits: ChatLimitsOptions['limits'], treeTokens: () => number = () => 0): Room {
  const clock = createTestClock()
  const room = { reached: [] as string[], faults: [] as unknown[] }
  let asked = 0
  return {
    ...room, clock, asked: () => asked,
    limits: createChatLimits({
      clock, limits, renewed: false, spentMs: 0, onReached: ({ code, message }) => { room.reached.push(`${code} ${message}`) }, onFault: (error) => { room.faults.push(error) },
      async treeTokens () {
        asked++
        return treeTokens()
      }
    })
  }
}
const settled = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

test('2.5 the tree is asked for when something was counted, at most once a second, and for the last of it too', async () => {
  const { limits, clock, asked, reached } = open({ treeTokens: 10 }, () => 10 * (asked() - 2))
  limits.mark(AT_WORK)
  expect(asked()).toBe(0)
  for (const tokens of [1, 2, 3]) limits.mark({ ...AT_WORK, tokens })
  expect(asked()).toBe(1)
  clock.pass(999)
  expect(asked()).toBe(1)
  clock.pass(1)
  expect(asked()).toBe(2)
  clock.pass(5000)
  limits.mark({ ...AT_WORK, tokens: 3 })
  expect(asked()).toBe(2)
  limits.mark({ ...AT_WORK, tokens: 3, runningChildren: 1 })
  expect(asked()).toBe(3)
  await settled()
  expect(reached).toEqual(['LIMIT_TREE treeTokens 10 reached'])
})

test('2.5 without treeTokens nothing is asked; what is cleared asks no more', async () => {
  const { limits, asked } = open({ totalTokens: 100 })
  expect(await limits.refusal()).toBeUndefined()
  limits.mark({ ...AT_WORK, tokens: 5 })
  expect(asked()).toBe(0)
  const cleared = open({ treeTokens: 10 })
  for (const tokens of [5, 6]) cleared.limits.mark({ ...AT_WORK, tokens })
  cleared.limits.clear()
  cleared.clock.pass(5000)
  expect(cleared.asked()).toBe(1)
})

test('2.5 a tree that is used up ends no answer: it ends what goes on after it', async () => {
  const { limits, reached } = open({ treeTokens: 10 }, () => 10)
  limits.mark({ ...AT_WORK, goesOn: false, tokens: 10 })
  await settled()
  limits.mark({ ...AT_WORK, goesOn: false, isIdle: true, tokens: 10 })
  expect(reached).toEqual([])
  limits.mark({ ...AT_WORK, tokens: 10 })
  expect(reached).toEqual(['LIMIT_TREE treeTokens 10 reached'])
})

test('a store that does not answer is a fault that is told, not an end', async () => {
  const { limits, faults, reached } = open({ treeTokens: 10 }, () => { throw new Error('lost') })
  limits.mark({ ...AT_WORK, tokens: 5 })
  await settled()
  expect([faults, reached]).toEqual([[new Error('lost')], []])
})
