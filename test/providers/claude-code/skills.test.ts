import { expect, test } from 'vitest'
import { assistant, init, lifecycle, play, result, taskStart, toolUse } from './play.ts'

const call = assistant(toolUse('s-1', 'Skill', { skill: 'probe' }))
const turn = (n: number) => [lifecycle(`u-${n}`, 'queued'), lifecycle(`u-${n}`, 'started')]

test('B2, B3 a Skill call is its turn\'s: a task that names it after the turn\'s end makes no child', () => {
  const within = play('drive', init(), ...turn(1), call, taskStart('t-1', { tool_use_id: 's-1' }))
  expect(within.of('child/started')).toMatchObject([{ externalId: 's-1', label: 'Agent: /probe' }])
  const chat = play('drive', init(), ...turn(1), call, result(), ...turn(2))
  expect(chat.of('turn/ended')).toHaveLength(1)
  chat.feed(taskStart('t-1', { tool_use_id: 's-1' }), result())
  expect(chat.of('child/started')).toEqual([])
})
