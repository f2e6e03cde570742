import type { FastifyInstance, FastifyRequest } from 'fastify'
import { refuse } from '../src/core/errors.ts'

/** Tells a path that does not exist (404) from one that does for other methods (405, with `Allow`). Call it before the routes. */
export function refuseUnknown (app: FastifyInstance): void {
  const routes = new Map<string, { pattern: RegExp, methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() }
    for (const name of [method].flat()) route.methods.add(name)
    routes.set(url, route)
  })
  app.setNotFoundHandler((request) => {
    const path = (request.raw.url ?? '').replace(/[?#].*$/s, '')
    const allowed = new Set(
      [...routes.values()].filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => [...methods])
    )
    if (allowed.size > 0 && !allowed.has(request.method)) {
      throw refuse('METHOD_NOT_ALLOWED', { method: request.method, allow: [...allowed].toSorted().join(', ') })
    }
    throw refuse('NOT_FOUND', { detail: `there is nothing at ${shown(request)}` })
  })
}

const shown = (request: FastifyRequest): string => (request.raw.url ?? '').replace(/[?#].*$/s, '').slice(0, 200)
const patternOf = (url: string): RegExp =>
  new RegExp(`^${url.split('/').map((part) => part.startsWith(':') ? '[^/]+' : RegExp.escape(part)).join('/')}$`)
