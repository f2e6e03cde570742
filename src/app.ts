import type { FastifyInstance } from 'fastify'
import { followConnections, type Connections } from '../routes/connections.ts'
import { createHttp } from '../routes/http.ts'
import pkg from '../package.json' with { type: 'json' }
import { refuse } from './core/errors.ts'
import { CancelReason } from './core/live.ts'
import { createIds } from './core/ids.ts'
import type { Store } from './core/store.ts'
import type { CompileSchema, Tool } from './core/tool.ts'
import { checkOutputSchema } from './driver/agent.ts'
import { createInProcessDriver, type InProcessDriver } from './driver/in-process.ts'
import { createLocalEngine } from './engine/local.ts'
import { createSlots, type Slots } from './engine/slots.ts'
import { lifecycle, type AppOptions, type Lifecycle, type State } from './lifecycle.ts'
import { createModels } from './models/models.ts'
import { validateScript } from './models/scripted-steps.ts'
import { createMetrics, type Metrics } from './observe/metrics.ts'
import { createForkProvider, createSpawnProvider } from './providers/in-process.ts'
import { createProviderRegistry } from './providers/registry.ts'
import type { Runs } from './runs/api.ts'
import { createRegistry, tellingStarts, type Registry } from './runs/registry.ts'
import type { RunsContext } from './runs/context.ts'
import { createDelegation, type Delegation } from './runs/delegate.ts'
import { createRuns } from './runs/runs.ts'
import { createStoreHealth, type StoreHealth } from './store/health.ts'
import { openSqliteStore } from './store/sqlite.ts'
import { createDelegationTools } from './tools/delegate.ts'
import { createSchemaCompiler } from './tools/schema.ts'
import { createToolbox, type Toolbox } from './tools/toolbox.ts'
import { importInSteps } from './transcripts/transcripts.ts'

const DAY_MS = 86_400_000

export interface App extends Lifecycle {
  readonly http: FastifyInstance
  readonly runs: Runs
  readonly registry: Registry
  readonly store: Store
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
  const compile = createSchemaCompiler()
  const toolbox = await createToolbox({ settings: config.tools, compile, version: pkg.version, log })
  const { tools, tie } = createTools(options, toolbox, compile)
  const driver = createDriver(options, {
    store: tellingStarts(store, registry), registry, slots, models, metrics, retentionMs, onFault, state, compile, toolbox, tools,
    endChildren: (run) => tie.delegation().endChildren(run),
    childSettled: (run) => tie.delegation().childSettled(run)
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
  const context: RunsContext = {
    store, registry, models, importTranscript: importInSteps, now, accepting: () => state.accepting, agents: options.agents ?? [],
    tools: async () => [...tools, ...toolbox.source ? (await toolbox.source.list(state.closing.signal)).tools : []],
    limits: config.limits, scriptViolations: validateScript, newId: createIds(now), closing: state.closing.signal,
    providers: {
      list: () => providers.list(),
      get: (name) => providers.get(name),
      start: async (name, request) => {
        // Running work may delegate to the end of its grace.
        if (!state.accepting && !request.service.delegation) throw refuse('SHUTTING_DOWN', { retryAfter: 5 })
        return await providers.start(name, request)
      }
    }
  }
  tie.delegate(createDelegation(context))
  const runs = createRuns(context)
  const { http, connections } = createFace(options, { runs, metrics, state, health })
  const life = lifecycle({ options, http, connections, store, health, engine, registry, models, toolbox, metrics, state, onFault })
  return { http, runs, registry, store, ...life }
}

interface FaceRooms { runs: Runs, metrics: Metrics, state: State, health: StoreHealth }
interface Face { http: FastifyInstance, connections: Connections }

function createFace (options: AppOptions, { runs, metrics, state, health }: FaceRooms): Face {
  const { config, log, keys, now = Date.now } = options
  const http = createHttp({
    runs, keys, defaultProvider: config.providers.spawn.providerName, access: config.access === 'open' ? 'open' : 'loopback', maxBodyBytes: config.maxBodyBytes,
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

/** The deployment's tools; those that delegate reach the application calls once these are tied to them. */
function createTools ({ config, tools = [], agents = [] }: AppOptions, toolbox: Toolbox, compile: CompileSchema): {
  tools: readonly Tool[], tie: { delegate (delegation: Delegation): void, delegation (): Delegation }
} {
  let tied: Delegation | undefined
  const delegation = (): Delegation => {
    if (!tied) throw new Error('the application calls are not tied yet')
    return tied
  }
  const delegating = !config.delegation ? [] : createDelegationTools({
    compile, agents, providers: { spawn: config.providers.spawn.providerName, fork: config.providers.fork.providerName },
    delegate: (input) => delegation().delegate(input),
    collect: (id, call) => delegation().collect(id, call)
  })
  return { tools: [...tools, ...toolbox.tools, ...delegating], tie: { delegation, delegate: (made) => { tied = made } } }
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
  compile: CompileSchema
  toolbox: Toolbox
  tools: readonly Tool[]
  endChildren: Delegation['endChildren']
  childSettled: Delegation['childSettled']
}

function createDriver (options: AppOptions, rooms: DriverRooms): InProcessDriver {
  const { config, log, now = Date.now, random = Math.random } = options
  const { store, registry, slots, models, metrics, retentionMs, onFault, state, compile, toolbox, tools, endChildren, childSettled } = rooms
  return createInProcessDriver({
    store, models, tools, now, random, retentionMs, onFault, compile, endChildren,
    codeMode: toolbox.codeMode,
    ...(toolbox.source ? { source: toolbox.source } : {}),
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
    onSettled (run) {
      const { record } = run.projection
      childSettled(run)
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

export type { AppOptions } from './lifecycle.ts'
