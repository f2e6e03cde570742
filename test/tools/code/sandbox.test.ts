import { expect, test } from 'vitest'
import type { SubCall } from '../../../src/tools/code/run-code.ts'
import { openRoom, SHORT, value } from './room.ts'

/** A tool that answers when it is let go. */
function gate () {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  return { open: () => resolve(undefined), tool: async () => { await promise; return value(1) } }
}
const until = async (holds: () => boolean): Promise<void> => { while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1)) }
const called = (calls: readonly SubCall[], count: number): Promise<void> => until(() => calls.length >= count)

test('threads start when a program needs one, serve one program after the other, and end when idle', async ({ onTestFinished }) => {
  const { sandbox, say } = openRoom(onTestFinished, {}, { idleMs: 20 })
  expect(sandbox.size).toBe(0)
  for (let i = 0; i < 5; i++) expect(await say(`return ${i}`)).toBe(`${i}`)
  expect(sandbox.size).toBe(1)
  await until(() => sandbox.size === 0)
  expect(await say('return 6')).toBe('6')
})

test('programs run beside each other: one that spins holds up neither another nor the service', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { begun: () => value(1) })
  const controller = new AbortController()
  let ended = false
  const spinning = say('await tools.begun(); for (;;);', { signal: controller.signal }).finally(() => { ended = true })
  await called(calls, 1)
  let ticks = 0
  const ticking = setInterval(() => ticks++, 1)
  expect(await say('return 1')).toBe('1')
  clearInterval(ticking)
  expect(ended).toBe(false)
  expect(ticks).toBeGreaterThan(5)
  controller.abort()
  expect(await spinning).toContain('(aborted)')
})

test('a thread whose program took much memory is not kept', async ({ onTestFinished }) => {
  const { say, sandbox } = openRoom(onTestFinished)
  expect(await say('return new ArrayBuffer(4e7).byteLength')).toBe('40000000')
  await until(() => sandbox.size === 0)
  expect(await say('return 1')).toBe('1')
})

test('a program that waits for its tools takes no turn from others', async ({ onTestFinished }) => {
  const { open, tool } = gate()
  const { say, calls, sandbox } = openRoom(onTestFinished, { slow: tool }, { executing: 1, threads: 3 })
  const waiting = [say('return await tools.slow()'), say('return await tools.slow()')]
  await called(calls, 2)
  expect(await say('return "between"')).toBe('"between"')
  expect(sandbox.size).toBe(3)
  open()
  expect(await Promise.all(waiting)).toEqual(['1', '1'])
})

test('where every thread waits a program is refused in time, and never hangs', async ({ onTestFinished }) => {
  const { open, tool } = gate()
  const { say, calls } = openRoom(onTestFinished, { slow: tool }, { threads: 1, queueMs: 30 })
  const waiting = say('return await tools.slow()')
  await called(calls, 1)
  expect(await say('return 1')).toBe('Error: code run failed (busy): no sandbox became free within 30 ms')
  const controller = new AbortController()
  const queued = say('return 1', { signal: controller.signal })
  controller.abort()
  expect(await queued).toContain('(aborted)')
  open()
  expect(await waiting).toBe('1')
})

test('a tenant with many programs does not keep another from its turn', async ({ onTestFinished }) => {
  const gates = Array.from({ length: 3 }, gate)
  const slow = gates.map(({ tool }) => tool)
  const { say, calls } = openRoom(onTestFinished, { slow: (_, call) => (slow[calls.indexOf(call)] ?? gate().tool)() }, { threads: 2 })
  const many = [say('return await tools.slow()', { tenant: 'a' }), say('return await tools.slow()', { tenant: 'a' })]
  await called(calls, 2)
  const order: string[] = []
  const later = ['a', 'b'].map((tenant) => say('return 1', { tenant }).then(() => order.push(tenant)))
  gates[0]?.open()
  await Promise.all(later)
  expect(order[0]).toBe('b')
  gates[1]?.open()
  await Promise.all(many)
})

test('a killed thread is replaced', async ({ onTestFinished }) => {
  const { say, sandbox } = openRoom(onTestFinished, {}, { ...SHORT, threads: 1 })
  const killed = say('"a".repeat(2e7).indexOf("a".repeat(1e7) + "b")')
  const next = say('return "next"')
  expect(await killed).toContain('(timeout)')
  expect(await next).toBe('"next"')
  expect(sandbox.size).toBe(1)
})

test('an aborted program that nothing interrupts is killed', async ({ onTestFinished }) => {
  const { say, calls, sandbox } = openRoom(onTestFinished, { begun: () => value(1) }, { threads: 1 })
  const controller = new AbortController()
  const said = say('await tools.begun(); "a".repeat(2e7).indexOf("a".repeat(1e7) + "b")', { signal: controller.signal })
  await called(calls, 1)
  controller.abort()
  expect(await said).toContain('(aborted)')
  expect(await say('return 1')).toBe('1')
  expect(sandbox.size).toBe(1)
})

test('close ends every program, waits for every thread, and refuses what comes later', async ({ onTestFinished }) => {
  const { open, tool } = gate()
  const { say, calls, sandbox } = openRoom(onTestFinished, { slow: tool }, { threads: 2 })
  const running = [say('await tools.slow()'), say('await tools.slow(); for (;;);')]
  await called(calls, 2)
  const queued = say('return 1')
  open()
  await sandbox.close()
  expect(sandbox.size).toBe(0)
  for (const said of [...running, queued, say('return 1')]) expect(await said).toContain('code run failed (aborted): ')
  await sandbox.close()
})
