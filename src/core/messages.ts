import type { Block, SessionEvent } from './events.ts'

export interface QueuedMessage { messageId: string, content: Block[] }
type Queue = Map<string, QueuedMessage>

/** Messages that a run accepted and its model has not seen, in their order. Pure: read from the log, also after a restart. */
export function queuedMessages (own: readonly SessionEvent[]): QueuedMessage[] {
  const queue: Queue = new Map()
  for (const event of own) note(queue, event)
  return [...queue.values()]
}

/**
 * The same of a session whose runs begin with what those before them left: what stood when a run was made is that run's, unless
 * no turn of it began. `events`: from the beginning of a run on.
 */
export function undeliveredMessages (events: readonly SessionEvent[]): QueuedMessage[] {
  const left: Queue = new Map()
  const queue: Queue = new Map()
  for (const event of events) {
    note(queue, event)
    if (event.type === 'turn/start') left.clear()
    if (event.type !== 'run/settled') continue
    for (const [id, message] of queue) left.set(id, message)
    queue.clear()
  }
  return [...left.values(), ...queue.values()]
}

function note (queue: Queue, event: SessionEvent): void {
  if (event.type === 'run/message') queue.set(event.data.messageId, { messageId: event.data.messageId, content: event.data.content })
  if (event.type === 'user/message' && event.data.messageId !== undefined) queue.delete(event.data.messageId)
}
