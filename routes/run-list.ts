import { Matched, RunList } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { ListQuery, NoQuery } from '../openapi/queries.ts'
import { CancelManyRequest } from '../openapi/requests.ts'
import type { RunFilter } from '../src/core/run.ts'
import { invalid } from './invalid.ts'
import type { Plugin, RouteTools } from './context.ts'
import { instant } from './query.ts'
import { runView, runWithResult } from './views.ts'

const PAGE = 50
const METADATA = 'metadata.'

/** Many runs: the list, and the cancellation of several. */
export const runListRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools

  app.get('/v1/runs', {
    config: { answers: 'json' },
    schema: {
      operationId: 'listRuns', tags: ['runs'], summary: 'List runs',
      description: 'Newest first by (createdAt, id). `metadata.KEY=VALUE` filters by metadata.',
      querystring: ListQuery, response: { 200: ref(RunList), ...problems(['NOT_ACCEPTABLE']) }
    }
  }, async (request) => {
    const query = request.query as ListQueryValues
    const { limit = PAGE, cursor, include } = query
    const page = await runs.list(request.caller, filterOf(query), { limit, ...cursor !== undefined && { cursor } })
    if (include === undefined) return { runs: page.runs.map(runView), nextCursor: page.nextCursor }
    const withResults = page.runs.map(async (run) => runWithResult(run, await runs.relayOptions(request.caller, run.id)))
    return { runs: await Promise.all(withResults), nextCursor: page.nextCursor }
  })

  app.post('/v1/runs/cancel', {
    config: { answers: 'json' },
    schema: {
      operationId: 'cancelRuns', tags: ['runs'], summary: 'Cancel many runs',
      description: 'Exactly one of `ids`, `root`, `label`, `metadata` says which.',
      querystring: NoQuery, body: ref(CancelManyRequest),
      response: { 202: ref(Matched), ...problems(['NOT_ACCEPTABLE'], { body: true }) }
    }
  }, async (request, reply) => {
    const { reason = null, ...which } = request.body
    const given = Object.keys(which)
    if (given.length === 0) throw invalid([{ pointer: '', detail: 'one of ids, root, label, metadata must say which runs' }])
    if (given.length > 1) throw invalid([{ pointer: `/${given[1]}`, detail: `cannot stand beside ${given[0]}: give one filter` }])
    if (which.metadata && Object.keys(which.metadata).length === 0) {
      throw invalid([{ pointer: '/metadata', detail: 'must name at least one key' }])
    }
    const ids = which.ids?.map((id) => id.toLowerCase())
    const matched = await runs.cancelMany(
      request.caller, { ...which, ...ids && { ids } } as Parameters<typeof runs.cancelMany>[1], reason
    )
    return reply.code(202).send({ matched })
  })
}

interface ListQueryValues extends Omit<RunFilter, 'metadata' | 'createdAfter' | 'settledAfter'> {
  createdAfter?: string
  settledAfter?: string
  include?: 'result'
  limit?: number
  cursor?: string
}

function filterOf (query: ListQueryValues): RunFilter {
  const { status, stopReason, provider, parent, root, label } = query
  const createdAfter = instant('createdAfter', query.createdAfter)
  const settledAfter = instant('settledAfter', query.settledAfter)
  const metadata = Object.entries(query).filter(([name]) => name.startsWith(METADATA))
    .map(([name, value]) => [name.slice(METADATA.length), String(value)])
  return {
    ...status && { status },
    ...stopReason && { stopReason },
    ...provider !== undefined && { provider },
    ...parent !== undefined && { parent: parent.toLowerCase() },
    ...root !== undefined && { root: root.toLowerCase() },
    ...label !== undefined && { label },
    ...createdAfter !== undefined && { createdAfter },
    ...settledAfter !== undefined && { settledAfter },
    ...metadata.length > 0 && { metadata: Object.fromEntries(metadata) as Record<string, string> }
  }
}
