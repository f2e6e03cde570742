import type { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isRefusal, refuse } from '../src/core/errors.ts'
import { isObject } from '../src/core/json.ts'
import { createStrictParser } from '../src/core/strict-json.ts'
import type { StrictJson } from '../src/core/strict-json.ts'
import { inflate } from './inflation.ts'
import { invalid } from './invalid.ts'

/** The texts of a body at its verbatim places (strict-json.ts), exactly as they were sent. */
export interface Verbatim { text (pointer: string): string }

type Parse = (text: string) => StrictJson

/**
 * Takes request bodies: `application/json` in UTF-8, plain or gzip, up to `maxBytes` decoded (or the key's own limit), strict
 * JSON. Refuses with `UNSUPPORTED_MEDIA_TYPE`, `PAYLOAD_TOO_LARGE`, `INVALID_REQUEST`. An empty body is `{}`.
 */
export function takeJsonBodies (app: FastifyInstance, maxBytes: number): void {
  const strict = createStrictParser()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    checkCharset(request.headers['content-type'] ?? '')
    const limit = Math.min(maxBytes, request.apiKey?.limits?.bodyBytes ?? maxBytes)
    const bytes = await readAll(payload, request.headers, limit)
    const text = utf8(bytes)
    if (text.length <= AT_ONCE && text.trim() === '') return {}
    const value = await parse(request, text, request.routeOptions.config.parse ?? strict)
    if (value === null) throw invalid([{ pointer: '', detail: 'must be an object, not null' }])
    return value
  })
  app.addHook('preValidation', async (request) => {
    if (request.routeOptions.config.streams) return
    if (request.routeOptions.schema?.body !== undefined) request.body ??= {}
    else if (isObject(request.body)) {
      const [field] = Object.keys(request.body)
      if (field !== undefined) throw invalid([{ pointer: '', detail: 'this request takes no body' }])
    } else if (request.body !== undefined) throw invalid([{ pointer: '', detail: 'this request takes no body' }])
  })
}

/** Of a longer text each step has a turn of the event loop to itself. */
const AT_ONCE = 1_048_576

async function parse (request: FastifyRequest, text: string, parser: Parse): Promise<unknown> {
  if (text.length > AT_ONCE) await turn()
  const parsed = parser(text)
  if (parsed.faults.length > 0) throw invalid(parsed.faults)
  request.verbatim = { text: (pointer) => parsed.raw(pointer) ?? 'null' }
  if (text.length > AT_ONCE) await turn()
  const { value } = parsed
  if (text.length > AT_ONCE) await turn()
  return value
}

function checkCharset (contentType: string): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)"?/i.exec(contentType)?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw refuse('UNSUPPORTED_MEDIA_TYPE', { detail: `the charset "${charset}" is not taken: send UTF-8` })
  }
}

/** The decoded bytes. Encoded and decoded ones each count against the limit: neither may grow without end. */
async function readAll (payload: Readable, headers: FastifyRequest['headers'], limit: number): Promise<Buffer> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw refuse('UNSUPPORTED_MEDIA_TYPE', { detail: `the content encoding "${encoding}" is not taken: send gzip or none` })
  }
  if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge(payload, limit)
  if (encoding === 'identity') return collect(payload, payload, limit)
  let encoded = 0
  const inflated = inflate(payload, { endless: false })
  payload.on('data', (chunk: Buffer) => {
    encoded += chunk.length
    if (encoded > limit) inflated.destroy(refuse('PAYLOAD_TOO_LARGE', { limit }))
  })
  payload.once('error', (error) => inflated.destroy(error))
  return collect(inflated, payload, limit)
}

/** A body must have come in whole by then. */
const BODY_TIMEOUT_MS = 300_000

function collect (stream: Readable, payload: Readable, limit: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  let size = 0
  stream.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= limit) return void chunks.push(chunk)
    chunks.length = 0
    reject(tooLarge(payload, limit))
    if (stream !== payload) stream.destroy()
  })
  const late = setTimeout(() => {
    payload.unpipe()
    reject(invalid([{ pointer: '', detail: 'the request did not come in time' }], 408))
  }, BODY_TIMEOUT_MS)
  promise.catch(() => {}).finally(() => clearTimeout(late))
  stream.once('end', () => { resolve(chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks)) })
  stream.once('error', (error) => { reject(unreadable(error, stream !== payload)) })
  stream.once('close', () => {
    if (!stream.readableEnded) reject(unreadable(new Error('the body ended early'), false))
  })
  return promise
}

/** What is left of the body flows away unread; the connection closes after the answer. */
function tooLarge (payload: Readable, limit: number): Error {
  payload.unpipe()
  payload.resume()
  return refuse('PAYLOAD_TOO_LARGE', { limit })
}

function unreadable (error: Error & { code?: unknown }, gzipped: boolean): Error {
  if (isRefusal(error)) return error
  return invalid([{ pointer: '', detail: gzipped ? 'the body is not valid gzip' : 'the body could not be read to its end' }])
}

function utf8 (bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid([{ pointer: '', detail: 'the body is not valid UTF-8' }])
  }
}
