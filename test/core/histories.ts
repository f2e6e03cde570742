import fc from 'fast-check'
import { noUsage, text, type AssistantPart, type NewEvent, type SessionEvent, type TurnEndReason } from '../../src/core/events.ts'

/** What a turn did, step by step: a plan that any loop obeying driver.md §2 could have logged. */
export interface StepPlan {
  says: string
  /** One tool call each; ids may repeat within a message. */
  calls: string[]
  /** Sort keys: in what order the results arrive. */
  arrival: number[]
  /** False: the model call failed, the step closes without a message. */
  answered: boolean
  /** A message that the host steered in after the step. */
  steered: boolean
  /** A retry that the service noted before the model answered. */
  retried: boolean
}
export interface TurnPlan { users: string[], steps: StepPlan[], reason: TurnEndReason }

const step: fc.Arbitrary<StepPlan> = fc.record({
  says: fc.string({ maxLength: 6 }),
  calls: fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 4 }),
  arrival: fc.array(fc.nat(9), { minLength: 4, maxLength: 4 }),
  answered: fc.boolean(),
  steered: fc.boolean(),
  retried: fc.boolean()
})

const turn: fc.Arbitrary<TurnPlan> = fc.record({
  users: fc.array(fc.string({ minLength: 1, maxLength: 6 }), { minLength: 0, maxLength: 2 }),
  steps: fc.array(step, { maxLength: 4 }),
  reason: fc.constantFrom<TurnEndReason>('completed', 'max-tokens', 'aborted', 'refusal', 'error', 'interrupted')
})

/** The events of the plans, each turn closed. */
export function play (plans: readonly TurnPlan[]): SessionEvent[] {
  return numbered(plans.flatMap(turnEvents))
}

/** Gives new events their place in a log that starts at `seq`. */
export const numbered = (events: readonly NewEvent[], seq = 0): SessionEvent[] =>
  events.map((event, i) => ({ ...event, seq: seq + i, time: 1_000 + seq + i }) as SessionEvent)

function turnEvents (plan: TurnPlan, index: number): NewEvent[] {
  const turn = index + 1
  return [
    { type: 'turn/start', data: { turn, origin: plan.users.length > 0 ? 'task' : 'service' } },
    ...plan.users.map(user),
    ...plan.steps.flatMap((step, i) => stepEvents(turn, i + 1, step)),
    { type: 'turn/end', data: { turn, reason: plan.reason } }
  ]
}

function stepEvents (turn: number, step: number, plan: StepPlan): NewEvent[] {
  const retry: NewEvent = { type: 'run/retry', data: { step, attempt: 1, code: 'MODEL_ERROR', message: '503', delayMs: 5 } }
  return [
    { type: 'step/start', data: { turn, step, attempt: 1 } },
    ...plan.retried ? [retry] : [],
    ...plan.answered ? answer(plan) : [],
    { type: 'step/end', data: { turn, step } },
    ...plan.steered ? [user(`steer ${step}`)] : []
  ]
}

function answer ({ says, calls, arrival }: StepPlan): NewEvent[] {
  const results = calls.map((id, i): NewEvent => result(id, `result ${i}`))
  return [
    assistant(says, calls),
    ...calls.map((id): NewEvent => call(id)),
    ...calls.slice(0, 1).map((toolCallId): NewEvent => ({ type: 'tool/progress', data: { toolCallId, progress: 0.5, total: 1, message: 'half' } })),
    ...results.map((event, i) => ({ event, at: arrival[i] ?? 0 })).toSorted((a, b) => a.at - b.at).map(({ event }) => event)
  ]
}

export const user = (content: string): NewEvent => ({ type: 'user/message', data: { content: [text(content)] } })
export const call = (toolCallId: string): NewEvent =>
  ({ type: 'tool/call', data: { toolCallId, name: 'look', input: {}, executor: 'service', idempotent: false } })
export const result = (toolCallId: string, content: string): NewEvent =>
  ({ type: 'tool/result', data: { toolCallId, name: 'look', content: [text(content)], isError: false } })

/** A message of the model; no words and no calls give one without content. */
export function assistant (says: string, calls: readonly string[] = []): NewEvent {
  const content: AssistantPart[] = says === '' ? [] : [{ type: 'text', text: says }]
  for (const toolCallId of calls) content.push({ type: 'tool-call', toolCallId, name: 'look', arguments: '{}' })
  return { type: 'assistant/message', data: { content, usage: noUsage(), model: 'scripted/demo', stop: calls.length > 0 ? 'tool-calls' : 'end' } }
}

export const turns: fc.Arbitrary<TurnPlan[]> = fc.array(turn, { maxLength: 4 })
/** A log whose every turn is closed. */
export const balancedLogs: fc.Arbitrary<SessionEvent[]> = turns.map(play)
/** A log as a crash leaves it: cut anywhere. */
export const crashedLogs: fc.Arbitrary<SessionEvent[]> =
  fc.tuple(balancedLogs, fc.nat()).map(([log, cut]) => log.slice(0, cut % (log.length + 1)))
