import type { FastifyInstance } from 'fastify'
import { setTimeout as delay } from 'node:timers/promises'
import { followConnections, type Connections } from '../routes/connections.ts'
import { createHttp } from '../routes/http.ts'
import pkg from '../package.json' with { type: 'json' }
import type { Config } from './config.ts'
import { refuse } from './core/errors.ts'
import { CancelReason } from './core/live.ts'
import { createIds } from './core/ids.ts'
import type { Store } from './core/store.ts'
import type { Tool } from './core/tool.ts'
import { checkOutputSchema } from './driver/agent.ts'
import { createInProcessDriver, type InProcessDriver } from './driver/in-process.ts'
import { createLocalEngine, type LocalEngine } from './engine/local.ts'
import { createSlots, type Slots } from './engine/slots.ts'
import type { KeyRing } from './keys.ts'
import { createModels } from './models/models.ts'
import { validateScript } from './models/scripted-steps.ts'
import type { Logger } from 'pino'
import { createMetrics, type Metrics } from './observe/metrics.ts'
import { createForkProvider, createSpawnProvider } from './providers/in-process.ts'
import { createProviderRegistry } from './providers/registry.ts'
import type { Runs } from './runs/api.ts'
import { rememberAncestors } from './runs/parents.ts'
import { createRegistry, tellingStarts, type Registry } from './runs/registry.ts'
import { createRuns } from './runs/runs.ts'
import { createStoreHealth, type StoreHealth } from './store/health.ts'
import { openSqliteStore } from './store/sqlite.ts'
import { createSchemaCompiler } from './tools/schema.ts'
import { importTranscript } from './transcripts/transcripts.ts'

const DAY_MS = 86_400_000
const SWEEP_MS = 60_000

export interface AppOptions {
  config: Config
  log: Logger
  /** Absent: the access of the configuration without keys. */
  keys?: KeyRing
  /** Tools of the deployment. */
  tools?: readonly Tool[]
  now?: () => number
  random?: () => number
}

export interface App {
  readonly http: FastifyInstance
  readonly runs: Runs
  readonly registry: Registry
  readonly store: Store
  /**
   * Listens, tells the address, then takes up what a stopped process left; requests wait for that, health does not. Where it
   * rejects, no run was touched and nothing is left open.
   */
  listen (onAddress?: (address: string) => void): Promise<string>
  /**
   * Ends as http-api.md §3 says; `hurry` skips the waiting. Resolves with how many runs were left for the next start.
   * Another call gets the first one's promise, and its `hurry` counts too.
   */
  stop (hurry: AbortSignal): Promise<number>
}

interface State {
  /** Why the service takes no work; `undefined` when it does. */
  unready: 'starting' | 'draining' | undefined
  accepting: boolean
  /** Settled once what a stopped process left is taken up, or never will be. */
  started: PromiseWithResolvers<undefined>
  closing: AbortController
}

/** Ties the rooms together; holds no logic of its own. Rejects with an `Error` that says what to mend. */
export async function createApp (options: AppOptions): Promise<App> {
  const { config, log, now = Date.now } = options
  const retentionMs = config.retentionDays * DAY_MS
  const onFault = (message: string, error: unknown, context: object = {}): void => log.error({ err: error, ...context }, message)
  const state: State = { unready: 'starting', accepting: true, started: Promise.withResolvers(), closing: new AbortController() }
  const store = await openSqliteStore({
    path: config.databasePath, now, retentionMs,
    onFault: (error) => { onFault('the store failed', error); health.onFault() }
  })
  const health = createStoreHealth(() => store.ping())
  const registry = createRegistry()
  const slots = createSlots({ running: config.maxRunning, queued: config.maxQueued })
  const models = createModels({ endpoints: config.models.endpoints, defaultModel: config.models.default })
  const metrics = createMetrics()
  metrics.watchRuns(() => countByStatus(registry))
  const tools = options.tools ?? []
  const driver = createDriver(options, {
    store: tellingStarts(store, registry), registry, slots, models, metrics, retentionMs, onFault, state
  })
  const engine = createLocalEngine({
    store, onFault, resume: (...run) => driver.resumeInProcessRun(...run), liveRuns: () => registry.liveRuns(),
    starts: () => registry.startingRuns().map((start) => ({
      over: start.over, abort: () => start.abort(new CancelReason('request', 'the service is shutting down'))
    }))
  })
  const providers = createProviderRegistry(checkOutputSchema)
  providers.register(createSpawnProvider(driver, config.providers.spawn.providerName))
  providers.register(createForkProvider(driver, config.providers.fork.providerName))
  const runs = createRuns({
    store, registry, models, tools, importTranscript, now, accepting: () => state.accepting,
    limits: config.limits, scriptViolations: validateScript, newId: createIds(now), closing: state.closing.signal,
    providers: {
      list: () => providers.list(),
      get: (name) => providers.get(name),
      start: async (name, request) => {
        if (!state.accepting) throw refuse('SHUTTING_DOWN', { retryAfter: 5 })
        return await providers.start(name, request)
      }
    }
  })
  const { http, connections } = createFace(options, { runs, metrics, state, health })
  const life = lifecycle({ options, http, connections, store, health, engine, registry, models, metrics, state, onFault })
  return { http, runs, registry, store, ...life }
}

interface FaceRooms { runs: Runs, metrics: Metrics, state: State, health: StoreHealth }
interface Face { http: FastifyInstance, connections: Connections }

function createFace (options: AppOptions, { runs, metrics, state, health }: FaceRooms): Face {
  const { config, log, keys, now = Date.now } = options
  const http = createHttp({
    runs, keys, access: config.access === 'open' ? 'open' : 'loopback', maxBodyBytes: config.maxBodyBytes,
    maxWaitSeconds: config.maxWaitSeconds, version: pkg.version, closing: state.closing.signal, now, metrics,
    // What Fastify tells of itself is no news; its faults are.
    log: log.child({}, { level: log.isLevelEnabled('info') ? 'warn' : log.level }),
    ready () {
      const reason = state.unready ?? (health.ok ? undefined : 'without store')
      return reason === undefined ? { ok: true } : { ok: false, reason }
    }
  }, (app) => {
    app.addHook('onRequest', async ({ routeOptions }) => {
      if (state.unready === 'starting' && !routeOptions.config.open) await state.started.promise
    })
  })
  return { http, connections: followConnections(http) }
}

function countByStatus (registry: Registry): { running: number, queued: number, waiting: number } {
  const counts = { running: 0, queued: 0, waiting: 0 }
  for (const { projection: { record: { status } } } of registry.liveRuns()) {
    if (status === 'running' || status === 'queued' || status === 'waiting') counts[status]++
  }
  return counts
}

interface DriverRooms {
  store: Store
  registry: Registry
  slots: Slots
  models: ReturnType<typeof createModels>
  metrics: Metrics
  retentionMs: number
  onFault: (message: string, error: unknown, context?: object) => void
  state: State
}

function createDriver (options: AppOptions, rooms: DriverRooms): InProcessDriver {
  const { config, log, tools = [], now = Date.now, random = Math.random } = options
  const { store, registry, slots, models, metrics, retentionMs, onFault, state } = rooms
  return createInProcessDriver({
    store, models, tools, now, random, retentionMs, onFault,
    compile: createSchemaCompiler(),
    newId: createIds(now),
    reserve: (resumed) => slots.reserve(resumed),
    ...(config.persona === undefined ? {} : { persona: config.persona }),
    ...(config.maxDepth === undefined ? {} : { maxDepth: config.maxDepth }),
    announce (run) {
      registry.announce(run)
      const { id, provider, model, depth, parentRunId } = run.projection.record
      const resumed = state.unready === 'starting'
      if (!resumed) metrics.runStarted(provider)
      run.log.observe((events) => {
        for (const event of events) if (event.type === 'run/retry') metrics.modelRetry(endpointOf(model), event.data.code)
      })
      log.info({ runId: id, tenant: run.tenant, provider, model, depth, parentRunId }, resumed ? 'run resumed' : 'run started')
    },
    retire: (run) => registry.retire(run),
    onModelCall ({ model, durationMs, failure }) {
      metrics.modelCall({ endpoint: endpointOf(model), outcome: failure?.outcome.code ?? 'ok', seconds: durationMs / 1000 })
    },
    onSettled (record) {
      const { id, tenant, provider, stopReason, error, usage, createdAt, settledAt } = record
      const ms = (settledAt ?? createdAt) - createdAt
      if (stopReason) metrics.runSettled({ provider, stopReason, seconds: ms / 1000, model: record.model, usage })
      const tokens = usage.inputTokens + usage.outputTokens
      const told = { runId: id, tenant, provider, stopReason, ms, steps: usage.steps, tokens, ...(error ? { error } : {}) }
      log.info(told, 'run settled')
    }
  })
}

const endpointOf = (model: string): string => model.split('/', 1)[0] ?? model

interface Life {
  metrics: Metrics
  options: AppOptions
  http: FastifyInstance
  connections: Connections
  store: Store
  health: StoreHealth
  engine: LocalEngine
  registry: Registry
  models: ReturnType<typeof createModels>
  state: State
  onFault: (message: string, error: unknown, context?: object) => void
}

/** From the first listen to the last close. */
function lifecycle (life: Life): Pick<App, 'listen' | 'stop'> {
  const hurry = new AbortController()
  const sweeper = createSweeper(life)
  let listening: Promise<string> | undefined
  let stopping: Promise<number> | undefined
  return {
    listen: (onAddress = () => {}) => listening ??= listen(life, onAddress).catch(async (error: unknown) => {
      await close(life, sweeper, AbortSignal.abort())
      throw error
    }),
    stop (signal) {
      if (signal.aborted) hurry.abort()
      else signal.addEventListener('abort', () => hurry.abort(), { once: true })
      stopping ??= stop(life, { sweeper, started: Promise.allSettled([listening]), hurry: hurry.signal })
      return stopping
    }
  }
}

async function listen (life: Life, onAddress: (address: string) => void): Promise<string> {
  const { options: { config, log }, http, store, engine, registry, state } = life
  const address = await http.listen({ host: config.host, port: config.port })
  onAddress(address)
  const resumed = await engine.resumeAll()
  for (const { tenant, parentRunId } of resumed) {
    if (parentRunId !== null) await rememberAncestors({ registry, store }, tenant, parentRunId)
  }
  if (resumed.length > 0) log.info({ runs: resumed.length }, 'took up the runs that the last process left')
  if (state.unready === 'starting') state.unready = undefined
  state.started.resolve(undefined)
  return address
}

interface Sweeper { stop (): Promise<void> }
interface Stopping {
  sweeper: Sweeper
  /** Whatever became of the start. */
  started: Promise<unknown>
  hurry: AbortSignal
}

async function stop (life: Life, { sweeper, started, hurry }: Stopping): Promise<number> {
  const { options: { config }, connections, engine, state } = life
  const wasReady = state.unready === undefined
  state.unready = 'draining'
  connections.drain()
  await started
  if (wasReady) await delay(config.shutdownDelayMs, undefined, { signal: hurry }).catch(() => {})
  state.accepting = false
  const left = await engine.drain(config.shutdownGraceMs, hurry)
  await close(life, sweeper, hurry)
  return left
}

/** Ends what waits and streams, then every connection, then the rest. */
async function close (life: Life, sweeper: Sweeper, hurry: AbortSignal): Promise<void> {
  const { options: { keys }, http, connections, store, health, models, metrics, state } = life
  state.closing.abort(new Error('the service is shutting down'))
  await Promise.all([http.close(), connections.end(hurry)])
  await sweeper.stop()
  await models.close()
  metrics.close()
  keys?.close()
  health.close()
  await store.close()
}

/** Removes now and then what expired. */
function createSweeper ({ options: { now = Date.now }, store, onFault }: Life): Sweeper {
  let sweeping: Promise<unknown> = Promise.resolve()
  const onError = (error: unknown): void => onFault('the sweep of expired runs failed', error)
  const timer = setInterval(() => {
    sweeping = sweeping.then(async () => await store.sweep(now())).catch(onError)
  }, SWEEP_MS).unref()
  return {
    async stop () {
      clearInterval(timer)
      await sweeping
    }
  }
}
