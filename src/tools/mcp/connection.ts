import { Client, type CallToolResult, type Progress, type RequestOptions, type Tool as ListedTool, type Transport } from '@modelcontextprotocol/client'
import { messageOf } from '../../core/errors.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { CompileSchema } from '../../core/tool.ts'
import type { Outbound } from '../outbound.ts'
import { connectFailure, failureOf, type Failure, type TransportState } from './failure.ts'
import { HttpTransport } from './http-transport.ts'
import type { McpLog, McpServerConfig } from './server-config.ts'
import { StdioTransport } from './stdio-transport.ts'

export interface ConnectionDeps {
  version: string
  outbound: Outbound
  compile: CompileSchema
  log: McpLog
  redact: (text: string) => string
  connectMs: number
  requestMs: number
  onToolsChanged: () => void
  /** Once, if the server goes by itself. */
  onLost: (reason: string) => void
}

export interface Call { name: string, input: JsonObject, signal: AbortSignal, onProgress: (progress: Progress) => void }

/** A connected server. Its calls reject with a `RequestFailed`, or with the reason of their signal. */
export interface Connection {
  listTools (): Promise<ListedTool[]>
  callTool (call: Call): Promise<CallToolResult>
  /** Whether it still answers at all. */
  answers (): Promise<boolean>
  /** Ends the connection and, for a process, its whole group. Nothing of it is left when this resolves. */
  close (): Promise<void>
}

export class RequestFailed extends Error {
  readonly failure: Failure
  constructor (failure: Failure, cause: unknown) {
    super(failure.reason, { cause })
    this.failure = failure
  }
}

const MAX_MESSAGE_BYTES = 32 * 1024 * 1024
/** A process that knows only the older protocol may not answer the question for the newer one at all. */
const PROBE_MS = 3000
const PING_MS = 3000

/**
 * Connects to a server and shakes hands, in the newest protocol that both know. Rejects with an `Error` that says why in words,
 * and then nothing is left of the attempt.
 */
export async function openConnection (config: McpServerConfig, deps: ConnectionDeps, signal: AbortSignal): Promise<Connection> {
  const first = await attempt(config, deps, signal, false)
  if (first.connection) return first.connection
  // Some servers of the older protocol end at the question for the newer one.
  const again = first.process && first.endedByItself ? await attempt(config, deps, signal, true) : first
  if (again.connection) return again.connection
  throw new Error(again.reason)
}

interface Attempt { connection?: Connection, reason: string, process: boolean, endedByItself: boolean }

async function attempt (config: McpServerConfig, deps: ConnectionDeps, signal: AbortSignal, olderOnly: boolean): Promise<Attempt> {
  const transport = createTransport(config, deps)
  const client = createClient(config, deps)
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(new Error(`it did not answer in ${deps.connectMs} ms`)), deps.connectMs)
  const stop = (): void => deadline.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  const aborted = Promise.withResolvers<never>()
  deadline.signal.addEventListener('abort', () => aborted.reject(deadline.signal.reason as Error), { once: true })
  try {
    const connecting = client.connect(transport as Transport, {
      timeout: deps.connectMs, signal: deadline.signal, ...(olderOnly ? { prior: { kind: 'legacy' } } : {})
    })
    // Closing it below ends it; what it says then is no news.
    connecting.catch(() => {})
    await Promise.race([connecting, aborted.promise])
    return { connection: connectionOf(client, transport, deps), reason: '', process: true, endedByItself: false }
  } catch (error) {
    const ended = endOf(transport)
    const reason = deps.redact(deadline.signal.aborted ? messageOf(deadline.signal.reason) : connectFailure(error, ended))
    await transport.close().catch((failure: unknown) => deps.log.warn({ mcp: config.name, err: failure }, 'an MCP server could not be ended'))
    return { reason, process: config.kind === 'stdio', endedByItself: ended !== undefined && !deadline.signal.aborted }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

type AnyTransport = StdioTransport | HttpTransport
const endOf = (transport: AnyTransport): string | undefined => transport instanceof StdioTransport ? transport.ended : undefined

const stateOf = (transport: AnyTransport): TransportState =>
  transport instanceof StdioTransport ? { ended: transport.ended } : { hasSession: transport.sessionId !== undefined }

function createTransport (config: McpServerConfig, { outbound, log, redact }: ConnectionDeps): AnyTransport {
  if (config.kind === 'http') {
    const { url, headers = {} } = config
    return new HttpTransport({ url, headers, maxMessageBytes: MAX_MESSAGE_BYTES, fetch: outbound.fetch })
  }
  const { name, command, args = [], env = {}, cwd } = config
  return new StdioTransport({
    command, args, env, maxMessageBytes: MAX_MESSAGE_BYTES, onStderr: (line) => log.info({ mcp: name }, redact(line)), ...(cwd === undefined ? {} : { cwd })
  })
}

function createClient (config: McpServerConfig, { version, compile, log, redact, connectMs, onToolsChanged }: ConnectionDeps): Client {
  const probeMs = config.kind === 'stdio' ? Math.min(PROBE_MS, connectMs / 2) : connectMs
  const client = new Client({ name: 'subagentd', version }, {
    capabilities: {},
    versionNegotiation: { mode: 'auto', probe: { timeoutMs: probeMs } },
    inputRequired: { autoFulfill: false },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: onToolsChanged } },
    jsonSchemaValidator: {
      getValidator: <T>(schema: unknown) => {
        const violations = outputCheck(compile, schema as Json)
        return (value: unknown) => {
          const faults = violations(value as Json)
          return faults.length === 0
            ? { valid: true, data: value as T, errorMessage: undefined }
            : { valid: false, data: undefined, errorMessage: faults.join('; ') }
        }
      }
    }
  })
  // What the parser says of a line that is no JSON holds pieces of it, in which no secret can be told.
  client.onerror = (error) => log.debug({ mcp: config.name }, redact(`MCP: ${error instanceof SyntaxError ? 'a line that is not JSON' : messageOf(error)}`))
  return client
}

/** A result is not lost for a schema that cannot be compiled here. */
function outputCheck (compile: CompileSchema, schema: Json): (value: Json) => string[] {
  try {
    return compile(schema)
  } catch {
    return () => []
  }
}

function connectionOf (client: Client, transport: AnyTransport, { requestMs, onLost, redact }: ConnectionDeps): Connection {
  let closing: Promise<void> | undefined
  client.onclose = () => { if (!closing) onLost(redact(endOf(transport) ?? 'the connection was closed')) }
  if (endOf(transport) !== undefined) queueMicrotask(() => client.onclose?.())
  const request = async <T>(signal: AbortSignal | undefined, send: (options: RequestOptions) => Promise<T>): Promise<T> => {
    signal?.throwIfAborted()
    try {
      return await send({ timeout: requestMs, ...(signal ? { signal } : {}) })
    } catch (error) {
      signal?.throwIfAborted()
      const failure = failureOf(error, stateOf(transport))
      throw new RequestFailed({ ...failure, reason: redact(failure.reason) }, error)
    }
  }
  return {
    async listTools () {
      if (!client.getServerCapabilities()?.tools) return []
      return (await request(undefined, (options) => client.listTools(undefined, { ...options, cacheMode: 'refresh' }))).tools
    },
    callTool: ({ name, input, signal, onProgress }) => request(signal, (options) =>
      client.callTool({ name, arguments: input }, { ...options, resetTimeoutOnProgress: true, onprogress: onProgress })),
    answers: () => client.ping({ timeout: Math.min(PING_MS, requestMs) }).then(() => true, (error: unknown) => !['silent', 'lost'].includes(failureOf(error, stateOf(transport)).kind)),
    close () {
      closing ??= transport.close()
      return closing
    }
  }
}
