import { isRefusal, messageOf } from '../../core/errors.ts'
import { createRedactor } from '../../core/secrets.ts'
import type { JsonObject } from '../../core/json.ts'
import { toolError, type CompileSchema, type Tool, type ToolContext, type ToolOutcome } from '../../core/tool.ts'
import type { Outbound } from '../outbound.ts'
import { createBackoff, type Backoff } from './backoff.ts'
import type { Connection } from './connection.ts'
import type { Failure } from './failure.ts'
import { MCP_CONNECT_TIMEOUT_MS, MCP_TIMEOUT_MS, type McpLog, type McpServerConfig } from './server-config.ts'
import { toolsOf } from './tools.ts'

export interface McpDeps {
  version: string
  outbound: Outbound
  compile: CompileSchema
  log: McpLog
  now?: () => number
}

/** A remote server may lose the stream of its notifications unseen: its list is asked for again after so long. */
const REMOTE_LIST_MS = 60_000
const CLOSING = 'the service is closing'

/** One attempt to have a connection, from its beginning to the end of what came of it. */
interface Link { connection?: Connection, lost?: string }

/** One server of the deployment, shared by all runs: connected on first use and again when it was lost, its list of tools kept. */
export class McpServer {
  readonly #config: McpServerConfig
  readonly #deps: McpDeps
  readonly #now: () => number
  readonly #redact: (text: string) => string
  readonly #backoff: Backoff
  readonly #closing = new AbortController()
  #link: Link | undefined
  #connecting: Promise<Connection> | undefined
  #reason = 'it was never connected'
  #tools: Tool[] | undefined
  #listedAt = 0
  /** Counts what makes the list a thing of the past. */
  #generation = 0
  #listed = -1
  #listing: Promise<Tool[]> | undefined
  #leaving = new Set<Promise<void>>()

  constructor (config: McpServerConfig, deps: McpDeps) {
    this.#config = config
    this.#deps = deps
    this.#now = deps.now ?? Date.now
    this.#redact = createRedactor(config.secrets ?? [])
    this.#backoff = createBackoff(this.#now)
  }

  /**
   * Its tools; without a connection the ones it had last, whose calls then say what is wrong. Of a server that never answered a
   * notice instead, or a rejection where it is required. Rejects with the signal's reason, and `TOOL_NAME_TAKEN`.
   */
  async tools (signal: AbortSignal): Promise<{ tools: Tool[], notice?: string }> {
    try {
      const connection = await abortable(this.#connect(), signal)
      return { tools: this.#isFresh() ? this.#tools ?? [] : await abortable(this.#list(connection), signal) }
    } catch (error) {
      signal.throwIfAborted()
      if (isRefusal(error)) throw error
      if (this.#tools) return { tools: this.#tools }
      const notice = `${this.#unavailable(error)}: its tools are missing`
      if (this.#config.required) throw new Error(this.#unavailable(error), { cause: error })
      return { tools: [], notice }
    }
  }

  async close (): Promise<void> {
    this.#closing.abort(new Error(CLOSING))
    await this.#connecting?.catch(() => {})
    if (this.#link) this.#leave(this.#link, CLOSING)
    await Promise.all(this.#leaving)
  }

  #connect (): Promise<Connection> {
    if (this.#closing.signal.aborted) return Promise.reject(new Error(CLOSING))
    if (this.#link?.connection) return Promise.resolve(this.#link.connection)
    if (this.#connecting) return this.#connecting
    const wait = this.#backoff.waitMs()
    if (wait > 0) return Promise.reject(new Error(`${this.#reason}; the next attempt is possible in ${Math.ceil(wait / 1000)} s`))
    this.#connecting = this.#open().finally(() => { this.#connecting = undefined })
    // Everyone who waits may have left before it fails.
    this.#connecting.catch(() => {})
    return this.#connecting
  }

  async #open (): Promise<Connection> {
    const { name, connectTimeoutMs = MCP_CONNECT_TIMEOUT_MS, timeoutMs = MCP_TIMEOUT_MS } = this.#config
    const { version, outbound, compile, log } = this.#deps
    const link: Link = {}
    try {
      const { openConnection } = await import('./connection.ts')
      link.connection = await openConnection(this.#config, {
        version, outbound, compile, log, redact: this.#redact, connectMs: connectTimeoutMs, requestMs: timeoutMs,
        onToolsChanged: () => { this.#generation++ },
        onLost: (reason) => this.#lose(link, reason)
      }, this.#closing.signal)
    } catch (error) {
      this.#reason = messageOf(error)
      this.#backoff.failed()
      if (!this.#closing.signal.aborted) log.warn({ mcp: name, reason: this.#reason }, 'an MCP server cannot be connected')
      throw error
    }
    this.#generation++
    this.#link = link
    if (link.lost !== undefined) this.#lose(link, link.lost)
    else log.info({ mcp: name }, 'an MCP server is connected')
    return link.connection
  }

  /** The connection answers nothing any more; the next use makes another. */
  #lose (link: Link, reason: string): void {
    link.lost = reason
    if (this.#link !== link) return
    this.#reason = `it was lost: ${reason}`
    this.#backoff.lost()
    this.#deps.log.warn({ mcp: this.#config.name, reason }, 'an MCP server was lost')
    this.#leave(link, reason)
  }

  #leave (link: Link, reason: string): void {
    link.lost = reason
    if (this.#link === link) this.#link = undefined
    if (!link.connection) return
    const leaving = link.connection.close().catch((error: unknown) => {
      this.#deps.log.warn({ mcp: this.#config.name, err: error }, 'an MCP server could not be ended')
    }).finally(() => this.#leaving.delete(leaving))
    this.#leaving.add(leaving)
  }

  #isFresh (): boolean {
    const isOld = this.#config.kind === 'http' && this.#now() - this.#listedAt > REMOTE_LIST_MS
    return this.#tools !== undefined && this.#listed === this.#generation && !isOld
  }

  #list (connection: Connection): Promise<Tool[]> {
    this.#listing ??= this.#readList(connection).finally(() => { this.#listing = undefined })
    this.#listing.catch(() => {})
    return this.#listing
  }

  async #readList (connection: Connection): Promise<Tool[]> {
    const { name } = this.#config
    const { compile, log } = this.#deps
    const generation = this.#generation
    try {
      const listed = await connection.listTools()
      this.#tools = toolsOf(name, listed, {
        compile, redact: this.#redact,
        call: (...args) => this.#call(...args),
        onUnchecked: (tool, reason) => log.warn({ mcp: name, tool, reason }, 'the input schema of an MCP tool cannot be checked here')
      })
    } catch (error) {
      if (!isRefusal(error)) await this.#judge(connection, error)
      throw error
    }
    this.#listed = generation
    this.#listedAt = this.#now()
    return this.#tools
  }

  async #call (tool: string, idempotent: boolean, input: JsonObject, context: ToolContext): Promise<ToolOutcome> {
    const { signal } = context
    for (let retried = false; ; retried = true) {
      let connection: Connection
      try {
        connection = await abortable(this.#connect(), signal)
      } catch (error) {
        signal.throwIfAborted()
        return toolError(this.#unavailable(error))
      }
      try {
        const result = await connection.callTool({
          name: tool, input, signal,
          onProgress: ({ progress, total, message }) => context.progress?.({
            progress, ...(total === undefined ? {} : { total }), ...(message === undefined ? {} : { message: this.#redact(message) })
          })
        })
        this.#backoff.succeeded()
        const { outcomeOf } = await import('./content.ts')
        return outcomeOf(result, this.#redact)
      } catch (error) {
        signal.throwIfAborted()
        const failure = await this.#judge(connection, error)
        // The server did nothing: it does not know this session, and will know the next one.
        if (failure.kind === 'session' && !retried) continue
        return toolError(this.#failed(tool, idempotent, failure))
      }
    }
  }

  /** What a failed request means for the connection. */
  async #judge (connection: Connection, error: unknown): Promise<Failure> {
    const { RequestFailed } = await import('./connection.ts')
    if (!(error instanceof RequestFailed)) throw error
    const { failure } = error
    const link = this.#link?.connection === connection ? this.#link : undefined
    if (!link) return failure
    if (failure.kind === 'lost') this.#lose(link, failure.reason)
    else if (failure.kind === 'session') this.#leave(link, failure.reason)
    else if (failure.kind === 'silent') void connection.answers().then((answers) => { if (!answers) this.#lose(link, 'it does not answer') })
    return failure
  }

  #failed (tool: string, idempotent: boolean, { kind, reason, sent }: Failure): string {
    const server = `MCP server "${this.#config.name}"`
    const unknown = sent && !idempotent ? '; outcome unknown: check before retrying' : ''
    switch (kind) {
      case 'lost': return `${server} was lost during the call: ${reason}${unknown}`
      case 'silent': return `${server} did not answer the call of "${tool}" in ${this.#config.timeoutMs ?? MCP_TIMEOUT_MS} ms${unknown}`
      case 'session':
      case 'refused': return `${server} failed the call of "${tool}": ${reason}${unknown}`
      default: return kind satisfies never
    }
  }

  #unavailable (error: unknown): string {
    return `MCP server "${this.#config.name}" is not available: ${messageOf(error)}`
  }
}

/** The promise, or the reason of a signal that aborts first; no listener stays. */
async function abortable<T> (promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const stop = (): void => aborted.reject(signal.reason as Error)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
