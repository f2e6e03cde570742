import { readFileSync } from 'node:fs'
import { createApp, type App } from './app.ts'
import { ConfigError, loadConfig, type Config } from './config.ts'
import { messageOf } from './core/errors.ts'
import { createKeyRing, watchPath } from './keys.ts'
import type { Logger } from 'pino'
import { createLogger } from './observe/log.ts'

/** env → config → app → listen → drain. Exits with 1 where the start fails, 0 after a clean end. */
export async function run (process: NodeJS.Process): Promise<void> {
  const readFile = (path: string): string => readFileSync(path, 'utf8')
  const config = configOf(process, readFile)
  if (!config) return
  const log = createLogger({ level: config.logLevel, pretty: process.stdout.isTTY })
  try {
    const keys = config.apiKeysFile === undefined ? undefined : createKeyRing({
      path: config.apiKeysFile, readFile, now: Date.now, watch: watchPath,
      onFault: (error) => log.error({ err: error }, 'the API keys file is bad; the keys read before stay in force')
    })
    const app = await createApp({ config, log, ...(keys ? { keys } : {}) })
    stopOnSignals(process, app, log)
    const address = await app.listen()
    announce(log, config, address)
  } catch (error) {
    log.fatal({ err: error }, `the service cannot start: ${messageOf(error)}`)
    process.exitCode = 1
    process.exit()
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

function announce (log: Logger, config: Config, address: string): void {
  const open = config.access === 'keys' ? 'API keys are needed' : config.access === 'open' ? 'anyone may call it' : 'only this machine may call it, without a key'
  log.info({ url: address, docs: `${address}/docs`, model: config.models.default, database: config.databasePath },
    `subagentd listens on ${address} (docs: ${address}/docs); model ${config.models.default} answers; ${open}`)
}

/** The first SIGTERM or SIGINT drains, a second one hurries, a third is the system's own. */
function stopOnSignals (process: NodeJS.Process, app: App, log: Logger): void {
  const hurry = new AbortController()
  let stopping = false
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stopping) {
      log.warn({ signal }, 'hurrying')
      hurry.abort()
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
      return
    }
    stopping = true
    log.info({ signal }, 'draining: running work is finished, a second signal hurries')
    app.stop(hurry.signal).then((left) => {
      log.info({ left }, left === 0 ? 'stopped' : 'stopped; open runs are taken up at the next start')
      process.exit(0)
    }, (error: unknown) => {
      log.fatal({ err: error }, 'the service did not stop cleanly')
      process.exit(1)
    })
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
}
