import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../../src/providers/claude-code/clock.ts'
import { createDeadline } from '../../../src/providers/claude-code/deadline.ts'
import { createTestClock } from '../../drive/host.ts'

test('the system\'s clock calls once the time has passed, and not where it was told not to; the longest wait is no short one', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => { vi.useRealTimers() })
  const calls: string[] = []
  const from = systemClock.now()
  systemClock.after(99.5, () => calls.push('first'))
  systemClock.after(50, () => calls.push('never'))()
  systemClock.after(2 ** 40, () => calls.push('much later'))
  systemClock.after(-5, () => calls.push('at once'))
  vi.advanceTimersByTime(99)
  expect(calls).toEqual(['at once'])
  vi.advanceTimersByTime(1)
  expect(calls).toEqual(['at once', 'first'])
  expect(systemClock.now() - from).toBe(100)
})

test('a deadline counts what was spent before it, once for all, or anew for each time at work', () => {
  const clock = createTestClock()
  const over: number[] = []
  const once = createDeadline({ clock, ms: 100, renewed: false, spent: 40, onOver: (ms) => over.push(ms) })
  once.mark(false)
  once.mark(true)
  once.mark(false)
  clock.pass(59)
  expect(over).toEqual([])
  clock.pass(1)
  expect(over).toEqual([100])
  const renewed = createDeadline({ clock, ms: 200, renewed: true, spent: 999, onOver: (ms) => over.push(ms) })
  renewed.mark(false)
  clock.pass(199)
  renewed.mark(true)
  clock.pass(1000)
  renewed.mark(false)
  clock.pass(199)
  expect(over).toEqual([100])
  clock.pass(1)
  expect(over).toEqual([100, 200])
  const none = createDeadline({ clock, ms: undefined, renewed: false, spent: 0, onOver: (ms) => over.push(ms) })
  none.mark(false)
  none.clear()
  clock.pass(1e12)
  expect(over).toEqual([100, 200])
})
