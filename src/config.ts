import { readClaudeCodeSettings, type ClaudeCodeSettings } from './claude-code-settings.ts'
import { messageOf } from './core/errors.ts'
import { isObject } from './core/json.ts'
import type { RunLimits } from './core/run.ts'
import { parseKeys } from './keys.ts'
import { ConfigError, MAX_TIMER_MS, NAME, NAME_RULE, Settings, below, deepFreeze, given } from './settings.ts'
import { readTokenSettings, type TokenSettings } from './tokens.ts'
import { readToolSettings, type ToolSettings } from './tool-settings.ts'
import { readTraceSettings, type TraceSettings } from './trace-settings.ts'
import { parseYaml } from './yaml.ts'

export { ConfigError } from './settings.ts'

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export interface EndpointConfig {
  name: string
  kind: 'openai-chat' | 'anthropic'
  /** Default: the vendor's own. */
  baseUrl?: string
  apiKey?: string
  /** Absent: any name. */
  models?: string[]
}

export interface Config {
  readonly port: number
  readonly host: string
  readonly allowUnauthenticated: boolean
  /** Whose requests are answered without keys (http-api.md 8.2); `keys` where keys or tokens say. */
  readonly access: 'keys' | 'loopback' | 'open'
  readonly apiKeysFile?: string
  /** Whose tokens are taken, beside API keys or in their place. */
  readonly jwt?: TokenSettings
  /** A file, or `:memory:`. */
  readonly databasePath: string
  readonly models: { readonly endpoints: EndpointConfig[], readonly default: string }
  /** The deployment's own persona section, which a run's may shadow. */
  readonly persona?: string
  readonly providers: {
    readonly spawn: { readonly providerName: string }
    readonly fork: { readonly providerName: string }
    /** Absent: there is no such provider. */
    readonly claudeCode?: ClaudeCodeSettings
  }
  /** What a start gets that says nothing else. */
  readonly limits: RunLimits
  /** HTTP tools, MCP servers, and where outbound requests may go. */
  readonly tools: ToolSettings
  /** Whether children hold the delegation tools. */
  readonly delegation: boolean
  readonly maxRunning: number
  readonly maxQueued: number
  /** Open runs, those included that wait for their host or are ingested: they hold no place. */
  readonly maxOpen: number
  readonly maxWaitSeconds: number
  readonly maxBodyBytes: number
  readonly maxDepth?: number
  readonly agentsDir?: string
  readonly retentionDays: number
  /** So many settled runs of a tenant are kept at most. */
  readonly retentionRuns?: number
  readonly shutdownDelayMs: number
  readonly shutdownGraceMs: number
  readonly logLevel: LogLevel
  /** Where traces go; absent: nowhere. */
  readonly tracing?: TraceSettings
}

/** A run that nothing else limits: 50 steps, 10 minutes, 2 minutes a host tool call, 200 runs a tree; tokens are not limited. */
export const DEFAULT_LIMITS = { steps: 50, timeoutMs: 600_000, toolTimeoutMs: 120_000, treeRuns: 200 } as const
/** The models that answer where a vendor's key is set and `DEFAULT_MODEL` is not, in this order. */
const VENDORS = [
  { name: 'openai', kind: 'openai-chat', prefix: 'OPENAI', model: 'gpt-5-mini' },
  { name: 'anthropic', kind: 'anthropic', prefix: 'ANTHROPIC', model: 'claude-sonnet-4-5' }
] as const

type Env = Record<string, string | undefined>
type ReadFile = (path: string) => string
interface Source extends Settings {
  get (name: string): string | undefined
  /** A variable, or the content of the file that `<name>_FILE` names. */
  secret (name: string): string | undefined
  file (key: string, path: string): string | undefined
}

/**
 * The configuration of a process (http-api.md §9): the environment first, then the YAML file that `CONFIG` names. Frozen.
 * Throws a `ConfigError` with every fault. An empty variable counts as not set.
 */
export function loadConfig (env: Env, readFile: ReadFile): Config {
  const source = createSource(env, readFile)
  const file = readConfigFile(source)
  const apiKeysFile = source.get('API_KEYS_FILE')
  const hasKeys = apiKeysFile !== undefined && readKeysFile(source, apiKeysFile)
  const models = readModels(source, file.models)
  const jwt = readTokenSettings(source, file.auth)
  const ms = { max: MAX_TIMER_MS }
  const whole = (name: string, fallback: number, range?: { min?: number, max?: number }): number =>
    source.digits(name, source.get(name), range) ?? fallback
  const config = {
    port: whole('PORT', 8080, { max: 65_535 }),
    ...readAccess(source, apiKeysFile !== undefined || jwt !== undefined),
    databasePath: readDatabase(source),
    models,
    providers: readProviders(source, file.providers, env),
    limits: readLimits(source, file.limits),
    tools: readToolSettings(source, file),
    delegation: source.oneOf('delegation', file.delegation, [true, false]) ?? false,
    maxRunning: whole('MAX_RUNNING', 1000, { min: 1, max: 1_000_000 }),
    maxQueued: whole('MAX_QUEUED', 10_000, { max: 10_000_000 }),
    maxOpen: whole('MAX_OPEN', 20_000, { min: 1, max: 10_000_000 }),
    maxWaitSeconds: whole('MAX_WAIT_SECONDS', 50, { max: 86_400 }),
    maxBodyBytes: whole('MAX_BODY_BYTES', 33_554_432, { min: 1024, max: 268_435_456 }),
    retentionDays: whole('RETENTION_DAYS', 30, { min: 1, max: 36_500 }),
    shutdownDelayMs: whole('SHUTDOWN_DELAY_MS', 5000, ms),
    shutdownGraceMs: whole('SHUTDOWN_GRACE_MS', 20_000, ms),
    logLevel: source.oneOf('LOG_LEVEL', source.get('LOG_LEVEL'), LOG_LEVELS) ?? 'info',
    ...given({
      apiKeysFile: hasKeys ? apiKeysFile : undefined,
      jwt,
      tracing: readTraceSettings(source),
      persona: source.text('persona', file.persona),
      maxDepth: source.digits('MAX_DEPTH', source.get('MAX_DEPTH')),
      retentionRuns: source.digits('RETENTION_RUNS', source.get('RETENTION_RUNS'), { min: 1, max: 1_000_000_000 }),
      agentsDir: source.get('AGENTS_DIR')
    })
  } satisfies Config
  source.done()
  return deepFreeze(config)
}

function createSource (env: Env, readFile: ReadFile): Source {
  const settings = new Settings()
  const get = (name: string): string | undefined => env[name]?.trim() || undefined
  const file = (key: string, path: string): string | undefined => {
    try {
      return readFile(path)
    } catch (error) {
      return settings.fault(key, `the file "${path}" cannot be read: ${messageOf(error)}`)
    }
  }
  const secret = (name: string): string | undefined => {
    const path = get(`${name}_FILE`)
    if (path === undefined) return get(name)
    if (get(name) !== undefined) return settings.fault(`${name}_FILE`, `${name} is set too; set one of them`)
    const text = file(`${name}_FILE`, path)?.trim()
    return text === '' ? settings.fault(`${name}_FILE`, `the file "${path}" is empty`) : text
  }
  return Object.assign(settings, { get, secret, file })
}

const FILE_KEYS = ['auth', 'models', 'persona', 'providers', 'limits', 'delegation', 'outbound', 'mcp', 'tools'] as const

function readConfigFile (source: Source): { [key in (typeof FILE_KEYS)[number]]?: unknown } {
  const path = source.get('CONFIG')
  const text = path === undefined ? undefined : source.file('CONFIG', path)
  if (text === undefined) return {}
  const document = parseYaml(text)
  for (const error of document.errors) source.fault('CONFIG', error.message)
  if (document.errors.length > 0) return {}
  try {
    const value: unknown = document.toJS() ?? {}
    return isObject(value) ? source.members('', value, FILE_KEYS) : source.fault('CONFIG', 'must be a map') ?? {}
  } catch (error) {
    return source.fault('CONFIG', messageOf(error)) ?? {}
  }
}

function readKeysFile (source: Source, path: string): boolean {
  const text = source.file('API_KEYS_FILE', path)
  if (text === undefined) return false
  try {
    parseKeys(text, path)
    return true
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    source.faults.push(...error.faults)
    return false
  }
}

function readAccess (source: Source, keys: boolean): Pick<Config, 'host' | 'allowUnauthenticated' | 'access'> {
  const host = source.get('HOST') ?? '127.0.0.1'
  const allow = source.oneOf('ALLOW_UNAUTHENTICATED', source.get('ALLOW_UNAUTHENTICATED'), ['true', 'false']) === 'true'
  if (!keys && !allow && !isLoopbackAddress(host)) {
    source.fault('HOST', `"${host}" is open to others without API keys: set API_KEYS_FILE, or ALLOW_UNAUTHENTICATED=true`)
  }
  return { host, allowUnauthenticated: allow, access: keys ? 'keys' : allow ? 'open' : 'loopback' }
}

/** An address, or name, that only this machine reaches. */
export const isLoopbackAddress = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^(::ffff:)?127(\.\d{1,3}){3}$/i.test(host)

function readDatabase (source: Source): string {
  const url = source.secret('DATABASE_URL') ?? 'sqlite:./data/subagentd.db'
  const path = /^sqlite:(?:\/\/)?(.+)$/.exec(url)?.[1]
  if (path !== undefined) return path
  const what = /^postgres(ql)?:/.test(url) ? 'PostgreSQL is not built yet: use' : 'must be'
  source.fault('DATABASE_URL', `${what} sqlite:PATH, like sqlite:./data/subagentd.db`)
  return ''
}

function readModels (source: Source, value: unknown): Config['models'] {
  const models = source.members('models', value, ['endpoints', 'default'])
  const endpoints = new Map<string, EndpointConfig>()
  for (const [name, entry] of Object.entries(source.map('models.endpoints', models.endpoints))) {
    const endpoint = readEndpoint(source, name, entry)
    if (endpoint) endpoints.set(name, endpoint)
  }
  let fallback: string | undefined
  for (const { name, kind, prefix, model } of VENDORS) {
    const apiKey = source.secret(`${prefix}_API_KEY`)
    const baseUrl = readUrl(source, `${prefix}_BASE_URL`, source.get(`${prefix}_BASE_URL`))
    const listed = endpoints.get(name)
    if (apiKey !== undefined || baseUrl !== undefined) {
      endpoints.set(name, { name, ...listed, kind: listed?.kind ?? kind, ...given({ apiKey, baseUrl }) })
    }
    if (endpoints.get(name)?.apiKey !== undefined) fallback ??= `${name}/${listed?.models?.[0] ?? model}`
  }
  fallback ??= [...endpoints.values()].filter(({ models }) => models).map(({ name, models }) => `${name}/${models?.[0]}`)[0]
  const key = source.get('DEFAULT_MODEL') === undefined ? 'models.default' : 'DEFAULT_MODEL'
  const chosen = source.get('DEFAULT_MODEL') ?? source.text('models.default', models.default)
  if (chosen !== undefined) checkModel(source, key, chosen, endpoints)
  return { endpoints: [...endpoints.values()], default: chosen ?? fallback ?? 'scripted/demo' }
}

function readEndpoint (source: Source, name: string, value: unknown): EndpointConfig | undefined {
  const at = `models.endpoints.${name}`
  const entry = source.members(at, value ?? {}, ['kind', 'baseUrl', 'apiKey', 'apiKeyEnv', 'models'])
  if (name === 'scripted' || !NAME.test(name)) {
    source.fault(at, name === 'scripted' ? 'the name "scripted" is taken' : `the name must be ${NAME_RULE}`)
  }
  const vendor = VENDORS.find((one) => one.name === name)
  const kind = source.oneOf(below(at, 'kind'), entry.kind ?? vendor?.kind, ['openai-chat', 'anthropic'])
  if (kind === undefined && entry.kind === undefined) source.fault(below(at, 'kind'), 'is missing: openai-chat or anthropic')
  const models = source.texts(below(at, 'models'), entry.models)
  if (models?.length === 0) source.fault(below(at, 'models'), 'lists no model; leave it out to accept any name')
  const variable = source.text(below(at, 'apiKeyEnv'), entry.apiKeyEnv)
  if (variable !== undefined && entry.apiKey !== undefined) source.fault(below(at, 'apiKeyEnv'), 'apiKey is given too; give one')
  const secret = variable === undefined ? undefined : source.secret(variable)
  if (variable !== undefined && source.get(variable) === undefined && source.get(`${variable}_FILE`) === undefined) {
    source.fault(below(at, 'apiKeyEnv'), `the variable ${variable} is not set`)
  }
  const baseUrl = readUrl(source, below(at, 'baseUrl'), source.text(below(at, 'baseUrl'), entry.baseUrl))
  const apiKey = source.text(below(at, 'apiKey'), entry.apiKey) ?? secret
  return kind && { name, kind, ...given({ baseUrl, apiKey, models }) }
}

function readUrl (source: Source, key: string, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const url = URL.parse(value)
  const plain = url && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === ''
  if (!plain) return source.fault(key, 'must be an http or https URL without query')
  if (url.username !== '' || url.password !== '') return source.fault(key, 'must not hold a user name or password')
  return value.replace(/\/+$/, '')
}

function checkModel (source: Source, key: string, model: string, endpoints: ReadonlyMap<string, EndpointConfig>): void {
  const known = [...endpoints.keys(), 'scripted'].join(', ')
  const [, name, rest] = /^([^/]+)\/(.+)$/s.exec(model) ?? []
  const endpoint = name === undefined ? undefined : endpoints.get(name)
  if (rest === undefined) source.fault(key, `"${model}" must be <endpoint>/<model>`)
  else if (name !== 'scripted' && !endpoint) source.fault(key, `"${model}": no endpoint "${name}"; known: ${known}`)
  else if (endpoint?.models?.includes(rest) === false) source.fault(key, `"${model}" is not among the models of its endpoint`)
}

function readProviders (source: Source, value: unknown, env: Env): Config['providers'] {
  const providers = source.members('providers', value, ['spawn', 'fork', 'claudeCode'])
  const name = (of: 'spawn' | 'fork'): string => {
    const { providerName } = source.members(`providers.${of}`, providers[of], ['providerName'])
    if (providerName === 'claude-code') source.fault(`providers.${of}.providerName`, 'is the name of another provider')
    return source.matching(`providers.${of}.providerName`, providerName, NAME, NAME_RULE) ?? of
  }
  const names = { spawn: { providerName: name('spawn') }, fork: { providerName: name('fork') } }
  if (names.spawn.providerName === names.fork.providerName) source.fault('providers', 'spawn and fork have the same name')
  return { ...names, ...given({ claudeCode: readClaudeCodeSettings(source, providers.claudeCode, env) }) }
}

const LIMITS = ['steps', 'timeoutMs', 'totalTokens', 'toolTimeoutMs', 'treeRuns', 'treeTokens'] as const

function readLimits (source: Source, value: unknown): RunLimits {
  const limits: RunLimits = { ...DEFAULT_LIMITS }
  const entries = source.members('limits', value, LIMITS)
  for (const name of LIMITS) {
    const max = name.endsWith('Ms') ? MAX_TIMER_MS : Number.MAX_SAFE_INTEGER
    const limit = source.integer(`limits.${name}`, entries[name], { min: 1, max })
    if (limit !== undefined) limits[name] = limit
  }
  return limits
}
