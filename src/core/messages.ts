import type { Block, SessionEvent } from './events.ts'

export interface QueuedMessage { messageId: string, content: Block[] }

/** Messages that a run accepted and its model has not seen, in their order. Pure: read from the log, also after a restart. */
export function queuedMessages (own: readonly SessionEvent[]): QueuedMessage[] {
  const queued = new Map<string, QueuedMessage>()
  for (const event of own) {
    if (event.type === 'run/message') queued.set(event.data.messageId, { messageId: event.data.messageId, content: event.data.content })
    if (event.type === 'user/message' && event.data.messageId !== undefined) queued.delete(event.data.messageId)
  }
  return [...queued.values()]
}
