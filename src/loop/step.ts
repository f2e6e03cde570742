import { setTimeout as delay } from 'node:timers/promises'
import { messageOf, outcome } from '../core/errors.ts'
import { at } from '../core/fault-point.ts'
import { foldMessages } from '../core/fold.ts'
import type { AssistantPart, Outcome, SessionEvent } from '../core/events.ts'
import type { ModelFailure, ModelReply, ModelRequest } from '../core/model.ts'
import { retryDelay } from '../core/retry.ts'
import type { Agent } from './agent.ts'

/** How a model call of a step ended. `partial`: the text that came before it was cut off. */
export type Answer = { reply: ModelReply } | { failed: Outcome, partial: string } | { aborted: true, partial: string }

/** Asks the model for the step's message; retries by the plan of core/retry.ts, each retry logged (quality.md). */
export async function askModel (agent: Agent, step: number, firstAttempt: number, signal: AbortSignal): Promise<Answer> {
  for (let tries = 1, attempt = firstAttempt; ; tries++, attempt++) {
    const started = agent.now()
    const answer = await callModel(agent, step, attempt, signal)
    const failure = 'failure' in answer ? answer.failure : undefined
    if (!('aborted' in answer)) {
      agent.onModelCall?.({ model: agent.model.id, durationMs: agent.now() - started, ...(failure ? { failure } : {}) })
    }
    if (!('failure' in answer)) return answer
    const delayMs = retryDelay({ failure: answer.failure, attempt: tries, deltas: answer.deltas }, agent.random)
    if (delayMs === undefined) return { failed: answer.failure.outcome, partial: answer.partial }
    const { code, message } = answer.failure.outcome
    agent.log.append('run/retry', { step, attempt, code, message, delayMs })
    // What it wrote is void.
    agent.deltas.end()
    at('retry/appended')
    if (!await paused(delayMs, signal)) return { aborted: true, partial: '' }
  }
}

type Call = { reply: ModelReply } | { failure: ModelFailure, partial: string, deltas: boolean } | { aborted: true, partial: string }

async function callModel (agent: Agent, step: number, attempt: number, signal: AbortSignal): Promise<Call> {
  let partial = ''
  let deltas = false
  agent.deltas.begin(step, attempt, agent.log.length - 1)
  at('model/asking')
  try {
    for await (const event of agent.model.stream(requestOf(agent), signal)) {
      switch (event.type) {
        case 'delta':
          if (!deltas) at('reply/begun')
          deltas = true
          if (event.kind === 'text') partial += event.text
          agent.deltas.push(event.kind, event.text, event.toolCallId)
          break
        case 'reply':
          at('reply/complete')
          return signal.aborted ? { aborted: true, partial } : { reply: withUniqueCalls(agent, event.reply) }
        case 'failure':
          return signal.aborted ? { aborted: true, partial } : { failure: event.failure, partial, deltas }
        default: event satisfies never
      }
    }
  } catch (error) {
    if (signal.aborted) return { aborted: true, partial }
    return { failure: { outcome: outcome('INTERNAL', `the model failed: ${messageOf(error)}`) }, partial, deltas: true }
  }
  if (signal.aborted) return { aborted: true, partial }
  return { failure: { outcome: outcome('MODEL_ERROR', 'the model stream ended without an answer', false) }, partial, deltas: true }
}

/** The next request: a pure function of the log and of what the agent was built with (driver.md 2.6). */
function requestOf (agent: Agent): ModelRequest {
  const { options } = agent
  return {
    system: agent.system,
    messages: foldMessages(agent.log),
    tools: agent.tools.definitions,
    call: callsMade(agent.log.own.slice(agent.ownFrom)),
    ...(options.maxTokens === undefined ? {} : { maxTokens: options.maxTokens }),
    ...(options.temperature === undefined ? {} : { temperature: options.temperature }),
    ...(options.providerOptions === undefined ? {} : { providerOptions: options.providerOptions }),
    ...(options.script === undefined ? {} : { script: options.script })
  }
}

/** Model calls that ended, by the log: one that a crash cut off is made again, not counted. */
const callsMade = (events: readonly SessionEvent[]): number =>
  events.filter((event) => event.type === 'run/retry' || (event.type === 'assistant/message' && isReply(event.data.stop))).length

const isReply = (stop: string): boolean => stop !== 'aborted' && stop !== 'error'

/** What stands in a URL or a log as it is, and is no id of a program's call (`<call>:code:<n>`). */
const USABLE_ID = /^(?!.*:code:)[\x21-\x7e]{1,256}$/

/** A model may repeat call ids; within a run they are unique (http-api.md 7.1), and the model reads them back as it is told. */
function withUniqueCalls (agent: Agent, reply: ModelReply): ModelReply {
  if (!reply.content.some((part) => part.type === 'tool-call')) return reply
  const taken = new Set<string>()
  for (const event of agent.log) {
    if (event.type !== 'assistant/message') continue
    for (const part of event.data.content) if (part.type === 'tool-call') taken.add(part.toolCallId)
  }
  const unique = (part: AssistantPart): AssistantPart => {
    if (part.type !== 'tool-call') return part
    // An id that no host could send back is none (http-api.md 7.1).
    const given = USABLE_ID.test(part.toolCallId) ? part.toolCallId : `call_${taken.size + 1}`
    let toolCallId = given
    for (let n = 2; taken.has(toolCallId); n++) toolCallId = `${given}_${n}`
    taken.add(toolCallId)
    return toolCallId === part.toolCallId ? part : { ...part, toolCallId }
  }
  return { ...reply, content: reply.content.map(unique) }
}

async function paused (ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(ms, undefined, { signal })
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw error
  }
}
