import type { NewEvent, SessionEvent, SessionHeader } from './events.ts'
import type { RunFilter, RunPatch, RunRecord, RunSpec, SessionGrowth, SessionRecord } from './run.ts'

/** A seed: a shared prefix of a stored log (or what `keepSeed` kept), or a host's transcript that the store is yet to keep. */
export type StoredSeed = { segment: number, length: number } | { events: readonly NewEvent[] }

/** A key seen before: what it made, and for which body (a hash of its canonical JSON). */
export interface IdempotencyRecord { route: string, key: string, bodyHash: string, /** What the first answer named: a run, a session, or its body as JSON text. */ subject: string }

/** All that publication writes, in one transaction (http-api.md 2.1). */
export interface Publication {
  /** `segment` and `firstSeq` are the store's to fill in; `seed.events` is checked against the seed. */
  run: Omit<RunRecord, 'segment' | 'firstSeq'>
  spec: RunSpec
  header: SessionHeader
  seed?: StoredSeed
  /** Of a run that continues a session: how long its log is as far as its maker read it; else `SESSION_CONFLICT`. */
  after?: number
  /** The whole tree may hold at most so many runs, this one included. */
  treeRuns?: number
  idempotency?: Omit<IdempotencyRecord, 'subject'>
  /** Seen in an external chat, not asked for: that its parent is cancelled does not refuse it. */
  observed?: true
}

/** What came of an external chat at one time: the next lines of its journal, and all that they made of its runs. */
export interface Observation {
  tenant: string
  /** The run whose journal it is. */
  chat: string
  /** Lines as they came, without their breaks; `from` is the first one's number, counted from 0. */
  frames?: { from: number, lines: readonly string[] }
  /** In order. */
  writes: readonly ObservedWrite[]
}
export interface ObservedWrite { id: string, publication?: Publication, events: readonly SessionEvent[], patch?: RunPatch }

export interface Append {
  segment: number
  events: readonly SessionEvent[]
  run?: { tenant: string, id: string, patch: RunPatch }
  /** Binds a key to this write. */
  idempotency?: IdempotencyRecord & { tenant: string }
}

export interface NewSession extends SessionGrowth { header: SessionHeader, model: string | null, format: string | null, metadata: Record<string, string> }

/** A piece of a log: at most so many events, and none after the one whose text brings it to so many characters. */
export interface PageSize { limit: number, chars: number }
/** `more`: there may be others after them. */
export interface Page<T> { events: T[], more: boolean }
export interface TreeEvent { runId: string, /** Place in the one order of the whole store. */ pos: number, event: SessionEvent }

/**
 * The one place where anything is kept. Every method is atomic and rejects with a `STORE_UNAVAILABLE` refusal when the store
 * is lost. Writes are durable when their promise resolves (a publication's alone is earlier) and take effect in the order of the
 * calls (a long session's when it resolves); many share one commit. What a read answers with is durable too.
 */
export interface Store {
  /**
   * Resolves when written: later calls build on it, and no read tells of it before it is durable. Whoever tells of it by
   * itself awaits `durable`. Throws `RUN_EXISTS`, `PARENT_ABORTED`, `TREE_LIMIT`, `SESSION_NOT_FOUND` (a seed that is gone); then
   * nothing is written.
   */
  publish (publication: Publication): Promise<{ segment: number, firstSeq: number }>
  /**
   * Keeps a host's long transcript for the publication that follows, in small steps between which others have their turn; nobody
   * reads it before. `events` must stay as they are. Whoever publishes nothing with it drops it. Rejects with the signal's reason.
   */
  keepSeed (events: readonly NewEvent[], signal?: AbortSignal): Promise<{ segment: number, length: number }>
  /** Gives up a kept seed: unless a publication refers to it, its bytes go at the next sweep. Idempotent. */
  dropSeed (segment: number): void
  /** Resolves when everything that is written now is durable. */
  durable (): Promise<void>
  /** Adds events at the end of a log and updates the run they belong to. */
  append (append: Append): Promise<void>
  /** Writes all of it or nothing. Resolves with the places of the runs that it published. */
  observe (observation: Observation): Promise<ReadonlyMap<string, { segment: number, firstSeq: number }>>
  /** Lines of a chat's journal from number `from` on: about `limit`, for they are read as written; of long ones fewer; none at its end. */
  readFrames (tenant: string, chat: string, from: number, limit: number): Promise<string[]>
  /** Updates a run without an event. */
  patchRun (tenant: string, id: string, patch: RunPatch): Promise<void>

  getRun (tenant: string, id: string): Promise<RunRecord | undefined>
  getSpec (tenant: string, id: string): Promise<RunSpec | undefined>
  /** Newest first by (createdAt, id); `before` is the last one of the page before. */
  listRuns (tenant: string, filter: RunFilter, page: { limit: number, before?: { createdAt: number, id: string } }): Promise<RunRecord[]>
  /** The run's descendants through `parentRunId`, at any depth, parents before children; without the run itself. */
  descendants (tenant: string, id: string): Promise<RunRecord[]>
  /** Direct children that are not settled. */
  runningChildren (tenant: string, ids: readonly string[]): Promise<Map<string, number>>
  /** Usage of the run with all its descendants. */
  treeUsage (tenant: string, ids: readonly string[]): Promise<Map<string, RunRecord['usage']>>
  /** Runs that a stopped process left open, oldest first. */
  unsettledRuns (): Promise<RunRecord[]>
  /** Forgets the runs (settled ones) and their sessions; their keys stay until they are a day old (http-api.md 2.4). Log bytes go once no seed refers to them. */
  deleteRuns (tenant: string, ids: readonly string[]): Promise<void>

  /** Events [from, to) of a log, the seed included, in order; at most `limit`. */
  readEvents (segment: number, from: number, to?: number, limit?: number): Promise<SessionEvent[]>
  /** Events from `from` on, for a reader who may take them slowly. */
  readEventPage (segment: number, from: number, size: PageSize): Promise<Page<SessionEvent>>
  /** Events of the run and its descendants after `pos`, in the tree's one order; each run's own events only (from `firstSeq`). */
  readTree (tenant: string, runId: string, afterPos: number, limit: number): Promise<TreeEvent[]>
  readTreePage (tenant: string, runId: string, afterPos: number, size: PageSize): Promise<Page<TreeEvent>>

  /** Keeps a host's session. Throws `SESSION_CONFLICT` when the id is taken. */
  createSession (session: NewSession, idempotency?: Omit<IdempotencyRecord, 'subject'>): Promise<SessionRecord>
  getSession (tenant: string, id: string): Promise<SessionRecord | undefined>
  /** Grows a registered session. Throws `SESSION_CONFLICT` (with `length`, the right one) unless its length is `after`. */
  appendSession (tenant: string, id: string, after: number, growth: SessionGrowth, idempotency?: Omit<IdempotencyRecord, 'subject'>): Promise<SessionRecord>
  /** The session is unreadable from here on; its bytes go once no seed refers to them. */
  deleteSession (tenant: string, id: string): Promise<void>
  /** Runs whose parent is this session. */
  runsOfSession (tenant: string, sessionId: string): Promise<RunRecord[]>

  findIdempotency (tenant: string, route: string, key: string): Promise<IdempotencyRecord | undefined>

  /**
   * Removes what expired by `now`, and log bytes nobody refers to, in small steps; the signal ends it after one. Resolves with how
   * many runs went.
   */
  sweep (now: number, signal?: AbortSignal): Promise<number>
  /** Rejects when the store cannot take a write. */
  ping (): Promise<void>
  close (): Promise<void>
}
