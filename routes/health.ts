import { Type } from '../openapi/type.ts'
import { Health } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { NoQuery } from '../openapi/queries.ts'
import type { RefusalCode } from '../src/core/errors.ts'
import { refuse } from '../src/core/errors.ts'
import type { Plugin, RouteTools } from './context.ts'

const refusals = (codes: RefusalCode[]) => problems(['INVALID_REQUEST', 'FORBIDDEN', 'INTERNAL', ...codes], { open: true })

/** Alive, able to take work, and the figures. None of them waits for anything (http-api.md 8.3). */
export const healthRoutes = (tools: RouteTools): Plugin => async (app) => {
  app.get('/healthz', {
    config: { open: true },
    schema: {
      operationId: 'getHealth', tags: ['health'], summary: 'Alive', description: 'Touches no store.', security: [],
      querystring: NoQuery,
      response: { 200: ref(Health), ...refusals([]) }
    }
  }, async () => ({ status: 'ok' }))

  app.get('/readyz', {
    config: { open: true },
    schema: {
      operationId: 'getReadiness', tags: ['health'], summary: 'Able to take work',
      description: '`503` while starting, draining or without store.', security: [],
      querystring: NoQuery,
      response: { 200: ref(Health), ...refusals(['SHUTTING_DOWN', 'STORE_UNAVAILABLE']) }
    }
  }, async () => {
    const { ok, reason } = tools.ready()
    if (ok) return { status: 'ready' }
    throw refuse(tools.closing.aborted || reason === 'draining' ? 'SHUTTING_DOWN' : 'STORE_UNAVAILABLE', { retryAfter: 1 })
  })

  const { metrics } = tools
  app.get('/metrics', {
    config: { scope: 'metrics' },
    schema: {
      operationId: 'getMetrics', tags: ['health'], summary: 'Figures for Prometheus', querystring: NoQuery,
      response: {
        200: { description: 'Prometheus text.', content: { 'text/plain': { schema: Type.String() } } }, ...problems(['NOT_FOUND'])
      }
    }
  }, async (_, reply) => {
    if (!metrics) throw refuse('NOT_FOUND', { detail: 'this service keeps no metrics' })
    return reply.type(metrics.contentType).header('cache-control', 'no-store').send(await metrics.text())
  })
}
