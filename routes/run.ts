import { Result, Run, RunTree, Starting, Unsettled } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { noContent, problems } from '../openapi/problems.ts'
import { NoQuery, ResultQuery, RunParams, WaitQuery } from '../openapi/queries.ts'
import { CancelRequest } from '../openapi/requests.ts'
import { invalid } from './invalid.ts'
import { idOf } from './context.ts'
import type { Plugin, RouteTools } from './context.ts'
import { usedWait } from './prefer.ts'
import { relayFaultOf, relayOptions } from './start-input.ts'
import { resultView, runView, treeView, unsettledView } from './views.ts'

/** How soon to ask again for a result that is not there. */
const ASK_AGAIN_SECONDS = 1

/** One run: status, tree, deletion. */
export const runRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools
  const responses = problems(['RUN_NOT_FOUND', 'NOT_ACCEPTABLE'])

  app.get('/v1/runs/:id', {
    config: { answers: 'json' },
    schema: {
      operationId: 'getRun', tags: ['runs'], summary: 'Status of a run', params: RunParams, querystring: NoQuery,
      response: { 200: ref(Run), ...responses }
    }
  }, async (request) => runView(await runs.get(request.caller, idOf(request))))

  app.get('/v1/runs/:id/tree', {
    config: { answers: 'json' },
    schema: {
      operationId: 'getRunTree', tags: ['runs'], summary: 'A run with its children, recursively', params: RunParams,
      querystring: NoQuery,
      response: { 200: ref(RunTree), ...responses }
    }
  }, async (request) => treeView(await runs.tree(request.caller, idOf(request))))

  app.delete('/v1/runs/:id', {
    schema: {
      operationId: 'deleteRun',
      tags: ['runs'],
      summary: 'Dispose a run and forget it',
      description: 'Cancels what is left of the run and its descendants, then forgets them. Readers that wait get the ' +
        '`aborted` result. The same again is `204` again.',
      params: RunParams,
      querystring: NoQuery,
      response: { 204: noContent('Gone.'), ...problems(['NOT_FOUND']) }
    }
  }, async (request, reply) => {
    await runs.dispose(request.caller, idOf(request))
    return reply.code(204).send()
  })
}

/** The result of a run, and its cancellation. */
export const outcomeRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs, maxWaitSeconds } = tools

  app.get('/v1/runs/:id/result', {
    config: { answers: 'json' },
    schema: {
      operationId: 'getResult',
      tags: ['runs'],
      summary: 'Result of a run',
      description: '`200` with the result once the run is settled, else `202` with `Retry-After`. `wait` holds the answer ' +
        'until the run is settled or waits for its host.',
      params: RunParams,
      querystring: ResultQuery,
      response: { 200: ref(Result), 202: ref(Unsettled), ...problems(['RUN_NOT_FOUND', 'NOT_ACCEPTABLE']) }
    }
  }, async (request, reply) => {
    const { wait = 0, ...relay } = request.query
    const id = idOf(request)
    const options = { ...await runs.relayOptions(request.caller, id), ...relayOptions(relay) }
    const fault = relayFaultOf(options)
    if (fault) throw invalid([fault])
    const run = wait > 0 && request.method !== 'HEAD'
      ? await runs.wait(
        request.caller, id, { ms: usedWait(wait, maxWaitSeconds) * 1000, signal: tools.lifeOf(reply).over, orWaiting: true }
      )
      : await runs.get(request.caller, id)
    if (run.result) return resultView(run.id, run.result, options)
    return reply.code(202).header('retry-after', String(ASK_AGAIN_SECONDS)).send(unsettledView(run))
  })

  app.post('/v1/runs/:id/cancel', {
    config: { answers: 'json' },
    schema: {
      operationId: 'cancelRun',
      tags: ['runs'],
      summary: 'Cancel a run with all its descendants',
      description: 'Idempotent. Answers the run; with `wait`, once all have stopped. `202` for a run that is still starting ' +
        '(its start gave an `id`).',
      params: RunParams,
      querystring: WaitQuery,
      body: ref(CancelRequest),
      response: { 200: ref(Run), 202: ref(Starting), ...problems(['RUN_NOT_FOUND', 'NOT_ACCEPTABLE'], { body: true }) }
    }
  }, async (request, reply) => {
    const id = idOf(request)
    const cancelled = await runs.cancel(request.caller, id, request.body.reason ?? null)
    if ('starting' in cancelled) return reply.code(202).send({ id, status: 'starting' })
    const { wait = 0 } = request.query
    if (wait === 0) return runView(cancelled.run)
    return runView(
      await runs.waitTree(request.caller, id, { ms: usedWait(wait, maxWaitSeconds) * 1000, signal: tools.lifeOf(reply).over })
    )
  })
}
