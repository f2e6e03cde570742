import { Run } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { AnswerHeaders, NoQuery, RunParams } from '../openapi/queries.ts'
import { ToolResultsRequest } from '../openapi/requests.ts'
import type { ToolAnswer } from '../src/runs/api.ts'
import { idOf } from './context.ts'
import type { Plugin, RouteTools } from './context.ts'
import { invalid } from './invalid.ts'
import { preferredWait, usedWait } from './prefer.ts'
import { idempotencyOf } from './start-input.ts'
import { runView, runWithResult } from './views.ts'

/** `POST /v1/runs/{id}/tool-results`: the host's answers to its calls (http-api.md 7.2). */
export const toolResultsRoute = (tools: RouteTools): Plugin => async (app) => {
  const { runs, maxWaitSeconds } = tools
  app.post('/v1/runs/:id/tool-results', {
    config: { answers: 'json' },
    schema: {
      operationId: 'answerTools',
      tags: ['runs'],
      summary: 'Answer calls of tools that the host executes',
      description: 'All or nothing. The same answer again is `200`. `Prefer: wait=N` holds the answer until the run is ' +
        'settled or waits again.',
      params: RunParams,
      querystring: NoQuery,
      headers: AnswerHeaders,
      body: ref(ToolResultsRequest),
      response: {
        200: ref(Run),
        ...problems(
          ['RUN_NOT_FOUND', 'NOT_ACCEPTABLE', 'TOOL_CALL_NOT_PENDING', 'IDEMPOTENCY_MISMATCH', 'SHUTTING_DOWN'], { body: true }
        )
      }
    }
  }, async (request, reply) => {
    const id = idOf(request)
    const answers = answersOf(request.body.results)
    const { run, replayed } = await runs.answerTools(request.caller, id, answers, idempotencyOf(request))
    if (replayed) reply.header('idempotency-replayed', 'true')
    const asked = preferredWait(request.headers.prefer)
    if (asked !== undefined) reply.header('preference-applied', `wait=${usedWait(asked, maxWaitSeconds)}`)
    const later = asked === undefined
      ? run
      : await runs.wait(
        request.caller, id, { ms: usedWait(asked, maxWaitSeconds) * 1000, signal: tools.lifeOf(reply).over, orWaiting: true }
      )
    return later.status === 'settled' ? runWithResult(later, await runs.relayOptions(request.caller, id)) : runView(later)
  })
}

function answersOf (results: { toolCallId: string, content: string | ToolAnswer['content'], isError?: boolean }[]): ToolAnswer[] {
  const seen = new Set<string>()
  return results.map(({ toolCallId, content, isError = false }, index) => {
    if (seen.has(toolCallId)) throw invalid([{ pointer: `/results/${index}/toolCallId`, detail: `repeats "${toolCallId}"` }])
    seen.add(toolCallId)
    return { toolCallId, content: typeof content === 'string' ? [{ type: 'text', text: content }] : content, isError }
  })
}
