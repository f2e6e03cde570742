import { createRequire } from 'node:module'
import { pino, stdTimeFunctions } from 'pino'
import type { DestinationStream, Level, Logger } from 'pino'
import type PinoPretty from 'pino-pretty'
import { createRedactor } from '../core/secrets.ts'

export interface LogOptions {
  level: Level | 'silent'
  /** For people: coloured lines, written at once. Otherwise a JSON object a line. */
  pretty: boolean
  /** Default: standard output. */
  destination?: DestinationStream
  /** Taken out of every line, wherever they stand. */
  secrets?: readonly string[]
}

/** A log in which no secret stands (quality.md): known fields are cut out, and what looks like a key or a token anywhere. */
export function createLogger ({ level, pretty, destination, secrets = [] }: LogOptions): Logger {
  const redact = createRedactor(secrets)
  return pino({
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    redact: { paths: SECRET_PATHS, censor: REDACTED },
    serializers: {
      err: (error: unknown) => plainError(error),
      error: (error: unknown) => plainError(error),
      req: plainRequest,
      res: plainReply
    },
    hooks: { streamWrite: (line) => withoutSecrets(redact(line)) }
  }, pretty ? prettyStream(destination) : destination ?? pino.destination({ dest: 1, sync: true }))
}

const REDACTED = '[redacted]'
const SECRET_FIELDS = [
  'authorization', 'Authorization', 'cookie', 'apiKey', 'api_key', 'token', 'secret', 'password',
  '["x-api-key"]', '["set-cookie"]'
]
const SECRET_PATHS = SECRET_FIELDS.flatMap((field) => {
  const dot = field.startsWith('[') ? '' : '.'
  return [field, `*${dot}${field}`, `*.*${dot}${field}`]
})

/** `Bearer …`, `sk-…` (most vendors', and this service's own), and credentials in URLs. */
const withoutSecrets = (line: string): string => line
  .replace(/\b(Bearer|Basic) +[\w.~+/=-]{6,}/gi, `$1 ${REDACTED}`)
  .replace(/\bsk-[\w*-]{6,}/g, REDACTED)
  .replace(/(:\/\/)[^\s/@"\\]+@/g, `$1${REDACTED}@`)

/** What is told of an error: never its other fields, which may hold requests, headers and bodies. */
export interface PlainError { type: string, message: string, code?: string | number, stack?: string, cause?: PlainError }

const MAX_CAUSES = 5
const MAX_MESSAGE = 4096

export function plainError (error: unknown, depth = 0): PlainError {
  if (!(error instanceof Error)) return { type: typeof error, message: clip(typeof error === 'string' ? error : safeJson(error)) }
  const { code } = error as { code?: unknown }
  return {
    type: error.name,
    message: clip(error.message),
    ...(typeof code === 'string' || typeof code === 'number') && { code },
    ...error.stack !== undefined && { stack: clip(error.stack) },
    ...error.cause !== undefined && depth < MAX_CAUSES && { cause: plainError(error.cause, depth + 1) }
  }
}

function safeJson (value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return 'a value that is not JSON'
  }
}

const clip = (text: string): string => text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE)}…` : text

function plainRequest (request: { method?: string, url?: string, host?: string, ip?: string }): object {
  return { method: request.method, url: request.url, host: request.host, remoteAddress: request.ip }
}
const plainReply = (reply: { statusCode?: number }): object => ({ statusCode: reply.statusCode })

/** Loaded only where it is used. */
function prettyStream (destination: DestinationStream | undefined): DestinationStream {
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof PinoPretty
  return pretty({
    sync: true,
    singleLine: true,
    colorize: destination === undefined,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    ...destination !== undefined && { destination: destination as NodeJS.WritableStream }
  })
}
