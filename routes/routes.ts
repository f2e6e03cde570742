import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SCHEMAS } from '../openapi/schemas.ts'
import { refuse } from '../src/core/errors.ts'
import { asksForEvents, takesJson } from './accepts.ts'
import { createAttachments } from './attachments.ts'
import { authenticate } from './auth.ts'
import { takeJsonBodies } from './body.ts'
import { catalogueRoutes } from './catalogue.ts'
import type { RouteTools, RoutesDeps } from './context.ts'
import { docsRoutes } from './docs.ts'
import { framesRoutes } from './frames.ts'
import { healthRoutes } from './health.ts'
import { invalid } from './invalid.ts'
import { createLives } from './lives.ts'
import { sendProblem } from './problem.ts'
import { answerHeaders } from './security-headers.ts'
import { decodeQuery } from './query.ts'
import { paceTenants } from './pace.ts'
import { runEventsRoute } from './run-events.ts'
import { runListRoutes } from './run-list.ts'
import { outcomeRoutes, runRoutes } from './run.ts'
import { startRoute } from './runs.ts'
import { sessionRoutes, sessionWriteRoutes } from './sessions.ts'
import { toolResultsRoute } from './tool-results.ts'
import { messagesRoute } from './messages.ts'
import { refuseUnknown } from './unknown.ts'
import { createValidatorCompiler } from './validation.ts'
import { createItemText } from './views.ts'

/** Node takes no more notice of those past the first 2,000; no client of good will sends near as many as this. */
const MAX_HEADERS = 200

/**
 * Every route of http-api.md §1 on `app`, with the checks before them in the order of 5.4: authentication, rate, body. The app
 * is one of `createHttp`.
 */
export function registerRoutes (app: FastifyInstance, deps: RoutesDeps): void {
  const lives = createLives(closingOf(app, deps.closing))
  const tools: RouteTools = {
    ...deps,
    lifeOf: lives,
    itemText: createItemText(),
    attachments: createAttachments((caller, id) => {
      deps.runs.disconnected(caller, id).catch((err: unknown) => {
        deps.log.error({ err, runId: id }, 'a lost client\'s run could not be cancelled')
      })
    })
  }
  for (const schema of SCHEMAS) app.addSchema(schema)
  app.setValidatorCompiler(createValidatorCompiler(SCHEMAS))
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  app.decorateRequest('caller')
  app.decorateRequest('apiKey')
  app.decorateRequest('verbatim')
  app.decorateRequest('relay')
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply))
  refuseUnknown(app)

  app.addHook('onRequest', async (request, reply) => {
    request.relay = {}
    void answerHeaders(reply).header('x-request-id', request.id)
    if (request.raw.rawHeaders.length > 2 * MAX_HEADERS) throw invalid([{ pointer: '', detail: `the request has more than ${MAX_HEADERS} header fields` }], 431)
    if (request.raw.httpVersion === '1.1' && request.headers.host === undefined) throw invalid([{ pointer: '', detail: 'the Host header is missing' }])
  })
  const { metrics } = deps
  if (metrics) {
    app.addHook('onResponse', async ({ routeOptions, method }, { statusCode, elapsedTime }) => {
      metrics.httpRequest({ route: routeOptions.url ?? 'unknown', method, status: statusCode, seconds: elapsedTime / 1000 })
    })
  }
  authenticate(app, deps)
  if (deps.keys || deps.tokens) paceTenants(app)
  app.addHook('onRequest', async (request) => { checkAccept(request) })
  takeJsonBodies(app, deps.maxBodyBytes)
  app.addHook('preValidation', async (request) => {
    const { schema } = request.routeOptions
    if (schema?.querystring) request.query = decodeQuery(request.query as Record<string, unknown>, schema.querystring)
  })

  for (const plugin of [
    startRoute, runListRoutes, runRoutes, outcomeRoutes, runEventsRoute, toolResultsRoute, messagesRoute, framesRoutes, sessionWriteRoutes, sessionRoutes,
    catalogueRoutes, healthRoutes
  ]) void app.register(plugin(tools))
  void app.register(docsRoutes)
}

/** Aborts with the service's closing, or with the app's own: `close()` must not wait for readers to leave. */
function closingOf (app: FastifyInstance, closing: AbortSignal): AbortSignal {
  const own = new AbortController()
  const follow = () => { own.abort(closing.reason) }
  if (closing.aborted) follow()
  else closing.addEventListener('abort', follow, { once: true })
  app.addHook('preClose', async () => {
    closing.removeEventListener('abort', follow)
    own.abort(new Error('the service is closing'))
  })
  return own.signal
}

function checkAccept (request: FastifyRequest): void {
  const { answers } = request.routeOptions.config
  const { accept } = request.headers
  if (answers === undefined || takesJson(accept) || (answers === 'json-or-events' && asksForEvents(accept))) return
  throw refuse(
    'NOT_ACCEPTABLE',
    { detail: `this route answers application/json${answers === 'json' ? '' : ' or text/event-stream'}, not "${accept}"` }
  )
}
