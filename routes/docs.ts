import { createReadStream } from 'node:fs'
import type { FastifyReply } from 'fastify'
import { refuse } from '../src/core/errors.ts'
import type { Plugin } from './context.ts'
import { pageHeaders } from './security-headers.ts'

/** The document, and a page to try it from. Files are read when someone asks: an idle service holds none of them. */

const DOCUMENT = new URL('../openapi/openapi.json', import.meta.url)
/** Swagger UI writes inline styles. */
const CSP = "style-src 'self' 'unsafe-inline'; img-src 'self' data:; "

const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'favicon-32x32.png': 'image/png'
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>subagentd: API</title>
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
const START = `SwaggerUIBundle({
  url: '/openapi.json', dom_id: '#docs', deepLinking: true, validatorUrl: null, tryItOutEnabled: true
})
`

export const docsRoutes: Plugin = async (app) => {
  const config = { open: true }
  const hidden = { hide: true }

  app.get('/openapi.json', { config, schema: hidden }, async (_, reply) =>
    safely(reply).type('application/json; charset=utf-8').send(createReadStream(DOCUMENT)))
  app.get('/docs', { config, schema: hidden }, async (_, reply) => safely(reply).type('text/html; charset=utf-8').send(PAGE))
  app.get('/docs/', { config, schema: hidden }, async (_, reply) => reply.redirect('/docs', 308))
  app.get('/docs/start.js', { config, schema: hidden }, async (_, reply) =>
    safely(reply).type('text/javascript; charset=utf-8').send(START))
  app.get('/docs/:asset', { config, schema: hidden }, async (request, reply) => {
    const { asset } = request.params as { asset: string }
    const type = Object.hasOwn(ASSETS, asset) ? ASSETS[asset] : undefined
    if (type === undefined) throw refuse('NOT_FOUND', { detail: 'there is nothing at this path' })
    const file = new URL(import.meta.resolve(`@fastify/swagger-ui/static/${asset}`))
    return safely(reply).type(type).header('cache-control', 'public, max-age=3600').send(createReadStream(file))
  })
}

const safely = (reply: FastifyReply): FastifyReply => pageHeaders(reply, CSP)
