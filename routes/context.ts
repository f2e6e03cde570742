import type {} from '@fastify/swagger'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { refuse } from '../src/core/errors.ts'
import { isUuid } from '../src/core/ids.ts'
import type { RelayOptions } from '../src/core/run.ts'
import type { Caller, Runs } from '../src/runs/api.ts'
import type { StrictJson } from '../src/core/strict-json.ts'
import type { Attachments } from './attachments.ts'
import type { Verbatim } from './body.ts'
import type { Life } from './lives.ts'
import type { ItemText } from './views.ts'

/** What a key of `API_KEYS_FILE`, or a token, says of its bearer, as far as HTTP needs it (http-api.md 8.1). */
export interface KeyEntry {
  id: string
  tenant: string
  scopes: readonly string[]
  models?: string[] | undefined
  minDepth?: number | undefined
  limits?: { running?: number | undefined, startsPerMinute?: number | undefined, bodyBytes?: number | undefined } | undefined
}

export interface Readiness { ok: boolean, reason?: string }

export interface HttpMetrics {
  readonly contentType: string
  text (): Promise<string>
  /** `route` is the pattern of the path, not the path. */
  httpRequest (request: { route: string, method: string, status: number, seconds: number }): void
}

export interface RoutesDeps {
  runs: Runs
  /** Absent, as `tokens` is: no key is needed, and `access` says who may come. */
  keys?: { find (bearer: string): KeyEntry | undefined } | undefined
  /** Tokens of an issuer, asked for bearers that are no key. Throws the refusal. */
  tokens?: { verify (bearer: string): Promise<KeyEntry> } | undefined
  /** Without keys: `loopback` takes loopback hosts only, `open` any (http-api.md 8.2). */
  access: 'loopback' | 'open'
  /** The provider of a start that names none. */
  defaultProvider?: string | undefined
  maxBodyBytes: number
  maxWaitSeconds: number
  version: string
  ready: () => Readiness
  metrics?: HttpMetrics | undefined
  /** Aborted when the shutdown begins to end what waits and streams. */
  closing: AbortSignal
  now: () => number
  log: FastifyBaseLogger
}

/** What the plugins share beside the deps. */
export interface RouteTools extends RoutesDeps {
  lifeOf (reply: FastifyReply): Life
  attachments: Attachments
  itemText: ItemText
}
export type Plugin = FastifyPluginAsyncTypebox

/** The id in a path; a UUID in any case is the same one. Throws `NOT_FOUND` where there is none. */
export const idOf = (request: FastifyRequest): string => {
  const { id } = request.params as { id: string }
  if (id === '') throw refuse('NOT_FOUND', { detail: 'there is nothing at this path: an id is missing' })
  return isUuid(id) ? id.toLowerCase() : id
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose request it is; set by auth.ts on each route that is not `open`. */
    caller: Caller
    apiKey: KeyEntry | undefined
    /** The body's texts as they were sent, for the places that go on unchanged. */
    verbatim: Verbatim | undefined
    /** How the host wants refusals relayed, once known (http-api.md 5.2). */
    relay: RelayOptions
  }
  interface FastifyContextConfig {
    /** Needs no key. */
    open?: boolean
    /** The scope that a key needs: `read` for a GET and `write` for the rest, unless given. */
    scope?: string
    /** What the route answers, where `Accept` matters. */
    answers?: 'json' | 'json-or-events'
    /** Reads the body's text; the strict parser without verbatim places unless given. */
    parse?: (text: string) => StrictJson
    /** Counts against a key's `startsPerMinute`. */
    starts?: boolean
    /** Reads its body itself, piece by piece. */
    streams?: boolean
  }
}
