import type { FastifyInstance } from 'fastify'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Connections } from '../routes/connections.ts'
import type { Config } from './config.ts'
import type { Clock } from './core/clock.ts'
import { at } from './core/fault-point.ts'
import type { Models } from './core/model.ts'
import type { Store } from './core/store.ts'
import type { Tool } from './core/tool.ts'
import type { LocalEngine } from './engine/local.ts'
import type { KeyRing } from './keys.ts'
import type { Observers } from './observe/observers.ts'
import type { NamedAgent } from './runs/context.ts'
import { rememberAncestors } from './runs/parents.ts'
import type { Registry } from './runs/registry.ts'
import type { StoreHealth } from './store/health.ts'
import type { Toolbox } from './tools/toolbox.ts'

const SWEEP_MS = 60_000

export interface AppOptions {
  config: Config
  log: Logger
  /** Absent: the access of the configuration without keys. */
  keys?: KeyRing
  /** Tools beside those of the configuration. */
  tools?: readonly Tool[]
  agents?: readonly NamedAgent[]
  now?: () => number
  random?: () => number
  /** What the limits and the patience of a driven chat go by. */
  clock?: Clock
}

export interface State {
  /** Why the service takes no work; `undefined` when it does. */
  unready: 'starting' | 'draining' | undefined
  accepting: boolean
  /** Settled once what a stopped process left is taken up, or never will be. */
  started: PromiseWithResolvers<undefined>
  closing: AbortController
}

export interface Life {
  observers: Observers
  options: AppOptions
  http: FastifyInstance
  connections: Connections
  store: Store
  health: StoreHealth
  engine: LocalEngine
  registry: Registry
  models: Models
  toolbox: Toolbox
  state: State
  onFault: (message: string, error: unknown, context?: object) => void
}

export interface Lifecycle {
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

/** From the first listen to the last close. */
export function lifecycle (life: Life): Lifecycle {
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
  at('service/listening')
  const resumed = await engine.resumeAll()
  for (const { tenant, parentRunId } of resumed) {
    if (parentRunId !== null) await rememberAncestors({ registry, store }, tenant, parentRunId)
  }
  if (resumed.length > 0) log.info({ runs: resumed.length }, 'took up the runs that the last process left')
  if (state.unready === 'starting') state.unready = undefined
  at('service/resumed')
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
  at('service/draining')
  state.unready = 'draining'
  connections.drain()
  await started
  if (wasReady) await delay(config.shutdownDelayMs, undefined, { signal: hurry }).catch(() => {})
  state.accepting = false
  const left = await engine.drain(config.shutdownGraceMs, hurry)
  at('service/drained')
  await close(life, sweeper, hurry)
  return left
}

/** Ends what waits and streams, then every connection, then the rest. */
async function close (life: Life, sweeper: Sweeper, hurry: AbortSignal): Promise<void> {
  const { options: { keys }, http, connections, store, health, models, toolbox, observers: { metrics, tracing }, state } = life
  state.closing.abort(new Error('the service is shutting down'))
  await Promise.all([http.close(), connections.end(hurry)])
  await sweeper.stop()
  await Promise.all([models.close(), toolbox.close()])
  await tracing.close(hurry)
  metrics.close()
  keys?.close()
  health.close()
  at('service/closing')
  await store.close()
}

/** Removes now and then what expired. */
function createSweeper ({ options: { now = Date.now }, store, state, onFault }: Life): Sweeper {
  let sweeping: Promise<unknown> = Promise.resolve()
  const onError = (error: unknown): void => onFault('the sweep of expired runs failed', error)
  const timer = setInterval(() => {
    sweeping = sweeping.then(async () => await store.sweep(now(), state.closing.signal)).catch(onError)
  }, SWEEP_MS).unref()
  return {
    async stop () {
      clearInterval(timer)
      await sweeping
    }
  }
}
