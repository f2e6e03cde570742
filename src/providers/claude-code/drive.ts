import type { Clock } from '../../core/clock.ts'
import { childDepth } from '../../core/depth.ts'
import { outcome, refuse } from '../../core/errors.ts'
import type { Outcome, RunResult } from '../../core/events.ts'
import { queuedMessages, undeliveredMessages } from '../../core/messages.ts'
import type { Availability, FollowUp, SubagentRequest, SubagentRun } from '../../core/provider.ts'
import type { RunRecord, RunSpec } from '../../core/run.ts'
import { createRedactor, secretParts } from '../../core/secrets.ts'
import type { Publication } from '../../core/store.ts'
import { checkNotAborted, CreationTransaction } from '../../driver/creation.ts'
import { laterRecord } from '../../driver/follow-up.ts'
import { closeFailedTurn } from '../../driver/resume.ts'
import { modelName, PROVIDER } from './chat.ts'
import { ChatWriter } from './chat-writer.ts'
import { systemClock } from './clock.ts'
import { argumentsOf, environmentOf, markerOf } from './command.ts'
import { DrivenChat, type DrivenChatInit } from './driven-chat.ts'
import { ExternalRun, type ExternalOptions } from './external-run.ts'
import { storedOf } from './ingest.ts'
import { endLeftover, endUnwritten, findMarked } from './leftovers.ts'
import { checkCwd, findCommand } from './places.ts'
import { checkNoCommand, type Permissions } from './policy.ts'
import { startCli, type CliExit } from './process.ts'
import { chatPublication } from './publication.ts'

/** The operator's own CLI (claude-code-settings.ts). */
export interface DriveSettings {
  readonly command: string
  readonly args: readonly string[]
  readonly roots: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly permissions: Permissions
  readonly graceMs: number
  readonly inherited: Readonly<Record<string, string>>
}

export interface DriveOptions extends ExternalOptions {
  /** Absent: no CLI is configured. */
  settings?: DriveSettings | undefined
  clock?: Clock | undefined
  onBadEnd: (runId: string, exit: CliExit, stderr: string) => void
}

/** Chats whose CLI this service runs (claude-code.md §D). */
export interface ClaudeCodeDrive {
  /** Whether the operator's CLI is there. */
  availability (): Availability
  /** Throws `PROVIDER_UNAVAILABLE` without a CLI. */
  start (request: SubagentRequest): Promise<SubagentRun>
  /** Goes on with the CLI's session in a new process. */
  followUp (request: FollowUp): Promise<SubagentRun>
  /** Ends what a stopped process left of a driven chat: its process group, its runs. One that had not begun begins. */
  resume (record: RunRecord, spec: RunSpec): Promise<SubagentRun>
}

const NO_CLI = 'no CLI is configured: set providers.claudeCode in the configuration file (runs with "ingest": true need none)'

export function createDrive (options: DriveOptions): ClaudeCodeDrive {
  const availability = (): Availability => {
    const { settings } = options
    if (!settings) return { available: false, reason: NO_CLI }
    if (findCommand(settings.command, settings.inherited['PATH']) !== undefined) return { available: true }
    return { available: false, reason: `the command "${settings.command}" is not there: install Claude Code, or set providers.claudeCode.command` }
  }
  /** The settings. Throws `PROVIDER_UNAVAILABLE`. */
  const ready = (): DriveSettings => {
    const found = availability()
    if (!found.available || !options.settings) throw refuse('PROVIDER_UNAVAILABLE', { name: PROVIDER, reason: found.available ? NO_CLI : found.reason })
    return options.settings
  }
  /** Looked for once: what the last service left is there from the first on. */
  let marked: ReturnType<typeof findMarked> | undefined
  return {
    availability,
    start: (request) => start(options, ready(), request),
    followUp: (request) => followUp(options, ready(), request),
    async resume (record, spec) {
      const marker = markerOf(record.id)
      const { process } = record.external ?? {}
      if (process) await endLeftover({ ...process, marker })
      else await endUnwritten((await (marked ??= findMarked())).get(marker) ?? [], marker)
      return await resume(options, record, spec)
    }
  }
}

async function start (options: DriveOptions, settings: DriveSettings, request: SubagentRequest): Promise<SubagentRun> {
  const { service, parent, signal } = request
  const depth = childDepth(parent.depths, options.maxDepth)
  const named = request.agentOptions?.model
  const model = modelName(named?.startsWith(`${PROVIDER}/`) === true ? named.slice(PROVIDER.length + 1) : named)
  service.allowModel?.(model)
  const cwd = checkCwd(parent.cwd, settings.roots)
  if (request.toolFilter) argumentsOf({ toolFilter: request.toolFilter })
  checkNoCommand(request.toolFilter, request.prompt, '/task')
  const id = service.id ?? options.newId()
  return await create(options, settings, { id, tenant: service.tenant, signal }, (queued) => chatPublication(request, {
    id, depth, model, now: options.now(), status: queued ? 'queued' : 'running',
    external: { way: 'drive', cwd, nonce: options.newId(), ...(service.external?.keepOpen === true ? { keepOpen: true } : {}) }
  }))
}

async function followUp (options: DriveOptions, settings: DriveSettings, { previous, spec, id, content, signal, idempotency }: FollowUp): Promise<SubagentRun> {
  const { store } = options
  // One that ended before the CLI said a word goes on with what it would have gone on with.
  const resumes = previous.external?.id ?? spec.external?.resumes
  if (spec.external?.way !== 'drive') throw refuse('UNSUPPORTED_CAPABILITY', { name: PROVIDER, capability: 'follow-up of an ingested chat' })
  if (resumes === undefined) throw refuse('UNSUPPORTED_CAPABILITY', { name: PROVIDER, capability: 'follow-up of a chat whose CLI told no session' })
  checkNoCommand(spec.toolFilter, content, '/content')
  const cwd = checkCwd(spec.external.cwd, settings.roots)
  // To the end of the session: what a later run was given does not go again.
  const unsent = undeliveredMessages(await store.readEvents(previous.segment, previous.firstSeq))
  const session = await store.getSession(previous.tenant, previous.sessionId)
  if (!session) throw refuse('SESSION_NOT_FOUND', { id: previous.sessionId })
  const next: RunSpec = { ...spec, prompt: [...unsent.flatMap((message) => message.content), ...content], external: { ...spec.external, cwd, resumes, nonce: options.newId() } }
  delete next.delegation
  return await create(options, settings, { id, tenant: previous.tenant, signal, stored: storedOf(session) }, (queued) => {
    return {
      run: { ...laterRecord(options, previous, id, queued), external: {} }, spec: next, header: session.header, after: session.length, ...(next.limits.treeRuns === undefined ? {} : { treeRuns: next.limits.treeRuns }),
      ...(idempotency ? { idempotency } : {})
    }
  })
}

/** Reserves a slot, publishes, and begins; leaves nothing where it is refused. */
async function create (
  options: DriveOptions, settings: DriveSettings,
  { id, tenant, signal, stored }: { id: string, tenant: string, signal: AbortSignal, stored?: DrivenChatInit['stored'] },
  publicationOf: (queued: boolean) => Publication
): Promise<SubagentRun> {
  checkNotAborted(signal)
  const creation = new CreationTransaction(id, signal)
  try {
    const slot = await creation.step(() => options.reserve(tenant, false), (reserved) => reserved.release())
    const publication = publicationOf(!slot.free)
    creation.check()
    const place = await options.store.publish(publication)
    const { spec, header } = publication
    const chat = createChat(options, settings, { record: { ...publication.run, ...place }, spec, header, slot, ...(stored ? { stored } : {}) })
    creation.detach()
    chat.begin({ signal })
    return chat.run
  } catch (error) {
    for (const failure of await creation.rollback()) options.onFault('rollback of a start failed', failure, { runId: id })
    throw error
  }
}

type ChatParts = Pick<DrivenChatInit, 'record' | 'spec' | 'header' | 'slot' | 'stored'>

function createChat (options: DriveOptions, settings: DriveSettings, parts: ChatParts): DrivenChat {
  const { record: { id, tenant }, spec } = parts
  const { external, model, persona, toolFilter, limits } = spec
  const name = model === modelName(undefined) ? undefined : model.slice(PROVIDER.length + 1)
  return new DrivenChat({
    ...parts, options, writer: new ChatWriter(options.store, { tenant, id, lines: 0 }), permissions: settings.permissions, graceMs: settings.graceMs,
    clock: options.clock ?? systemClock,
    onBadEnd: (exit, stderr) => options.onBadEnd(id, exit, withoutSecrets(stderr, settings.env)),
    startCli: async () => await startCli({
      command: findCommand(settings.command, settings.inherited['PATH']) ?? settings.command,
      args: argumentsOf({
        ...(name === undefined ? {} : { model: name }), ...(persona === undefined ? {} : { persona }), ...(toolFilter ? { toolFilter } : {}),
        ...(limits.steps === undefined ? {} : { maxTurns: limits.steps }), ...(external?.resumes === undefined ? {} : { sessionId: external.resumes }),
        extra: settings.args
      }),
      cwd: external?.cwd ?? checkCwd(undefined, settings.roots),
      env: environmentOf({ inherited: settings.inherited, env: settings.env, runId: id }),
      onStderr: () => {}
    })
  })
}

/** The CLI may say what it was configured with; where only the end of it is kept, this may begin within that. */
function withoutSecrets (said: string, env: DriveSettings['env']): string {
  const secrets = Object.values(env).flatMap(secretParts).filter((value) => value.length >= MIN_SECRET)
  const cut = Math.max(0, ...secrets.map((secret) => overlap(secret, said)))
  return createRedactor(secrets)(said.slice(cut))
}
const MIN_SECRET = 8
const MIN_OVERLAP = 4
/** How long the end of a secret is that a text begins with. */
function overlap (secret: string, said: string): number {
  for (let length = secret.length - 1; length >= MIN_OVERLAP; length--) if (said.startsWith(secret.slice(-length))) return length
  return 0
}

const LEFT = 'the service stopped while the CLI was at work'

async function resume (options: DriveOptions, record: RunRecord, spec: RunSpec): Promise<SubagentRun> {
  const { store, settings } = options
  const session = await store.getSession(record.tenant, record.sessionId)
  if (!session) throw new Error(`run ${record.id} has no session`)
  const own = await store.readEvents(record.segment, record.firstSeq)
  const hasBegun = record.external?.process !== undefined || own.some((event) => event.type === 'turn/start')
  if (!hasBegun && record.cancel === null && settings) {
    const slot = options.reserve(record.tenant, true)
    const chat = createChat(options, settings, { record, spec, header: session.header, slot, stored: storedOf(session) })
    chat.begin({ messages: queuedMessages(own) })
    return chat.run
  }
  const failure = outcome('INTERRUPTED', LEFT)
  const writer = new ChatWriter(store, { tenant: record.tenant, id: record.id, lines: record.external?.framesAccepted ?? 0 })
  const chat = await openLeft(options, record, writer)
  for (const left of await openChildren(options, record)) {
    const child = await openLeft(options, left, writer)
    const { stopReason } = child.settle(failure)
    chat.run.append('subagent/end', { runId: left.id, ...(left.external?.id === undefined ? {} : { toolCallId: left.external.id }), stopReason })
  }
  chat.settle(failure)
  return chat.run
}

const openChildren = async ({ store }: DriveOptions, { tenant, id }: RunRecord): Promise<RunRecord[]> =>
  (await store.descendants(tenant, id)).filter((child) => child.parentRunId === id && child.provider === PROVIDER && child.status !== 'settled')

/** A run that nobody executes any more, and what ends it with what its log says. */
async function openLeft (options: DriveOptions, record: RunRecord, writer: ChatWriter): Promise<{ run: ExternalRun, settle (failure: Outcome): RunResult }> {
  const { store } = options
  const [session, spec, own] = await Promise.all([
    store.getSession(record.tenant, record.sessionId), store.getSpec(record.tenant, record.id), store.readEvents(record.segment, record.firstSeq)
  ])
  if (!session || !spec) throw new Error(`run ${record.id} has no session`)
  const run = new ExternalRun(options, {
    record, spec, header: session.header, writer, stored: storedOf(session), observed: false,
    handlers: { abort: () => {}, accept: () => { throw refuse('RUN_SETTLED', { id: record.id }) } }
  })
  run.announce()
  for (const event of own) run.reading.take(event)
  return {
    run,
    settle (failure) {
      for (const { type, data } of closeFailedTurn(own, failure)) run.append(type, data)
      const result = run.reading.result({ cancelled: record.cancel !== null, failed: failure })
      run.settle(result)
      return result
    }
  }
}
