import { Agents, Models, Providers, Service, Tools } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { problems } from '../openapi/problems.ts'
import { NoQuery } from '../openapi/queries.ts'
import type { Plugin, RouteTools } from './context.ts'

/** What a client may rely on beside the routes themselves. */
const FEATURES = ['spawn', 'fork', 'sessions', 'wait', 'events', 'idempotency', 'host-tools', 'structured-output', 'relay', 'messages', 'delegation', 'code-mode', 'mcp', 'agents']

/** What this deployment offers. */
export const catalogueRoutes = (tools: RouteTools): Plugin => async (app) => {
  const { runs, version } = tools
  const responses = problems(['NOT_ACCEPTABLE'])
  const config = { answers: 'json' } as const
  const schema = { tags: ['catalogue'], querystring: NoQuery }

  app.get('/v1', {
    config, schema: {
      ...schema, operationId: 'getService', summary: 'Version and features', response: { 200: ref(Service), ...responses }
    }
  }, async () => ({ version, features: FEATURES }))
  app.get('/v1/providers', {
    config, schema: {
      ...schema, operationId: 'listProviders', summary: 'How children can be made',
      response: { 200: ref(Providers), ...responses }
    }
  }, async () => ({ providers: runs.providers() }))
  app.get('/v1/tools', {
    config, schema: {
      ...schema, operationId: 'listTools', summary: 'Tools of this deployment', response: { 200: ref(Tools), ...responses }
    }
  }, async () => ({
    tools: (await runs.tools()).map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
  }))
  app.get('/v1/models', {
    config, schema: {
      ...schema, operationId: 'listModels', summary: 'Models of this deployment', response: { 200: ref(Models), ...responses }
    }
  }, async (request) => ({ models: runs.models(request.caller) }))
  app.get('/v1/agents', {
    config, schema: {
      ...schema, operationId: 'listAgents', summary: 'Agents of this deployment', response: { 200: ref(Agents), ...responses }
    }
  }, async () => ({ agents: runs.agents() }))
}
