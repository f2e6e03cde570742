import { setImmediate as turn } from 'node:timers/promises'
import { messageOf, refuse } from '../../core/errors.ts'
import type { Block, SessionHeader } from '../../core/events.ts'
import { CancelReason, SuspendReason } from '../../core/live.ts'
import type { StoredEvents } from '../../core/log.ts'
import type { RunRecord, RunSpec, SessionRecord } from '../../core/run.ts'
import type { Publication } from '../../core/store.ts'
import { Chat, childIdOf, PROVIDER, type EndedChild, type FoundChild, type Taken } from './chat.ts'
import { ChatWriter } from './chat-writer.ts'
import { ExternalRun, type ExternalOptions } from './external-run.ts'
import { createIntake } from './intake.ts'
import { normalize } from './normalizer.ts'
import { valuesOf } from './persistent-map.ts'
import type { Reading } from './reading.ts'
import { replay, replayInput, startReplay, type Replay } from './replay.ts'
import { createState, type State } from './state.ts'
import type { ChildRef } from './vocabulary.ts'

/** Lines of a journal read again at once. */
const PAGE = 2000

/** A chat whose CLI its host runs: published already, and fed through its frames. */
export function startIngest (options: ExternalOptions, { publication, place, task, signal }: {
  publication: Publication, place: { segment: number, firstSeq: number }, task: Block[], signal: AbortSignal
}): ExternalRun {
  const { run: record, spec, header } = publication
  const writer = new ChatWriter(options.store, { tenant: record.tenant, id: record.id, lines: 0 })
  const open = openChat(options, { record: { ...record, ...place }, spec, header, writer, ready: Promise.resolve() })
  const state = createState('ingest')
  open.run.follow(signal)
  // The line that the host gave its CLI itself, without a uuid of ours.
  open.begin({ state: task.length === 0 ? state : normalize(state, { type: 'sent', content: task })[0] })
  return open.run
}

/** Takes up a chat that a stopped process left open: its journal is read again, beside what else the start does. */
export function resumeIngest (options: ExternalOptions, { record, spec, header, stored }: {
  record: RunRecord, spec: RunSpec, header: SessionHeader, stored: StoredEvents
}): ExternalRun {
  const { store, onFault } = options
  const writer = new ChatWriter(store, { tenant: record.tenant, id: record.id, lines: record.external?.framesAccepted ?? 0 })
  const ready = Promise.withResolvers<undefined>()
  ready.promise.catch(() => {})
  const replayed = startReplay(record.external?.stops ?? [])
  const { run, suspended, begin } = openChat(options, { record, spec, header, writer, ready: ready.promise, stored, reading: replayed.chat })
  if (spec.prompt.length > 0) replayInput(replayed, { type: 'sent', content: spec.prompt })
  readAgain(options, run, replayed, suspended).then((found) => {
    begin(found)
    ready.resolve(undefined)
  }, (error: unknown) => {
    ready.reject(refuse('STORE_UNAVAILABLE', { retryAfter: 5 }, error))
    if (!suspended.aborted) onFault(`the journal of a chat could not be read again: ${messageOf(error)}`, error, { runId: record.id })
    run.suspend()
  })
  return run
}

interface Found { state: State, running?: ReadonlyMap<ChildRef, FoundChild>, ended?: ReadonlyMap<ChildRef, EndedChild> }

interface OpenChat {
  readonly run: ExternalRun
  /** Aborts when the chat is suspended before it began. */
  readonly suspended: AbortSignal
  begin: (found: Found) => void
}

interface OpenInit {
  record: RunRecord
  spec: RunSpec
  header: SessionHeader
  writer: ChatWriter
  /** Frames wait for it. */
  ready: Promise<unknown>
  stored?: StoredEvents
  reading?: Reading
}

/** A chat's run, which may be asked to stop before the chat itself has begun. */
function openChat (options: ExternalOptions, { ready, ...init }: OpenInit): OpenChat {
  const { writer } = init
  const suspended = new AbortController()
  let chat: Chat | undefined
  const suspend = (reason: unknown): void => {
    suspended.abort(reason)
    if (chat) chat.suspend()
    else run.suspend()
  }
  // What is stored is taken up at the next start; what was in memory alone its host sends again.
  writer.onLost = suspend
  const run = new ExternalRun(options, {
    ...init, observed: true,
    handlers: {
      abort (reason) {
        if (reason instanceof CancelReason) chat?.take(STOP)
        else suspend(reason)
      },
      accept: () => { throw refuse('UNSUPPORTED_CAPABILITY', { name: PROVIDER, capability: 'messages to an ingested chat' }) },
      async forget (id) {
        await ready
        await chat?.forget(id)
      },
      frames: {
        async open (from) {
          await ready
          const closed = (): ReturnType<typeof refuse> | undefined => closedBy(run, suspended.signal)
          if (!chat) throw closed() ?? new Error('the chat has not begun')
          return await createIntake({ chat, writer, closed }).open(from)
        }
      }
    }
  })
  run.announce()
  return {
    run,
    suspended: suspended.signal,
    begin (found) {
      if (run.ending) return
      const begun = new Chat({ options, run, writer, ...found, onStopChild: (child) => giveUp(begun, child) })
      chat = begun
      run.ready()
      begun.take(run.cancelled ? STOP : [])
    }
  }
}

const STOP: readonly Taken[] = [{ input: { type: 'stop' } }, { input: { type: 'end' } }]

function closedBy (run: ExternalRun, suspended: AbortSignal): ReturnType<typeof refuse> | undefined {
  if (suspended.aborted) return refuse(suspended.reason instanceof SuspendReason ? 'SHUTTING_DOWN' : 'STORE_UNAVAILABLE', { retryAfter: 5 })
  return run.ending || run.cancelled ? refuse('RUN_SETTLED', { id: run.id }) : undefined
}

/** What is cancelled with its chat ends with it; one that is cancelled alone is given up by itself. */
function giveUp (chat: Chat, child: ChildRef): void {
  queueMicrotask(() => {
    const { run: { cancelled, projection }, state: { lines } } = chat
    if (cancelled) return
    const { external = {} } = projection.record
    projection.patch({ external: { ...external, stops: [...external.stops ?? [], [lines, child]] } })
    chat.take([{ input: { type: 'child/stop', child } }])
  })
}

/** Reads a journal again, and finds the runs of its children. */
async function readAgain (options: ExternalOptions, run: ExternalRun, chat: Replay, signal: AbortSignal): Promise<Found> {
  const { store } = options
  for (let from = 0; ;) {
    signal.throwIfAborted()
    const lines = await store.readFrames(run.tenant, run.id, from, PAGE)
    if (lines.length === 0) break
    replay(chat, lines)
    from += lines.length
    await turn()
  }
  const running = new Map<ChildRef, FoundChild>()
  for (const [ref, reading] of chat.running) {
    const found = await findChild(options, run, ref)
    if (!found) throw new Error(`child ${ref} of chat ${run.id} is not in the store`)
    running.set(ref, { ...found, reading })
  }
  const ended = new Map<ChildRef, EndedChild>()
  for (const { ref } of valuesOf(chat.state.settled.map)) {
    const found = await findChild(options, run, ref)
    // It may have been deleted.
    if (found) ended.set(ref, { id: found.record.id, sessionId: found.record.sessionId, stored: found.stored })
  }
  return { state: chat.state, running, ended }
}

type StoredChild = Omit<FoundChild, 'record' | 'reading' | 'stored'> & { record: RunRecord, stored: StoredEvents }

async function findChild ({ store }: ExternalOptions, chat: ExternalRun, ref: ChildRef): Promise<StoredChild | undefined> {
  const id = childIdOf(chat, ref)
  const [record, spec] = await Promise.all([store.getRun(chat.tenant, id), store.getSpec(chat.tenant, id)])
  const session = record && await store.getSession(chat.tenant, record.sessionId)
  return record && spec && session && { record, spec, header: session.header, stored: storedOf(session) }
}

export const storedOf = ({ length, completedLength, turns }: SessionRecord): StoredEvents => ({ length, completedLength, turns })
