import type { LiveRun } from '../core/live.ts'
import { isAnswered } from '../core/answers.ts'
import type { Caller, RunView, ToolAnswer } from './api.ts'
import { findRun, viewOf, type RunsContext } from './context.ts'

/** Answers pending host calls, all or nothing; durable when it resolves (http-api.md 7.2). */
export async function answerTools (context: RunsContext, caller: Caller, id: string, answers: ToolAnswer[]): Promise<RunView> {
  const record = await findRun(context, caller, id)
  const live = context.registry.live(caller.tenant, id)
  if (live) {
    await restored(live)
    live.hostCalls.answer(answers)
    await live.log.durable()
  } else {
    const events = await context.store.readEvents(record.segment, record.firstSeq)
    for (const answer of answers) isAnswered(events, answer)
  }
  return await viewOf(context, await findRun(context, caller, id))
}

/** After a restart the calls that wait are registered once the run's turn is under way. */
async function restored ({ projection, hostCalls, underway }: LiveRun): Promise<void> {
  if (projection.record.pendingToolCalls.length > hostCalls.pending().length) await underway
}
