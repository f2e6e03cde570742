import { refuse } from '../core/errors.ts'
import type { NewEvent } from '../core/events.ts'
import { depthOf } from '../core/depth.ts'
import type { SessionRecord } from '../core/run.ts'
import { transcriptHeader } from '../core/fold.ts'
import { endpointKind, type ImportedTranscript, type RawTranscript, type TranscriptFormat } from '../core/transcript.ts'
import type { Caller, Key, Runs } from './api.ts'
import { cancelSessionRuns, dispose } from './cancel.ts'
import type { RunsContext } from './context.ts'
import { createOnce } from './once.ts'
import { inShares } from './steps.ts'

const CREATE = 'POST /v1/sessions'
interface SessionInput {
  /** Chosen by the host, lower case. */
  id?: string
  transcript?: RawTranscript
  model?: string
  delegationDepth?: unknown
  cwd?: string
  metadata: Record<string, string>
}
interface Answer { session: SessionRecord, replayed: boolean }

/** The calls on a host's own sessions, so that forks need no re-upload (http-api.md §1); one under each key at a time. */
export function createSessions (
  context: RunsContext
): Pick<Runs, 'createSession' | 'getSession' | 'appendSession' | 'deleteSession'> {
  const once = createOnce<Answer>()
  type Work = () => Promise<SessionRecord>
  const keyed = async (caller: Caller, route: string, key: Key | undefined, work: Work): Promise<Answer> => {
    const fresh = async (): Promise<Answer> => ({ session: await work(), replayed: false })
    if (!key) return await fresh()
    const { value: { session, replayed }, shared } = await once(JSON.stringify([caller.tenant, route]), key, async () =>
      await replay(context, caller, route, key) ?? await fresh())
    return { session, replayed: replayed || shared }
  }
  return {
    createSession: (caller, input, key) => keyed(caller, CREATE, key, () => createSession(context, caller, input, key)),
    appendSession (caller, id, after, messages, key) {
      const route = `POST /v1/sessions/${id}/messages`
      return keyed(caller, route, key, () => appendSession(context, caller, { id, after, messages }, key && { route, ...key }))
    },
    getSession: (caller, id) => getSession(context, caller, id),
    deleteSession: (caller, id) => deleteSession(context, caller, id)
  }
}

async function createSession (context: RunsContext, caller: Caller, input: SessionInput, key?: Key): Promise<SessionRecord> {
  depthOf({ stored: input.delegationDepth })
  const model = input.model === undefined ? null : context.models.resolve(input.model, endpointKind(input.transcript?.format))
  const imported = input.transcript && await inShares(context.importTranscript(input.transcript, { pointer: '/transcript' }))
  const id = input.id ?? context.newId()
  return await context.store.createSession({
    header: {
      id, tenant: caller.tenant, createdAt: context.now(),
      ...(input.delegationDepth === undefined ? {} : { delegationDepth: input.delegationDepth }),
      ...(input.cwd === undefined ? {} : { cwd: input.cwd })
    },
    events: imported ? eventsOf(input, imported) : [],
    tail: imported?.tail ?? [],
    losses: imported?.losses ?? [],
    length: input.transcript?.messages.length ?? 0,
    model: model?.id ?? null,
    format: input.transcript?.format ?? (model?.kind === 'anthropic' ? 'anthropic' : 'openai-chat'),
    metadata: input.metadata
  }, key && { route: CREATE, ...key })
}

/** What comes beside the messages is kept though no turn is complete yet; a system prompt among them stays in the tail. */
function eventsOf ({ transcript }: SessionInput, { events, system, tools }: ImportedTranscript): NewEvent[] {
  const beside = transcript?.system === undefined ? [] : system
  if (events.length > 0 || beside.length + tools.length === 0) return events
  return [{ type: 'request/header', data: { system: beside, tools, model: null, reason: 'transcript' } }]
}

async function getSession ({ store }: RunsContext, { tenant }: Caller, id: string): Promise<SessionRecord> {
  const session = await store.getSession(tenant, id)
  if (!session) throw refuse('SESSION_NOT_FOUND', { id })
  return session
}

interface Growth { id: string, after: number, messages: string[] }

/** Appends a host's later messages: they may complete turns that were open (http-api.md §1). */
async function appendSession (
  context: RunsContext, caller: Caller, { id, after, messages }: Growth, key?: Key & { route: string }
): Promise<SessionRecord> {
  const session = await getSession(context, caller, id)
  const { registered, length } = session
  const conflict = (detail: string): Error => refuse('SESSION_CONFLICT', { detail, length })
  if (!registered) throw conflict(`session "${id}" belongs to a run: only its runs append to it`)
  if (length !== after) throw conflict(`the session holds ${length} messages, not ${after}: append after ${length}`)
  const format = session.format as TranscriptFormat
  const raw = { format, messages: [...session.tail, ...messages] }
  const options = { firstTurn: session.turns + 1, pointer: '', known: session.tail.length }
  const imported = await inShares(context.importTranscript(raw, options))
  return await context.store.appendSession(caller.tenant, id, after, {
    events: imported.system.length > 0 ? await withTools(context, session, imported) : imported.events,
    tail: imported.tail,
    length: length + messages.length,
    losses: [...new Set([...session.losses ?? [], ...imported.losses])]
  }, key)
}

/**
 * The first turns of a session whose messages begin with a system prompt: its header takes over the tools that came beside
 * them. Throws `INVALID_REQUEST` where a system prompt came beside them too (http-api.md 4.2).
 */
async function withTools (
  { store }: RunsContext, session: SessionRecord, { system, events }: ImportedTranscript
): Promise<NewEvent[]> {
  const beside = transcriptHeader(await store.readEvents(session.segment, 0, 1))
  if (beside && beside.system.length > 0) {
    const detail = 'messages[0]: a system prompt was given beside the messages before: give one of the two'
    throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/messages/0', detail }] })
  }
  const [header, ...rest] = events
  if (!beside || header?.type !== 'request/header') return [...events]
  return [{ type: 'request/header', data: { ...header.data, system, tools: beside.tools } }, ...rest]
}

/**
 * Forgets the session, at once, then cancels its runs and waits for them: nothing can start under it meanwhile. A run's own
 * session goes with the run, which cannot be without its log. Idempotent.
 */
async function deleteSession (context: RunsContext, caller: Caller, id: string): Promise<void> {
  const session = await context.store.getSession(caller.tenant, id)
  if (session && !session.registered) return await dispose(context, caller, id)
  await context.store.deleteSession(caller.tenant, id)
  await cancelSessionRuns(context, caller, id)
}

async function replay (
  { store }: RunsContext, { tenant }: Caller, route: string, { key, bodyHash }: Key
): Promise<Answer | undefined> {
  const known = await store.findIdempotency(tenant, route, key)
  if (!known) return undefined
  if (known.bodyHash !== bodyHash) throw refuse('IDEMPOTENCY_MISMATCH')
  const session = await store.getSession(tenant, known.subject)
  return session && { session, replayed: true }
}
