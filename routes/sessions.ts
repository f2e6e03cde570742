import { Session, SessionLength } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { noContent, problems } from '../openapi/problems.ts'
import { KeyHeaders, NoQuery, SessionParams } from '../openapi/queries.ts'
import { SessionMessagesRequest, SessionRequest } from '../openapi/requests.ts'
import { createStrictParser } from '../src/core/strict-json.ts'
import { idOf } from './context.ts'
import type { Plugin, RouteTools } from './context.ts'
import { idempotencyOf, rawTranscript } from './start-input.ts'
import { sessionLength, sessionView } from './views.ts'

const parseSession = createStrictParser({
  verbatim: ['/transcript/system', '/transcript/tools/*', '/transcript/messages/*'], anyNumber: ['/delegationDepth']
})
const parseMessages = createStrictParser({ verbatim: ['/messages/*'] })
const NO_TEXT = { text: () => 'null' }

/** A host's own sessions, kept here so that forks need no upload again: making one, and making it longer. */
export const sessionWriteRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools

  app.post('/v1/sessions', {
    config: { answers: 'json', parse: parseSession },
    schema: {
      operationId: 'createSession', tags: ['sessions'], summary: 'Keep a session',
      description: 'Keeps a host\'s own conversation, so that a fork of it is `{"parent": {"sessionId": …}}`.',
      querystring: NoQuery, headers: KeyHeaders, body: ref(SessionRequest),
      response: {
        201: ref(SessionLength), 200: ref(SessionLength),
        ...problems(
          ['NOT_ACCEPTABLE', 'SESSION_CONFLICT', 'DEPTH_INVALID', 'TRANSCRIPT_INVALID', 'IDEMPOTENCY_MISMATCH', 'SHUTTING_DOWN'], { body: true }
        )
      }
    }
  }, async (request, reply) => {
    const { body } = request
    const { transcript, model, cwd, metadata = {} } = body
    const { session, replayed } = await runs.createSession(request.caller, {
      metadata,
      ...body.id !== undefined && { id: body.id.toLowerCase() },
      ...transcript && { transcript: rawTranscript(transcript, '/transcript', request.verbatim ?? NO_TEXT) },
      ...model !== undefined && { model },
      ...cwd !== undefined && { cwd },
      ...'delegationDepth' in body && { delegationDepth: body.delegationDepth }
    }, idempotencyOf(request))
    if (replayed) reply.header('idempotency-replayed', 'true')
    return reply.code(replayed ? 200 : 201).header('location', `/v1/sessions/${session.id}`).send(sessionLength(session))
  })

  app.post('/v1/sessions/:id/messages', {
    config: { answers: 'json', parse: parseMessages },
    schema: {
      operationId: 'appendSession', tags: ['sessions'], summary: 'Append messages to a session', params: SessionParams,
      querystring: NoQuery,
      headers: KeyHeaders, body: ref(SessionMessagesRequest),
      response: {
        200: ref(SessionLength),
        ...problems(
          [
            'SESSION_NOT_FOUND', 'NOT_ACCEPTABLE', 'SESSION_CONFLICT', 'TRANSCRIPT_INVALID', 'IDEMPOTENCY_MISMATCH',
            'SHUTTING_DOWN'
          ],
          { body: true }
        )
      }
    }
  }, async (request, reply) => {
    const { after, messages } = request.body
    const { verbatim = NO_TEXT } = request
    const texts = messages.map((_, index) => verbatim.text(`/messages/${index}`))
    const { session, replayed } = await runs.appendSession(request.caller, idOf(request), after, texts, idempotencyOf(request))
    if (replayed) reply.header('idempotency-replayed', 'true')
    return sessionLength(session)
  })
}

/** A session's state, and its end. */
export const sessionRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools

  app.get('/v1/sessions/:id', {
    config: { answers: 'json' },
    schema: {
      operationId: 'getSession', tags: ['sessions'], summary: 'A session', params: SessionParams, querystring: NoQuery,
      response: { 200: ref(Session) as object, ...problems(['SESSION_NOT_FOUND', 'NOT_ACCEPTABLE']) }
    }
  }, async (request) => sessionView(await runs.getSession(request.caller, idOf(request))))

  app.delete('/v1/sessions/:id', {
    schema: {
      operationId: 'deleteSession', tags: ['sessions'], summary: 'Forget a session',
      description: 'Cancels its runs. The same again is `204` again.',
      params: SessionParams, querystring: NoQuery, response: { 204: noContent('Gone.'), ...problems(['NOT_FOUND']) }
    }
  }, async (request, reply) => {
    await runs.deleteSession(request.caller, idOf(request))
    return reply.code(204).send()
  })
}
