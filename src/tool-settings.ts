import { isObject, type Json } from './core/json.ts'
import { isSecretName, secretParts } from './core/secrets.ts'
import { below, given, MAX_TIMER_MS, type Settings } from './settings.ts'

/** What the settings of tools are read from: their shape and their faults, and the variables they name. */
export interface ToolSource extends Settings {
  get (name: string): string | undefined
  /** A variable, or the content of the file that `<name>_FILE` names. */
  secret (name: string): string | undefined
}

export interface ToolSettings {
  readonly outbound: { readonly allow: readonly string[] }
  readonly mcp: readonly (StdioServer | HttpServer)[]
  readonly http: readonly HttpTool[]
}
interface Server { name: string, required?: boolean, connectTimeoutMs?: number, timeoutMs?: number, secrets: string[] }
interface StdioServer extends Server { kind: 'stdio', command: string, args: string[], env: Record<string, string>, cwd?: string }
interface HttpServer extends Server { kind: 'http', url: string, headers: Record<string, string> }
interface HttpTool {
  name: string, description: string, inputSchema: Json, method: Method, url: string, headers: Record<string, string>, secrets: string[]
  body?: Json, idempotent?: boolean, timeoutMs?: number, maxBytes?: number
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type Method = (typeof METHODS)[number]
const MS = { min: 1, max: MAX_TIMER_MS }
/** What every process of a server gets, beside what `env` lets through. */
const BASE_ENV = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TERM', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR']

/** The `outbound`, `mcp` and `tools` of the configuration file (http-api.md §9), with every variable in them resolved. */
export function readToolSettings (source: ToolSource, file: { outbound?: unknown, mcp?: unknown, tools?: unknown }): ToolSettings {
  const outbound = source.members('outbound', file.outbound, ['allow'])
  return {
    outbound: { allow: source.texts('outbound.allow', outbound.allow) ?? [] },
    mcp: Object.entries(source.map('mcp', file.mcp)).flatMap(([name, entry]) => readServer(source, name, entry) ?? []),
    http: Object.entries(source.map('tools', file.tools)).flatMap(([name, entry]) => readHttpTool(source, name, entry) ?? [])
  }
}

const SERVER_KEYS = ['command', 'args', 'env', 'cwd', 'url', 'headers', 'required', 'connectTimeoutMs', 'timeoutMs'] as const
const ONLY = { stdio: ['command', 'args', 'env', 'cwd'], http: ['url', 'headers'] } as const

function readServer (source: ToolSource, name: string, value: unknown): StdioServer | HttpServer | undefined {
  const at = below('mcp', name)
  const entry = source.members(at, value ?? {}, SERVER_KEYS)
  const command = source.text(below(at, 'command'), entry.command)
  const url = source.text(below(at, 'url'), entry.url)
  if ((entry.command === undefined) === (entry.url === undefined)) return source.fault(at, 'must have either a command or a url')
  const kind = entry.url === undefined ? 'stdio' : 'http'
  for (const key of ONLY[kind === 'http' ? 'stdio' : 'http']) if (entry[key] !== undefined) source.fault(below(at, key), `is for a server with a ${kind === 'http' ? 'command' : 'url'}`)
  const secrets: string[] = []
  const common = {
    name, secrets,
    ...given({
      required: readFlag(source, below(at, 'required'), entry.required),
      connectTimeoutMs: source.integer(below(at, 'connectTimeoutMs'), entry.connectTimeoutMs, MS),
      timeoutMs: source.integer(below(at, 'timeoutMs'), entry.timeoutMs, MS)
    })
  }
  if (kind === 'http') {
    const headers = readVariables(source, below(at, 'headers'), entry.headers, secrets)
    if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? '')) return source.fault(below(at, 'url'), 'must be an http or https URL')
    return url === undefined ? undefined : { ...common, kind, url, headers }
  }
  const args = source.texts(below(at, 'args'), entry.args) ?? []
  const env = readEnvironment(source, below(at, 'env'), entry.env, secrets)
  return command === undefined ? undefined : { ...common, kind, command, args, env, ...given({ cwd: source.text(below(at, 'cwd'), entry.cwd) }) }
}

/** A list lets these variables through; a map sets them. */
function readEnvironment (source: ToolSource, key: string, value: unknown, secrets: string[]): Record<string, string> {
  const names = Array.isArray(value) ? source.texts(key, value) ?? [] : []
  const set = value === undefined || Array.isArray(value) ? {} : readVariables(source, key, value, secrets)
  const passed = [...BASE_ENV, ...names].flatMap((name) => {
    const content = source.get(name)
    if (content === undefined && names.includes(name)) source.fault(key, `the variable ${name} is not set`)
    if (content !== undefined && isSecretName(name)) secrets.push(...secretParts(content))
    return content === undefined ? [] : [[name, content] as const]
  })
  return { ...Object.fromEntries(passed), ...set }
}

const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g
const VARIABLE_TEXT = /\$\{[A-Za-z_]\w*\}/

/** Texts in which `${NAME}` stands for a variable, whose content is a secret from then on, as is any text with a name of a secret. */
export function readVariables (source: ToolSource, key: string, value: unknown, secrets: string[]): Record<string, string> {
  const texts = Object.entries(source.map(key, value)).map(([name, text]) => {
    const at = below(key, name)
    if (typeof text !== 'string') return [name, source.fault(at, 'must be a text') ?? ''] as const
    if (isSecretName(name)) secrets.push(...text.split(VARIABLE_TEXT).filter((part) => part === text || part.trim().length >= 8).flatMap(secretParts))
    return [name, text.replaceAll(VARIABLE, (_, variable: string) => {
      const content = source.secret(variable)
      if (content === undefined) source.fault(at, `the variable ${variable} is not set`)
      else secrets.push(...isSecretName(name) ? secretParts(content) : [content])
      return content ?? ''
    })] as const
  })
  return Object.fromEntries(texts)
}

const TOOL_KEYS = ['description', 'inputSchema', 'method', 'url', 'headers', 'body', 'idempotent', 'timeoutMs', 'maxBytes'] as const

function readHttpTool (source: ToolSource, name: string, value: unknown): HttpTool | undefined {
  const at = below('tools', name)
  const entry = source.members(at, value ?? {}, TOOL_KEYS)
  const needed = (key: 'description' | 'url'): string | undefined =>
    entry[key] === undefined ? source.fault(below(at, key), 'is missing') : source.text(below(at, key), entry[key])
  const description = needed('description')
  const url = needed('url')
  const schema = entry.inputSchema ?? { type: 'object', properties: {}, additionalProperties: false }
  if (!isObject(schema)) source.fault(below(at, 'inputSchema'), 'must be a map')
  const method = source.oneOf(below(at, 'method'), entry.method, METHODS) ?? 'GET'
  const secrets: string[] = []
  const headers = readVariables(source, below(at, 'headers'), entry.headers, secrets)
  const rest = given({
    body: entry.body as Json | undefined,
    idempotent: readFlag(source, below(at, 'idempotent'), entry.idempotent),
    timeoutMs: source.integer(below(at, 'timeoutMs'), entry.timeoutMs, MS),
    maxBytes: source.integer(below(at, 'maxBytes'), entry.maxBytes, { min: 1, max: 67_108_864 })
  })
  return description === undefined || url === undefined ? undefined : { name, description, url, method, inputSchema: schema as Json, headers, secrets, ...rest }
}

function readFlag (source: Settings, key: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  return source.fault(key, 'must be true or false')
}
