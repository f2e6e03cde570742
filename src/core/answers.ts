import { refuse } from './errors.ts'
import type { Block, SessionEvent } from './events.ts'
import { canonicalJson } from './json.ts'
import type { HostAnswer } from './live.ts'

/**
 * Judges an answer to a call that is not pending by what the log says of it: the same answer again is fine (`true`);
 * anything else throws `TOOL_CALL_NOT_PENDING` with what became of the call (http-api.md 7.2).
 */
export function isAnswered (events: readonly SessionEvent[], answer: HostAnswer): true {
  const { toolCallId } = answer
  const found = events.findLast((event) => event.type === 'tool/result' && event.data.toolCallId === toolCallId)
  const asked = events.some((event) => event.type === 'tool/call' && event.data.toolCallId === toolCallId && event.data.executor === 'host')
  if (found?.type !== 'tool/result' || !asked) throw refuse('TOOL_CALL_NOT_PENDING', { toolCallId, reason: 'unknown' })
  if (!found.data.ended && sameAnswer(found.data, answer)) return true
  const reason = found.data.ended ?? 'answered'
  throw refuse('TOOL_CALL_NOT_PENDING', { toolCallId, reason })
}

export const sameAnswer = (a: { content: Block[], isError: boolean }, b: { content: Block[], isError: boolean }): boolean =>
  a.isError === b.isError && canonicalJson(a.content) === canonicalJson(b.content)
