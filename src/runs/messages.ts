import { refuse } from '../core/errors.ts'
import type { Block } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { Caller, Key, RunView } from './api.ts'
import { checkQuota, findRun, leftToNextStart, mayUse, viewOf, type RunsContext } from './context.ts'
import { createOnce } from './once.ts'
import { rememberAncestors } from './parents.ts'
import { createStarting } from './starting.ts'

export type Sent = { messageId: string, replayed: boolean } | { run: RunView, replayed: boolean }
/** `interrupt`: as `steer`, but the open turn is interrupted for it. */
export type MessageMode = 'steer' | 'follow-up' | 'interrupt'
export interface MessageInput { content: Block[], mode: MessageMode }
type SendMessage = (caller: Caller, id: string, input: MessageInput, options: { signal: AbortSignal, key?: Key }) => Promise<Sent>
type RouteKey = Key & { route: string }

/** Steers a run under way, or goes on with a settled one's session in a new run (http-api.md 7.3). */
export function createSendMessage (context: RunsContext): SendMessage {
  const once = createOnce<Sent>()
  return async (caller, id, input, { signal, key }) => {
    const route = `POST /v1/runs/${id}/messages`
    const send = async (bound?: RouteKey): Promise<Sent> => input.mode === 'follow-up'
      ? { run: await followUp(context, caller, id, input.content, signal, bound), replayed: false }
      : await steer(context, caller, id, input, bound)
    if (!key) return await send()
    const work = async (): Promise<Sent> => await replay(context, caller, { ...key, route }, input) ?? await send({ ...key, route })
    const { value, shared } = await once(JSON.stringify([caller.tenant, route]), key, work)
    return shared ? { ...value, replayed: true } : value
  }
}

/** What the key made before: a message, or a run. */
async function replay (context: RunsContext, caller: Caller, { route, key, bodyHash }: RouteKey, { mode }: MessageInput): Promise<Sent | undefined> {
  const known = await context.store.findIdempotency(caller.tenant, route, key)
  if (!known) return undefined
  if (known.bodyHash !== bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
  if (mode !== 'follow-up') return { messageId: known.subject, replayed: true }
  const record = await context.store.getRun(caller.tenant, known.subject)
  return record && { run: await viewOf(context, record), replayed: true }
}

/** Hands a message to the run's next step. Throws `RUN_SETTLED` once no step follows. */
async function steer (context: RunsContext, caller: Caller, id: string, { content, mode }: MessageInput, key?: RouteKey): Promise<Sent> {
  const record = await findRun(context, caller, id)
  const live = context.registry.live(caller.tenant, id)
  if (!live) throw record.status === 'settled' ? refuse('RUN_SETTLED', { id }) : leftToNextStart(context)
  if (mode === 'interrupt' && !live.acceptNow) throw refuse('UNSUPPORTED_CAPABILITY', { name: record.provider, capability: 'interrupt' })
  const messageId = mode === 'interrupt' && live.acceptNow ? live.acceptNow(content) : live.accept(content, 'host')
  at('message/accepted')
  // In the tick of the message: it and the key share a commit.
  const idempotency = key && { tenant: caller.tenant, subject: messageId, ...key }
  await Promise.all([
    live.log.durable(),
    idempotency && context.store.append({ segment: record.segment, events: [], idempotency })
  ])
  at('message/durable')
  return { messageId, replayed: false }
}

/** Throws `SESSION_CONFLICT` while a run of the session is open: one wins, the other is told. */
async function followUp (context: RunsContext, caller: Caller, id: string, content: Block[], signal: AbortSignal, key?: RouteKey): Promise<RunView> {
  const previous = await findRun(context, caller, id)
  if (previous.status !== 'settled') {
    throw refuse('SESSION_CONFLICT', { detail: `run "${id}" is not settled: steer it, or wait for its result` })
  }
  const spec = await context.store.getSpec(caller.tenant, id)
  const provider = context.providers.get(previous.provider)
  if (!spec || !provider) throw refuse('NO_PROVIDER', { name: previous.provider })
  if (!provider.followUp) throw refuse('UNSUPPORTED_CAPABILITY', { name: previous.provider, capability: 'follow-up' })
  if (!mayUse(caller, spec.model)) throw refuse('MODEL_FORBIDDEN', { model: spec.model })
  if (!context.accepting()) throw refuse('SHUTTING_DOWN', { retryAfter: 5 })
  const start = createStarting(caller.tenant, context.newId(), previous.parentRunId === null ? undefined : { runId: previous.parentRunId }, signal)
  context.registry.begin(start)
  try {
    checkQuota(context, caller)
    if (previous.parentRunId !== null) {
      context.registry.join(start, previous.rootId)
      await rememberAncestors(context, caller.tenant, previous.parentRunId)
    }
    const run = await provider.followUp({ previous, spec, id: start.id, content, signal: start.signal, ...(key ? { idempotency: key } : {}) })
    await context.store.durable()
    at('follow-up/durable')
    return await viewOf(context, await findRun(context, caller, run.id))
  } finally {
    start.end()
    context.registry.end(start)
  }
}
