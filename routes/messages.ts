import { Message, Run } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { AnswerHeaders, NoQuery, RunParams } from '../openapi/queries.ts'
import { MessageRequest } from '../openapi/requests.ts'
import { idOf } from './context.ts'
import type { Plugin, RouteTools } from './context.ts'
import { preferredWait, usedWait } from './prefer.ts'
import { idempotencyOf } from './start-input.ts'
import { runView, runWithResult } from './views.ts'

/** `POST /v1/runs/{id}/messages`: steers a run under way, or goes on with a settled one (http-api.md 7.3). */
export const messagesRoute = (tools: RouteTools): Plugin => async (app) => {
  const { runs, maxWaitSeconds } = tools
  app.post('/v1/runs/:id/messages', {
    config: { answers: 'json' },
    schema: {
      operationId: 'sendMessage',
      tags: ['runs'],
      summary: 'Steer a run, or follow up a settled one',
      description: '`steer`: `202`, the run\'s next step has the message. `follow-up`: `201`, a new run on the same session. ' +
        '`Prefer: wait=N` holds the answer until the run is settled or waits for its host.',
      params: RunParams,
      querystring: NoQuery,
      headers: AnswerHeaders,
      body: ref(MessageRequest),
      response: {
        202: ref(Message),
        201: ref(Run),
        200: ref(Run),
        ...problems([
          'RUN_NOT_FOUND', 'NOT_ACCEPTABLE', 'RUN_SETTLED', 'SESSION_CONFLICT', 'PARENT_ABORTED', 'START_ABORTED', 'NO_PROVIDER',
          'UNSUPPORTED_CAPABILITY', 'IDEMPOTENCY_MISMATCH', 'QUOTA_EXCEEDED', 'OVERLOADED', 'SHUTTING_DOWN'
        ], { body: true })
      }
    }
  }, async (request, reply) => {
    const { content, mode = 'steer' } = request.body
    const life = tools.lifeOf(reply)
    const key = idempotencyOf(request)
    const input = { mode, content: typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content }
    const sent = await runs.sendMessage(request.caller, idOf(request), input, { signal: life.gone, ...key && { key } })
    if (sent.replayed) reply.header('idempotency-replayed', 'true')
    const asked = preferredWait(request.headers.prefer)
    const wait = asked === undefined ? undefined : usedWait(asked, maxWaitSeconds)
    if (wait !== undefined) reply.header('preference-applied', `wait=${wait}`)
    const id = 'run' in sent ? sent.run.id : idOf(request)
    const later = wait === undefined ? undefined : await runs.wait(request.caller, id, { ms: wait * 1000, signal: life.over, orWaiting: true })
    if (!('run' in sent)) return reply.code(202).send({ messageId: sent.messageId })
    reply.code(sent.replayed ? 200 : 201).header('location', `/v1/runs/${id}`)
    const run = later ?? sent.run
    return run.status === 'settled' ? runWithResult(run, await runs.relayOptions(request.caller, id)) : runView(run)
  })
}
