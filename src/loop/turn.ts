import { outcome } from '../core/errors.ts'
import { noUsage, type Block, type EventMap, type Outcome, type SessionEvent, type TurnEndReason, type Usage } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import { canonicalJson } from '../core/json.ts'
import { SuspendReason } from '../core/live.ts'
import { queuedMessages } from '../core/messages.ts'
import { tokensOf, usageOf } from '../core/usage.ts'
import { openTurn, type OpenTurn } from '../core/turn.ts'
import { LimitReason, type Agent } from './agent.ts'
import { runCalls } from './calls.ts'
import { askModel, type Answer } from './step.ts'

export interface TurnEnd { reason: TurnEndReason, error?: Outcome }
/** What opens a turn: the task of a run, or the message that a later run of the session brings. */
export interface Opening { origin: 'task' | 'message', content: Block[] }

/**
 * One turn: read the log, ask the model, run its tools, append, until it answers without calls. Continues the turn that the
 * log holds open (driver.md 2.8), else opens one with `message`. Logs the turn's end and returns it; throws the
 * `SuspendReason` where the process ends first, and then the log stays open.
 */
export async function runTurn (agent: Agent, { origin, content }: Opening, signal: AbortSignal, onUsage: (usage: Usage) => void): Promise<TurnEnd> {
  const { log } = agent
  if (!openTurn(log.own)) {
    log.append('turn/start', { turn: log.completedTurns + 1, origin })
    log.append('user/message', { content })
  }
  noteHeader(agent)
  const turn = openTurn(log.own)?.turn ?? 1
  for (;;) {
    const end = await runSteps(agent, turn, signal, onUsage)
    if (signal.reason instanceof SuspendReason) throw signal.reason
    const open = openTurn(log.own)
    if (open?.step) log.append('step/end', { turn, step: open.step.step })
    // Looked at in the tick in which the turn ends: a message is answered, or refused, never lost.
    if (end.reason === 'completed' && isSteered(agent) && !await reachedLimit(agent, log.own.slice(agent.ownFrom))) continue
    at('turn/ending')
    log.append('turn/end', { turn, ...end })
    at('turn/ended')
    return end
  }
}

const isSteered = (agent: Agent): boolean =>
  !agent.scope?.stopsTurn() && queuedMessages(agent.log.own).length > 0

/** Steps until the turn ends; the caller logs the end. */
async function runSteps (agent: Agent, turn: number, signal: AbortSignal, onUsage: (usage: Usage) => void): Promise<TurnEnd> {
  for (;;) {
    const open = openTurn(agent.log.own)
    if (!open) throw new Error('a turn was closed from outside')
    if (open.step?.message) {
      const end = endOfMessage(open.step.message.data, signal)
      if (end) return end
      await runCalls(agent, open.calls, signal)
      if (signal.aborted) return endOf(signal)
      agent.log.append('step/end', { turn, step: open.step.step })
      continue
    }
    // Also where a restart came between the capture and the turn's end: no further model request (9.7).
    if (agent.scope?.stopsTurn()) return { reason: 'completed' }
    const end = await nextStep(agent, open, signal, onUsage)
    if (end) return end
  }
}

/** Makes one model call. Returns the turn's end where no message came of it that the log could tell more of. */
async function nextStep (agent: Agent, open: OpenTurn, signal: AbortSignal, onUsage: (usage: Usage) => void): Promise<TurnEnd | undefined> {
  if (signal.aborted) return endOf(signal)
  const { log } = agent
  const again = open.step
  if (again) log.append('step/end', { turn: open.turn, step: again.step })
  const own = log.own.slice(agent.ownFrom)
  const limit = again ? undefined : await reachedLimit(agent, own)
  if (limit) return { reason: 'error', error: outcome(limit.code, limit.message) }
  if (signal.aborted) return endOf(signal)
  const step = again?.step ?? open.steps + 1
  const attempt = again ? again.attempt + retriesOf(own) + 1 : 1
  // What an earlier run of the session accepted and ended without is not lost.
  for (const message of queuedMessages(log.own)) log.append('user/message', message)
  log.append('step/start', { turn: open.turn, step, attempt })
  at('step/started')
  const answer = await askModel(agent, step, attempt, signal)
  const end = noteAnswer(agent, answer, signal)
  at('reply/appended')
  agent.deltas.end()
  if ('reply' in answer) onUsage(usageOf(log.own.slice(agent.ownFrom)))
  return end
}

/** Logs the message. What it means for the turn is read from the log, as after a restart. */
function noteAnswer (agent: Agent, answer: Answer, signal: AbortSignal): TurnEnd | undefined {
  const model = agent.model.id
  if ('reply' in answer) {
    const { reply: { stop, content: parts, usage, model: answered } } = answer
    const content = stop === 'tool-calls' ? parts : parts.filter((part) => part.type !== 'tool-call')
    agent.log.append('assistant/message', { content, usage: { ...usage, steps: 1 }, model: answered, stop })
    return undefined
  }
  if (signal.reason instanceof SuspendReason) return endOf(signal)
  const failed = 'failed' in answer ? answer.failed : undefined
  if (answer.partial !== '') {
    const content = [{ type: 'text' as const, text: answer.partial }]
    const why = failed ? { stop: 'error' as const, error: failed } : { stop: 'aborted' as const }
    agent.log.append('assistant/message', { content, usage: noUsage(), model, ...why })
  }
  return failed ? { reason: 'error', error: failed } : endOf(signal)
}

/** How a message ends its turn; `undefined` where it asks for tools. */
function endOfMessage ({ stop, content, error }: EventMap['assistant/message'], signal: AbortSignal): TurnEnd | undefined {
  switch (stop) {
    case 'end': return { reason: 'completed' }
    case 'max-tokens': return { reason: 'max-tokens' }
    case 'refusal': return { reason: 'refusal' }
    case 'tool-calls': return content.some((part) => part.type === 'tool-call') ? undefined : { reason: 'completed' }
    case 'error': return { reason: 'error', error: error ?? outcome('MODEL_ERROR', 'the answer was cut off') }
    case 'aborted': return signal.aborted ? endOf(signal) : { reason: 'error', error: outcome('INTERRUPTED', 'the answer was cut off') }
    default: return stop satisfies never
  }
}

/** Why the signal ended the turn: a limit is an error, everything else a cancellation (driver.md 2.5). */
function endOf (signal: AbortSignal): TurnEnd {
  const reason: unknown = signal.reason
  return reason instanceof LimitReason ? { reason: 'error', error: outcome(reason.code, reason.message) } : { reason: 'aborted' }
}

async function reachedLimit (agent: Agent, own: readonly SessionEvent[]): Promise<LimitReason | undefined> {
  const { steps, totalTokens, treeTokens } = agent.limits
  const usage = usageOf(own)
  if (steps !== undefined && usage.steps >= steps) return new LimitReason('LIMIT_STEPS', 'steps', steps)
  if (totalTokens !== undefined && tokensOf(usage) >= totalTokens) return new LimitReason('LIMIT_TOKENS', 'totalTokens', totalTokens)
  if (treeTokens !== undefined && await agent.treeTokens() >= treeTokens) return new LimitReason('LIMIT_TREE', 'treeTokens', treeTokens)
  return undefined
}

/** Tries of the open step beyond the one that its last `step/start` counts. */
function retriesOf (events: readonly SessionEvent[]): number {
  const start = events.findLastIndex((event) => event.type === 'step/start')
  return events.slice(start + 1).filter((event) => event.type === 'run/retry').length
}

/** Logs what the requests carry beside the messages, first and when it changed (driver.md 2.4). */
function noteHeader (agent: Agent): void {
  const header = { system: [...agent.system], tools: [...agent.tools.definitions], model: agent.model.id }
  const own = agent.log.own.findLast((event) => event.type === 'request/header')
  const last: EventMap['request/header'] | undefined = own?.type === 'request/header' ? own.data : undefined
  if (last && canonicalJson({ ...header, reason: last.reason }) === canonicalJson(last)) return
  agent.log.append('request/header', { ...header, reason: last ? 'changed' : 'first' })
}

