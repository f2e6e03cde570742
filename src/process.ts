import { readdirSync, readFileSync } from 'node:fs'
import { loadAgents } from './agents/agents.ts'
import type { Logger } from 'pino'
import { createApp, type App } from './app.ts'
import { ConfigError, loadConfig, type Config } from './config.ts'
import { messageOf } from './core/errors.ts'
import { createKeyRing, watchPath } from './keys.ts'
import { createLogger } from './observe/log.ts'
import { secretsIn } from './secrets.ts'

/** After a clean stop nothing is left that could keep the process; whatever does is told, and cut off. */
const LAST_MS = 2000

/** env → config → app → listen → drain. Exits with 1 where the start fails, 0 after a clean end. */
export async function run (process: NodeJS.Process): Promise<void> {
  const readFile = (path: string): string => readFileSync(path, 'utf8')
  const config = configOf(process, readFile)
  if (!config) return
  const log = createLogger({ level: config.logLevel, pretty: process.stdout.isTTY, secrets: secretsIn(config) })
  try {
    const keys = config.apiKeysFile === undefined ? undefined : createKeyRing({
      path: config.apiKeysFile, readFile, now: Date.now, watch: watchPath,
      onFault: (error) => log.error({ err: error }, 'the API keys file is bad; the keys read before stay in force')
    })
    const agents = config.agentsDir === undefined ? [] : loadAgents(config.agentsDir, { readFile, readDir: (path) => readdirSync(path) })
    const app = await createApp({ config, log, agents, ...(keys ? { keys } : {}) })
    stopOnSignals(process, app, log)
    await app.listen((address) => announce(log, config, address))
  } catch (error) {
    const message = `the service cannot start: ${startFault(error, config)}`
    log.fatal({ err: error }, message)
    // Also where the log is silent, or read by a machine.
    process.stderr.write(`${message}\n`)
    process.exit(1)
  }
}

function configOf (process: NodeJS.Process, readFile: (path: string) => string): Config | undefined {
  try {
    return loadConfig(process.env, readFile)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
    return undefined
  }
}

/** What is wrong, and what to do about it. */
function startFault (error: unknown, { host, port }: Config): string {
  const at = `port ${port} of ${host}`
  switch ((error as { code?: unknown } | undefined)?.code) {
    case 'EADDRINUSE': return `${at} is in use by another process. Stop that process, or set PORT to another one`
    case 'EACCES': return `this user may not listen on ${at}. Set PORT to one above 1023`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN': return `this machine has no address "${host}" to listen on. Set HOST to one that it has`
    default: return messageOf(error)
  }
}

const CALLERS: Record<Config['access'], string> = {
  keys: 'an API key or a token is needed', open: 'anyone may call it', loopback: 'only this machine may call it, without a key'
}

function announce (log: Logger, config: Config, address: string): void {
  log.info({ url: address, docs: `${address}/docs`, model: config.models.default, database: config.databasePath },
    `subagentd listens on ${address} (docs: ${address}/docs); model ${config.models.default} answers; ${CALLERS[config.access]}`)
}

/** The first SIGTERM or SIGINT drains, a second one hurries, a third is the system's own. */
function stopOnSignals (process: NodeJS.Process, app: App, log: Logger): void {
  const hurry = new AbortController()
  const release = (): void => {
    process.off('SIGTERM', onSignal)
    process.off('SIGINT', onSignal)
  }
  let stopping = false
  function onSignal (signal: NodeJS.Signals): void {
    if (stopping) {
      log.warn({ signal }, 'hurrying')
      hurry.abort()
      return release()
    }
    stopping = true
    log.info({ signal }, 'draining: running work is finished, a second signal hurries')
    app.stop(hurry.signal).then((left) => {
      log.info({ left }, left === 0 ? 'stopped' : 'stopped; open runs are taken up at the next start')
      release()
      endOfItself(process, log)
    }, (error: unknown) => {
      log.fatal({ err: error }, 'the service did not stop cleanly')
      process.exit(1)
    })
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
}

/** The process ends because nothing is left in it. */
function endOfItself (process: NodeJS.Process, log: Logger): void {
  process.exitCode = 0
  setTimeout(() => {
    log.warn({ left: process.getActiveResourcesInfo() }, 'something keeps the process after its end: cut off')
    process.exit(0)
  }, LAST_MS).unref()
}
