import { expect, test } from 'vitest'
import { text, type SessionEvent } from '../../src/core/events.ts'
import { undeliveredMessages } from '../../src/core/messages.ts'

const said = (id: string): object => ({ type: 'run/message', data: { messageId: id, content: [text(id)], from: 'host' } })
const heard = (messageId?: string): object => ({ type: 'user/message', data: { content: [text('x')], ...(messageId === undefined ? {} : { messageId }) } })
const begun = { type: 'turn/start', data: { turn: 1, origin: 'task' } }
const settled = { type: 'run/settled', data: {} }
const left = (...events: object[]): string[] => undeliveredMessages(events as SessionEvent[]).map(({ messageId }) => messageId)

test.each<[string, object[], string[]]>([
  ['none', [], []],
  ['what one run was not given is left', [begun, heard(), said('a'), said('b'), heard('a'), settled], ['b']],
  ['what the next run began with is not', [begun, said('a'), settled, begun, heard(), settled], []],
  ['its own are, in their order', [begun, said('a'), settled, begun, said('b'), said('c'), settled], ['b', 'c']],
  ['what stood before a run that never began is', [begun, said('a'), settled, said('b'), settled], ['a', 'b']],
  ['until one begins', [begun, said('a'), settled, said('b'), settled, begun, said('c'), settled], ['c']],
  ['what was said to a run that waits for its turn is its own', [begun, said('a'), settled, said('b'), begun, settled], ['b']]
])('messages of a session that no run of it was given: %s', (_, events, ids) => {
  expect(left(...events)).toEqual(ids)
})
