import type { FastifyInstance } from 'fastify'
import { followConnections, type Connections } from '../routes/connections.ts'
import { createHttp } from '../routes/http.ts'
import pkg from '../package.json' with { type: 'json' }
import type { Config } from './config.ts'
import { refuse } from './core/errors.ts'
import { CancelReason } from './core/live.ts'
import { createIds } from './core/ids.ts'
import { createRedactor } from './core/secrets.ts'
import type { Store } from './core/store.ts'
import type { CompileSchema, Tool } from './core/tool.ts'
import { checkOutputSchema } from './driver/agent.ts'
import { createInProcessDriver } from './driver/in-process.ts'
import type { DriverOptions } from './driver/options.ts'
import { createLocalEngine, type UnderWay } from './engine/local.ts'
import { createSlots, type Slots } from './engine/slots.ts'
import { lifecycle, type AppOptions, type Lifecycle, type State } from './lifecycle.ts'
import { createModels } from './models/models.ts'
import { validateScript } from './models/scripted-steps.ts'
import { countByStatus, openObservers, type Observers } from './observe/observers.ts'
import type { RunWatch } from './observe/runs.ts'
import type { Saturation } from './observe/saturation.ts'
import { measuredStore } from './observe/store.ts'
import { createDrive } from './providers/claude-code/drive.ts'
import { createClaudeCodeProvider } from './providers/claude-code/provider.ts'
import { createForkProvider, createSpawnProvider } from './providers/in-process.ts'
import { createProviderRegistry } from './providers/registry.ts'
import type { Runs } from './runs/api.ts'
import { createRegistry, tellingStarts, type Registry } from './runs/registry.ts'
import type { RunsContext } from './runs/context.ts'
import { createDelegation, type Delegation } from './runs/delegate.ts'
import { createRuns } from './runs/runs.ts'
import { secretsIn } from './secrets.ts'
import { createStoreHealth, type StoreHealth } from './store/health.ts'
import { openSqliteStore } from './store/sqlite.ts'
import { createDelegationTools } from './tools/delegate.ts'
import { createTokens } from './tokens.ts'
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
  const observers = await observe(options, state)
  const { metrics, tracing } = observers
  const store = measuredStore(await openSqliteStore({
    path: config.databasePath, now, retentionMs, ...(config.retentionRuns === undefined ? {} : { retentionRuns: config.retentionRuns }),
    onFault: (error) => { onFault('the store failed', error); metrics.storeFault(); health.onFault() }
  }), metrics)
  const health = createStoreHealth(() => store.ping())
  const registry = createRegistry()
  const slots = createSlots({ running: config.maxRunning, queued: config.maxQueued, shared: () => hasTenants(options) })
  const models = createModels({ endpoints: config.models.endpoints, defaultModel: config.models.default })
  metrics.watch({ databasePath: config.databasePath, read: () => saturationOf(config, { registry, slots, health }) })
  const compile = createSchemaCompiler()
  const toolbox = await createToolbox({ settings: config.tools, compile, version: pkg.version, log, traceHeaders: (call) => tracing.headers(call) })
  const { tools, tie } = createTools(options, toolbox, compile)
  const driving = createDriving(options, {
    store: tracing.keeping(tellingStarts(store, registry)), registry, slots, models, watch: observers.watch, retentionMs, onFault, compile, toolbox, tools,
    endChildren: (run) => tie.delegation().endChildren(run),
    catchUp: (run) => tie.delegation().catchUp(run),
    childSettled: (run) => tie.delegation().childSettled(run)
  })
  const driver = createInProcessDriver(driving)
  const claudeCode = createClaudeCodeProvider(driving, createDrive({
    ...driving, settings: config.providers.claudeCode, clock: options.clock,
    onBadEnd: (runId, exit, stderr) => log.warn({ runId, ...exit, stderr }, 'a CLI ended by itself')
  }))
  const engine = createLocalEngine({
    store, onFault,
    resume: (record, spec) => spec.external ? claudeCode.resume(record, spec) : driver.resumeInProcessRun(record, spec),
    liveRuns: () => registry.liveRuns(),
    starts: () => startsUnderWay(registry)
  })
  const providers = createProviderRegistry(checkOutputSchema)
  providers.register(createSpawnProvider(driver, config.providers.spawn.providerName))
  providers.register(createForkProvider(driver, config.providers.fork.providerName))
  providers.register(claudeCode)
  const context: RunsContext = {
    store, registry, models, importTranscript: importInSteps, now, accepting: () => state.accepting, agents: options.agents ?? [],
    tools: async () => [...tools, ...toolbox.source ? (await toolbox.source.list(state.closing.signal)).tools : []],
    limits: config.limits, open: { most: config.maxOpen, shared: () => hasTenants(options) }, scriptViolations: validateScript, newId: createIds(now), closing: state.closing.signal,
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
  const { http, connections } = createFace(options, { runs, observers, state, health })
  const life = lifecycle({ options, http, connections, store, health, engine, registry, models, toolbox, observers, state, onFault })
  return { http, runs, registry, store, ...life }
}

const startsUnderWay = (registry: Registry): UnderWay[] => registry.startingRuns().map((start) => ({
  // What is with the store already will be a run, left to the next start like any other.
  over: start.over, abort: () => { if (!start.publishing) start.abort(new CancelReason('request', 'the service is shutting down')) }
}))

const observe = async ({ config, log }: AppOptions, state: State): Promise<Observers> => await openObservers({
  log, tracing: config.tracing, endpoints: config.models.endpoints, version: pkg.version, redact: createRedactor(secretsIn(config)),
  resuming: () => state.unready === 'starting'
})

interface FaceRooms { runs: Runs, observers: Observers, state: State, health: StoreHealth }
interface Face { http: FastifyInstance, connections: Connections }

function createFace (options: AppOptions, { runs, observers: { metrics, requests, tracing }, state, health }: FaceRooms): Face {
  const { config, log, keys, now = Date.now } = options
  const tokens = config.jwt && createTokens({ settings: config.jwt, now, onFault: (err) => log.warn({ err }, 'the keys of the token issuer cannot be had') })
  const http = createHttp({
    runs, keys, tokens, defaultProvider: config.providers.spawn.providerName, access: config.access === 'open' ? 'open' : 'loopback', maxBodyBytes: config.maxBodyBytes,
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
    requests.watch(app, (tenant, runId) => tracing.spokeTo(tenant, runId))
  })
  return { http, connections: followConnections(http) }
}

/** How full it is. */
function saturationOf ({ maxRunning, maxQueued }: Config, { registry, slots, health }: { registry: Registry, slots: Slots, health: StoreHealth }): Saturation {
  return {
    runs: countByStatus(registry.liveRuns()), slots: { used: slots.running, most: maxRunning }, queue: { length: slots.queued, most: maxQueued },
    storeHealthy: health.ok
  }
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
  watch: RunWatch
  retentionMs: number
  onFault: (message: string, error: unknown, context?: object) => void
  compile: CompileSchema
  toolbox: Toolbox
  tools: readonly Tool[]
  endChildren: Delegation['endChildren']
  catchUp: Delegation['catchUp']
  childSettled: Delegation['childSettled']
}

/** What every way of executing a run is given. */
function createDriving (options: AppOptions, rooms: DriverRooms): DriverOptions {
  const { config, now = Date.now, random = Math.random } = options
  const { store, registry, slots, models, watch, retentionMs, onFault, compile, toolbox, tools, endChildren, catchUp, childSettled } = rooms
  return {
    store, models, tools, now, random, retentionMs, onFault, compile, endChildren, catchUp,
    codeMode: toolbox.codeMode,
    ...(toolbox.source ? { source: toolbox.source } : {}),
    newId: createIds(now),
    reserve: (tenant, resumed) => slots.reserve(tenant, resumed),
    ...(config.persona === undefined ? {} : { persona: config.persona }),
    ...(config.maxDepth === undefined ? {} : { maxDepth: config.maxDepth }),
    announce (run) {
      registry.announce(run)
      watch.announced(run)
    },
    retire (run) {
      registry.retire(run)
      watch.retired(run)
    },
    onModelCall: (call) => watch.modelCall(call),
    onSettled (run) {
      childSettled(run)
      watch.settled(run)
    }
  }
}

/** Whether several tenants may come: then none of them takes all places. */
const hasTenants = ({ config, keys }: AppOptions): boolean => config.jwt !== undefined || (keys?.tenants ?? 0) > 1

export type { AppOptions } from './lifecycle.ts'
