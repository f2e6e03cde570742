import type { FastifyInstance } from 'fastify'
import { setTimeout as delay } from 'node:timers/promises'
import { createHttp } from '../routes/http.ts'
import pkg from '../package.json' with { type: 'json' }
import type { Config } from './config.ts'
import { refuse } from './core/errors.ts'
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
import { createRegistry, type Registry } from './runs/registry.ts'
import { createRuns } from './runs/runs.ts'
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
  /** Takes up what a stopped process left, then listens. Resolves with the address. */
  listen (): Promise<string>
  /** Ends as http-api.md §3 says; `hurry` skips the waiting. Resolves with how many runs were left for the next start. */
  stop (hurry: AbortSignal): Promise<number>
}

/** Ties the rooms together; holds no logic of its own. Rejects with an `Error` that says what to mend. */
export async function createApp (options: AppOptions): Promise<App> {
  const { config, log, now = Date.now } = options
  const retentionMs = config.retentionDays * DAY_MS
  const onFault = (message: string, error: unknown, context: object = {}): void => log.error({ err: error, ...context }, message)
  const store = await openSqliteStore({
    path: config.databasePath, now, retentionMs, onFault: (error) => onFault('the store failed', error)
  })
  const registry = createRegistry()
  const slots = createSlots({ running: config.maxRunning, queued: config.maxQueued })
  const models = createModels({ endpoints: config.models.endpoints, defaultModel: config.models.default })
  const metrics = createMetrics()
  metrics.watchRuns(() => countByStatus(registry))
  const state = { ready: false, accepting: true, closing: new AbortController() }
  const tools = options.tools ?? []
  const driver = createDriver(options, { store, registry, slots, models, metrics, retentionMs, onFault })
  const engine = createLocalEngine({ store, liveRuns: () => registry.liveRuns(), resume: driver.resumeInProcessRun, onFault })
  const providers = createProviderRegistry(checkOutputSchema)
  providers.register(createSpawnProvider(driver, config.providers.spawn.providerName))
  providers.register(createForkProvider(driver, config.providers.fork.providerName))
  const runs = createRuns({
    store, registry, models, tools, importTranscript, now,
    limits: config.limits, scriptViolations: validateScript, newId: createIds(now), closing: state.closing.signal,
    providers: {
      list: providers.list,
      get: providers.get,
      start: async (name, request) => {
        if (!state.accepting) throw refuse('SHUTTING_DOWN', { retryAfter: 5 })
        return await providers.start(name, request)
      }
    }
  })
  const http = createHttp({
    runs, keys: options.keys, access: config.access === 'open' ? 'open' : 'loopback', maxBodyBytes: config.maxBodyBytes,
    maxWaitSeconds: config.maxWaitSeconds, version: pkg.version, closing: state.closing.signal, now, log, metrics,
    ready: () => state.ready ? { ok: true } : { ok: false, reason: state.accepting ? 'starting' : 'draining' }
  })
  return { http, runs, registry, store, ...lifecycle({ options, http, store, engine, models, metrics, state, onFault }) }
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
}

function createDriver ({ config, log, tools = [], now = Date.now, random = Math.random }: AppOptions, rooms: DriverRooms): InProcessDriver {
  const { store, registry, slots, models, metrics, retentionMs, onFault } = rooms
  return createInProcessDriver({
    store, models, tools, now, random, retentionMs, onFault,
    compile: createSchemaCompiler(),
    newId: createIds(now),
    reserve: slots.reserve,
    ...(config.persona === undefined ? {} : { persona: config.persona }),
    ...(config.maxDepth === undefined ? {} : { maxDepth: config.maxDepth }),
    announce (run) {
      registry.announce(run)
      const { id, provider, model, depth, parentRunId } = run.projection.record
      metrics.runStarted(provider)
      log.info({ runId: id, tenant: run.tenant, provider, model, depth, parentRunId }, 'run started')
    },
    retire: registry.retire,
    onModelCall ({ model, durationMs, failure }) {
      const [endpoint = model] = model.split('/')
      metrics.modelCall({ endpoint, outcome: failure?.outcome.code ?? 'ok', seconds: durationMs / 1000 })
    },
    onSettled (record) {
      const { id, tenant, provider, stopReason, error, usage, createdAt, settledAt } = record
      const ms = (settledAt ?? createdAt) - createdAt
      if (stopReason) metrics.runSettled({ provider, stopReason, seconds: ms / 1000, model: record.model, usage })
      log.info({ runId: id, tenant, provider, stopReason, ms, steps: usage.steps, tokens: usage.inputTokens + usage.outputTokens, ...(error ? { error } : {}) }, 'run settled')
    }
  })
}

interface Life {
  metrics: Metrics
  options: AppOptions
  http: FastifyInstance
  store: Store
  engine: LocalEngine
  models: ReturnType<typeof createModels>
  state: { ready: boolean, accepting: boolean, closing: AbortController }
  onFault: (message: string, error: unknown, context?: object) => void
}

/** From the first listen to the last close. */
function lifecycle ({ options: { config, log, keys, now = Date.now }, http, store, engine, models, metrics, state, onFault }: Life): Pick<App, 'listen' | 'stop'> {
  let sweeping: Promise<unknown> = Promise.resolve()
  const sweep = (): void => {
    sweeping = sweeping.then(async () => await store.sweep(now())).catch((error: unknown) => onFault('the sweep of expired runs failed', error))
  }
  const sweeper = setInterval(sweep, SWEEP_MS)
  sweeper.unref()
  return {
    async listen () {
      const resumed = await engine.resumeAll()
      if (resumed > 0) log.info({ runs: resumed }, 'took up the runs that the last process left')
      const address = await http.listen({ host: config.host, port: config.port })
      state.ready = true
      return address
    },
    async stop (hurry) {
      const wasReady = state.ready
      state.ready = false
      if (wasReady) await delay(config.shutdownDelayMs, undefined, { signal: hurry }).catch(() => {})
      state.accepting = false
      const left = await engine.drain(config.shutdownGraceMs, hurry)
      state.closing.abort(new Error('the service is shutting down'))
      await http.close()
      clearInterval(sweeper)
      await sweeping
      await models.close()
      metrics.close()
      keys?.close()
      await store.close()
      return left
    }
  }
}
