import { EventPage } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { noContent, problems } from '../openapi/problems.ts'
import { EventHeaders, EventsQuery, RunParams } from '../openapi/queries.ts'
import { isRefusal } from '../src/core/errors.ts'
import type { RelayOptions } from '../src/core/run.ts'
import { asksForEvents } from './accepts.ts'
import { idOf } from './context.ts'
import type { Plugin, RouteTools } from './context.ts'
import { usedWait } from './prefer.ts'
import { sendEvents } from './sse.ts'
import { pageView } from './views.ts'

const PAGE = 200

/** `GET /v1/runs/{id}/events`: a live stream for who asks for `text/event-stream`, else a page (http-api.md §6). */
export const runEventsRoute = (tools: RouteTools): Plugin => async (app) => {
  const { runs } = tools
  app.get('/v1/runs/:id/events', {
    config: { answers: 'json-or-events' },
    schema: {
      operationId: 'readEvents',
      tags: ['events'],
      summary: 'Events of a run',
      description: '`Accept: text/event-stream` gives server-sent events until the run is settled, then `204`; anything else ' +
        'a JSON page. ' +
        'A reader that comes again with its last cursor gets every event of the log once and in order. A cursor of a run that is ' +
        'no longer kept: `410 CURSOR_EXPIRED`, or one `gap` event and the end of the stream.',
      params: RunParams,
      querystring: EventsQuery,
      headers: EventHeaders,
      response: {
        200: ref(EventPage) as object,
        204: noContent('The stream is over: nothing can follow this cursor.'),
        ...problems(['RUN_NOT_FOUND', 'NOT_ACCEPTABLE', 'CURSOR_EXPIRED'])
      }
    }
  }, async (request, reply) => {
    const { tree = false, limit = PAGE, wait = 0, after } = request.query
    const id = idOf(request)
    const lastEventId = request.headers['last-event-id']
    const cursor = typeof lastEventId === 'string' && lastEventId !== '' ? lastEventId : after
    const from = { tree, ...cursor !== undefined && { after: cursor } }
    const head = request.method === 'HEAD'
    // Of a run that is no more its cursor is answered below.
    const relay = await runs.relayOptions(request.caller, id).catch((error: unknown): RelayOptions => {
      if (!isRefusal(error) || error.code !== 'RUN_NOT_FOUND') throw error
      return {}
    })
    const life = tools.lifeOf(reply)
    if (!head && asksForEvents(request.headers.accept)) {
      const opened = await runs.stream(request.caller, id, { ...from, signal: life.over })
      return opened.ended ? reply.code(204).send() : sendEvents(reply, life, opened.items, (item) => tools.itemText(id, item, relay))
    }
    const waitMs = head ? 0 : usedWait(wait, tools.maxWaitSeconds) * 1000
    return pageView(id, await runs.eventPage(request.caller, id, { ...from, limit, waitMs, signal: life.over }), relay)
  })
}
