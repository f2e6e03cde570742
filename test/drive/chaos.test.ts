import { expect, test } from 'vitest'
import type { Step } from '../support/fake-claude.ts'
import { isAlive } from '../support/fake-claude.ts'
import { agentCall, assistant, fork, lifecycle, notified, result, streamed, taskStart, toolResult, toolUse, userText, words } from '../providers/claude-code/play.ts'
import { opens, pidsOf, startDrive, type Drive } from './host.ts'

/** The same numbers for the same seed. */
function createDice (seed: number): (sides: number) => number {
  let state = seed
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor(state / 2 ** 32 * sides)
  }
}

const STEPS: readonly ((n: string) => Step)[] = [
  (n) => ({ emit: [agentCall(`a-${n}`), taskStart(`t-${n}`, { tool_use_id: `a-${n}` })] }),
  (n) => ({ emit: agentCall(`a-${n}`, { run_in_background: true }) }),
  (n) => ({ emit: [fork(`f-${n}`), userText('Fan out.\n', 'forked-command-fan')] }),
  (n) => ({ emit: [notified(`t-${n}`, 'completed'), notified(`f-${n}`, 'failed'), toolResult(`a-${n}`, 'x')] }),
  (n) => ({ emit: assistant(words('in a child'), { tag: `a-${n}` }) }),
  (n) => ({ emit: assistant(toolUse(`b-${n}`, 'Bash')) }),
  () => ({ emit: streamed('m', 'some words') }),
  () => ({ emit: result() }),
  () => ({ emit: { type: 'result' } }),
  (n) => ({ emit: lifecycle(`{{user:${n}}}`, 'started') }),
  (n) => ({ emit: lifecycle(`{{user:${n}}}`, 'cancelled') }),
  () => ({ emit: { type: 'control_request', request_id: 'q', request: { subtype: 'can_use_tool', tool_name: 'Bash' } } }),
  () => ({ emit: { type: 'control_response', response: { subtype: 'success', request_id: '{{request:1}}', response: { still_queued: [] } } } }),
  () => ({ write: '{"type":"torn\n\n' }),
  () => ({ delay: 5 }),
  () => ({ delay: 25 })
]
const ENDS: readonly Step[] = [{ silent: true }, { exit: 0 }, { exit: 1 }, { kill: 'SIGKILL' }]

async function act (drive: Drive, id: string, dice: (sides: number) => number): Promise<void> {
  switch (dice(5)) {
    case 0: await drive.say(id, `message ${dice(100)}`); return
    case 1: await drive.say(id, 'stop that', { mode: 'interrupt' }); return
    case 2: drive.clock.pass(dice(4000)); return
    case 3: {
      const children = await drive.children(id)
      const child = children[dice(Math.max(1, children.length))]
      if (child) await drive.cancel(child.id)
      return
    }
    default: for (let looks = dice(12); looks > 0; looks--) await drive.run(id)
  }
}

const SEEDS = (process.env['CHAOS_SEEDS'] ?? '1,2,3,4,5,6').split(',').map(Number)

test.concurrent.for(SEEDS)('whatever the CLI says and the host does, in any order: all settles, nothing runs on, every line is kept (seed %i)', async (seed, { onTestFinished }) => {
  const dice = createDice(seed)
  const steps = Array.from({ length: 5 + dice(25) }, () => STEPS[dice(STEPS.length)]?.(String(1 + dice(4))) as Step)
  const drive = await startDrive(onTestFinished, { settings: { graceMs: 40 }, script: [...opens(1), ...steps, ENDS[dice(ENDS.length)] as Step] })
  const id = await drive.start({ keepOpen: dice(2) === 0, task: dice(2) === 0 ? '/fan' : 'go' })
  await drive.journaled(id, 4)
  for (let n = dice(12); n > 0; n--) await act(drive, id, dice)
  await drive.cancel(id)
  for (let n = 0; n < 200 && (await drive.run(id)).status !== 'settled'; n++) drive.clock.pass(500)
  const run = await drive.until(id, 'settled')
  expect(run).toMatchObject({ runningChildren: 0, status: 'settled' })
  for (const child of await drive.children(id)) expect(child).toMatchObject({ status: 'settled', runningChildren: 0 })
  expect(drive.app.registry.liveRuns()).toEqual([])
  expect(pidsOf(drive.cli).filter(isAlive)).toEqual([])
  const { body: { events } } = await drive.call('GET', `/v1/runs/${id}/events?tree=true&limit=500`)
  const ends = (type: string): number => (events as { type: string }[]).filter((event) => event.type === type).length
  expect(ends('turn/start')).toBe(ends('turn/end'))
  expect(ends('subagent/start')).toBe(ends('subagent/end'))
  expect(ends('tool/call')).toBe(ends('tool/result'))
  const asked = (events as { type: string, runId: string, data: { messageId?: string } }[]).filter(({ type, runId, data }) => type === 'user/message' && runId === id && data.messageId !== undefined)
  expect(new Set(asked.map(({ data }) => data.messageId)).size).toBe(asked.length)
})
