import { refuse } from '../core/errors.ts'
import type { NewEvent } from '../core/events.ts'
import { depthOf } from '../core/depth.ts'
import type { SessionRecord } from '../core/run.ts'
import type { RawTranscript, TranscriptFormat } from '../core/transcript.ts'
import type { Caller, Key } from './api.ts'
import { cancelSessionRuns } from './cancel.ts'
import { kindOf, type RunsContext } from './context.ts'

const CREATE = 'POST /v1/sessions'
export interface SessionInput { transcript?: RawTranscript, model?: string, delegationDepth?: unknown, cwd?: string, metadata: Record<string, string> }
interface Answer { session: SessionRecord, replayed: boolean }

/** Keeps a host's own session, so that forks need no re-upload (http-api.md §1). */
export async function createSession (context: RunsContext, caller: Caller, input: SessionInput, key?: Key): Promise<Answer> {
  const replayed = key && await replay(context, caller, CREATE, key)
  if (replayed) return replayed
  depthOf({ stored: input.delegationDepth })
  const model = input.model === undefined ? null : context.models.resolve(input.model, kindOf(input.transcript?.format ?? null))
  const imported = input.transcript && context.importTranscript(input.transcript, { pointer: '/transcript' })
  const header: NewEvent[] = imported && imported.events.length === 0 && (imported.system.length > 0 || imported.tools.length > 0)
    ? [{ type: 'request/header', data: { system: imported.system, tools: imported.tools, model: null, reason: 'transcript' } }]
    : []
  const id = context.newId()
  const session = await context.store.createSession({
    header: {
      id, tenant: caller.tenant, createdAt: context.now(),
      ...(input.delegationDepth === undefined ? {} : { delegationDepth: input.delegationDepth }),
      ...(input.cwd === undefined ? {} : { cwd: input.cwd })
    },
    events: [...header, ...imported?.events ?? []],
    tail: imported?.tail ?? [],
    length: input.transcript?.messages.length ?? 0,
    model: model?.id ?? null,
    format: input.transcript?.format ?? (model?.kind === 'anthropic' ? 'anthropic' : 'openai-chat'),
    metadata: input.metadata
  }, key && { route: CREATE, ...key })
  return { session, replayed: false }
}

export async function getSession ({ store }: RunsContext, { tenant }: Caller, id: string): Promise<SessionRecord> {
  const session = await store.getSession(tenant, id)
  if (!session) throw refuse('SESSION_NOT_FOUND', { id })
  return session
}

/** Appends a host's later messages: they may complete turns that were open (http-api.md §1). */
export async function appendSession (context: RunsContext, caller: Caller, id: string, after: number, messages: string[], key?: Key): Promise<Answer> {
  const route = `POST /v1/sessions/${id}/messages`
  const replayed = key && await replay(context, caller, route, key)
  if (replayed) return replayed
  const session = await getSession(context, caller, id)
  if (!session.registered) throw refuse('SESSION_CONFLICT', { detail: `session "${id}" belongs to a run: only its runs append to it`, length: session.length })
  if (session.length !== after) throw conflict(session, after)
  const format = session.format as TranscriptFormat
  const { events, tail, system } = context.importTranscript({ format, messages: [...session.tail, ...messages] }, { firstTurn: session.turns + 1, pointer: '', known: session.tail.length })
  if (system.length > 0) throw refuse('TRANSCRIPT_INVALID', { detail: 'a system message stands only at the head of a session', pointer: '/messages' })
  const growth = { events, tail, length: session.length + messages.length }
  return { session: await context.store.appendSession(caller.tenant, id, after, growth, key && { route, ...key }), replayed: false }
}

const conflict = ({ length }: SessionRecord, after: number): Error =>
  refuse('SESSION_CONFLICT', { detail: `the session holds ${length} messages, not ${after}: append after ${length}`, length })

/** Cancels the session's runs, waits for them, and forgets it. Idempotent. */
export async function deleteSession (context: RunsContext, caller: Caller, id: string): Promise<void> {
  await cancelSessionRuns(context, caller, id)
  await context.store.deleteSession(caller.tenant, id)
}

async function replay ({ store }: RunsContext, { tenant }: Caller, route: string, { key, bodyHash }: Key): Promise<Answer | undefined> {
  const known = await store.findIdempotency(tenant, route, key)
  if (!known) return undefined
  if (known.bodyHash !== bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
  const session = await store.getSession(tenant, known.subject)
  return session && { session, replayed: true }
}
