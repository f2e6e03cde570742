import { addUsage, noUsage, type SessionEvent, type Usage } from './events.ts'

/** What limits on tokens count. */
export const tokensOf = (usage: Usage): number => usage.inputTokens + usage.outputTokens

/** What a run's own events say it used. */
export const usageOf = (events: readonly SessionEvent[]): Usage =>
  events.reduce((sum, event) => event.type === 'assistant/message' ? addUsage(sum, event.data.usage) : sum, noUsage())
