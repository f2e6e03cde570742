import { isAnswered } from '../core/answers.ts'
import { refuse } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import type { LiveRun } from '../core/live.ts'
import type { Caller, Key, RunView, ToolAnswer } from './api.ts'
import { findRun, leftToNextStart, viewOf, type RunsContext } from './context.ts'
import { createOnce } from './once.ts'

export interface Answered { run: RunView, replayed: boolean }
type AnswerTools = (caller: Caller, id: string, answers: ToolAnswer[], key?: Key) => Promise<Answered>

/** Takes answers to pending host calls, all or nothing; durable when it resolves (http-api.md 7.2, 2.4). */
export function createAnswerTools (context: RunsContext): AnswerTools {
  const once = createOnce<boolean>()
  return async (caller, id, answers, key) => {
    await findRun(context, caller, id)
    const route = `POST /v1/runs/${id}/tool-results`
    const work = async (): Promise<boolean> => {
      const known = key && await context.store.findIdempotency(caller.tenant, route, key.key)
      if (known && known.bodyHash !== key.bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
      if (!known) await answer(context, caller, id, answers, key && { route, ...key })
      return known !== undefined
    }
    const done = key ? await once(JSON.stringify([caller.tenant, route]), key, work) : { value: await work(), shared: false }
    return { run: await viewOf(context, await findRun(context, caller, id)), replayed: done.shared || done.value }
  }
}

type RouteKey = Key & { route: string }

/** Hands the answers to the run that waits for them, or judges them by the log of one that does not. */
async function answer (context: RunsContext, caller: Caller, id: string, answers: ToolAnswer[], key?: RouteKey): Promise<void> {
  const live = context.registry.live(caller.tenant, id)
  const record = await findRun(context, caller, id)
  if (live) {
    await restored(live)
    if (isSuspended(live, answers)) throw leftToNextStart(context)
    live.hostCalls.answer(answers)
  } else {
    if (record.status !== 'settled') throw leftToNextStart(context)
    const events = await context.store.readEvents(record.segment, record.firstSeq)
    for (const each of answers) isAnswered(events, each)
  }
  // In the tick of the answers: they and the key share a commit.
  const idempotency = key && { tenant: caller.tenant, subject: id, ...key }
  const bound = idempotency && context.store.append({ segment: record.segment, events: [], idempotency })
  await Promise.all([live?.log.durable(), bound])
  at('answer/durable')
}

/** After a restart the calls that wait are registered once the run's turn is under way. */
async function restored ({ projection, hostCalls, underway }: LiveRun): Promise<void> {
  if (projection.record.pendingToolCalls.length > hostCalls.pending().length) await underway
}

/** A call that the row lists and nobody waits for: the process stops, and the next one waits again. */
function isSuspended ({ projection, hostCalls }: LiveRun, answers: readonly ToolAnswer[]): boolean {
  const waiting = new Set(hostCalls.pending().map((call) => call.toolCallId))
  const open = new Set(projection.record.pendingToolCalls.map((call) => call.toolCallId))
  return answers.some(({ toolCallId }) => open.has(toolCallId) && !waiting.has(toolCallId))
}
