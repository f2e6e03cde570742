import { PassThrough, type Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { Accepted } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { FramesQuery, FramesReadQuery, RunParams } from '../openapi/queries.ts'
import { isRefusal, refuse } from '../src/core/errors.ts'
import type { FrameSink } from '../src/core/live.ts'
import { idOf, type Plugin, type RouteTools } from './context.ts'
import { inflate } from './inflation.ts'
import { invalid } from './invalid.ts'

const MEDIA_TYPES = ['application/x-ndjson', 'application/ndjson', 'application/jsonl']
const LINES = 1000

/**
 * `/v1/runs/{id}/frames`: the output of a CLI that its host runs, as NDJSON, in whole or as it comes (claude-code.md, ingest). Its
 * body may be endless: nothing here waits for its end, or keeps more of it than a piece.
 */
export const framesRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools
  app.removeAllContentTypeParsers()
  // The body stays where it is: the handler reads it piece by piece.
  app.addContentTypeParser(MEDIA_TYPES, async () => undefined)
  app.post('/v1/runs/:id/frames', {
    config: { answers: 'json', streams: true },
    schema: {
      operationId: 'ingestFrames',
      tags: ['runs'],
      summary: 'Ingest the output of a Claude Code CLI',
      description: 'Takes the lines that the CLI writes (`--output-format stream-json`) as `application/x-ndjson`: a piece, the whole, or an ' +
        'endless chunked body. `from` is the number of the first line, counted from 0 over the whole output; lines that are ' +
        'known are skipped, so a host that lost its connection sends again from `framesAccepted` on. A line counts once it is durable. ' +
        'The end of a body ends a line: what stands behind its last line break counts as one.',
      params: RunParams,
      querystring: FramesQuery,
      response: {
        200: ref(Accepted),
        ...problems(['RUN_NOT_FOUND', 'NOT_ACCEPTABLE', 'FRAME_GAP', 'RUN_SETTLED', 'UNSUPPORTED_CAPABILITY', 'SHUTTING_DOWN'], { body: true })
      }
    }
  }, async (request, reply) => {
    const { from = 0, end = false } = request.query
    const life = tools.lifeOf(reply)
    try {
      const sink = await runs.openFrames(request.caller, idOf(request), from)
      await pour(request, sink, life.over)
      return { accepted: await sink.end(end) }
    } catch (error) {
      // What is left of the body flows away unread, so that its sender comes to read the answer.
      request.raw.unpipe().resume()
      if (life.gone.aborted && !isRefusal(error)) throw invalid([{ pointer: '', detail: 'the body ended early' }])
      throw error
    }
  })
  app.get('/v1/runs/:id/frames', {
    schema: {
      operationId: 'readFrames',
      tags: ['runs'],
      summary: 'Read the journal of a chat',
      description: 'The lines of a chat with a CLI, ingested or driven, as they came, from number `from` on; about `limit` of them.',
      params: RunParams,
      querystring: FramesReadQuery,
      response: {
        200: { description: 'NDJSON.', content: { 'application/x-ndjson': { schema: { type: 'string' } } } },
        ...problems(['RUN_NOT_FOUND', 'UNSUPPORTED_CAPABILITY'])
      }
    }
  }, async (request, reply) => {
    const { from = 0, limit = LINES } = request.query
    const lines = await runs.readFrames(request.caller, idOf(request), from, limit)
    return reply.type('application/x-ndjson').send(lines.map((line) => `${line}\n`).join(''))
  })
}

/** Hands the body to `sink`, as fast as it takes it. Rejects when the body breaks off, or when the service closes. */
async function pour (request: FastifyRequest, sink: FrameSink, over: AbortSignal): Promise<void> {
  const body = decoded(request)
  const stop = (): void => { body.destroy(refuse('SHUTTING_DOWN', { retryAfter: 1 })) }
  if (over.aborted) stop()
  else over.addEventListener('abort', stop)
  try {
    for await (const piece of body as AsyncIterable<Buffer>) await sink.push(piece)
  } catch (error) {
    throw isRefusal(error) || !(error as { code?: string }).code?.startsWith('Z_') ? error : invalid([{ pointer: '', detail: 'the body is not valid gzip' }])
  } finally {
    over.removeEventListener('abort', stop)
  }
}

function decoded ({ raw, headers }: FastifyRequest): Readable {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw refuse('UNSUPPORTED_MEDIA_TYPE', { detail: `the content encoding "${encoding}" is not taken: send gzip or none` })
  }
  // A stream of its own: to end it leaves the request's, which the answer needs.
  const body = encoding === 'gzip' ? inflate(raw, { endless: true }) : raw.pipe(new PassThrough())
  raw.once('close', () => { if (!raw.readableEnded) body.destroy(new Error('the body ended early')) })
  return body
}
