import type { FastifyReply, FastifyRequest } from 'fastify'
import { problems } from '../openapi/problems.ts'
import { Run } from '../openapi/answers.ts'
import { ref } from '../openapi/parts.ts'
import { NoQuery, StartHeaders } from '../openapi/queries.ts'
import { StartRequest } from '../openapi/requests.ts'
import type { StartBody } from '../openapi/requests.ts'
import type { RunView, StartInput } from '../src/runs/api.ts'
import { createStrictParser } from '../src/core/strict-json.ts'
import { asksForEvents } from './accepts.ts'
import type { Plugin, RouteTools } from './context.ts'
import type { Life } from './lives.ts'
import { preferredWait, usedWait } from './prefer.ts'
import { sendEvents } from './sse.ts'
import { idempotencyOf, startInput } from './start-input.ts'
import { runView, runWithResult } from './views.ts'

const parse = createStrictParser({
  verbatim: [
    '/parent/transcript/system', '/parent/transcript/tools/*', '/parent/transcript/messages/*', '/agentOptions/providerOptions'
  ],
  anyNumber: ['/maxDepth', '/parent/delegationDepth', '/parent/subagentDepth']
})

/** `POST /v1/runs`: plain, waiting (`Prefer: wait`) or streaming (`Accept: text/event-stream`). */
export const startRoute = (tools: RouteTools): Plugin => async (app) => {
  app.post('/v1/runs', {
    config: { starts: true, answers: 'json-or-events', parse },
    schema: {
      operationId: 'startRun',
      tags: ['runs'],
      summary: 'Start a run',
      description: 'Creates a subagent and gives it the task. The answer comes once the run is published; `Prefer: wait=N` ' +
        'holds it until the ' +
        'result is there; `Accept: text/event-stream` streams the run\'s events until it is settled.',
      querystring: NoQuery,
      headers: StartHeaders,
      body: ref(StartRequest),
      response: {
        201: ref(Run),
        200: ref(Run),
        ...problems([
          'MODEL_FORBIDDEN', 'RUN_NOT_FOUND', 'SESSION_NOT_FOUND', 'NOT_ACCEPTABLE', 'START_ABORTED', 'RUN_EXISTS',
          'PARENT_ABORTED',
          'DEPTH_INVALID', 'DEPTH_RANGE', 'DEPTH_EXCEEDED', 'MAX_DEPTH_INVALID', 'NO_PROVIDER', 'PROVIDER_UNAVAILABLE',
          'UNSUPPORTED_CAPABILITY', 'UNSUPPORTED_SCHEMA', 'TOOL_FILTER_INVALID', 'TOOL_NAME_TAKEN', 'MODEL_UNKNOWN',
          'TRANSCRIPT_INVALID', 'TREE_LIMIT', 'IDEMPOTENCY_MISMATCH', 'RATE_LIMITED', 'QUOTA_EXCEEDED', 'OVERLOADED',
          'SHUTTING_DOWN'
        ], { body: true })
      }
    }
  }, (request, reply) => start(tools, request, reply) as Promise<never>)
}

async function start (tools: RouteTools, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const streams = asksForEvents(request.headers.accept)
  const asked = preferredWait(request.headers.prefer)
  const wait = asked === undefined || streams ? undefined : usedWait(asked, tools.maxWaitSeconds)
  const { input, idempotency, onDisconnect } = readStart(request, streams || (wait ?? 0) > 0, tools.defaultProvider)

  const life = tools.lifeOf(reply)
  const { run, replayed } = await tools.runs.start(
    request.caller, input, { signal: life.gone, follows: streams || wait !== undefined, ...idempotency && { idempotency } }
  )
  tools.attachments.attach(request.caller, run.id, life, onDisconnect)

  reply.code(replayed ? 200 : 201).header('location', `/v1/runs/${run.id}`)
  if (replayed) reply.header('idempotency-replayed', 'true')
  if (streams) return stream(tools, request, reply, run, life)
  if (wait === undefined) return run.status === 'settled' ? runWithResult(run, input.relay) : runView(run)
  reply.header('preference-applied', `wait=${wait}`)
  const later = await tools.runs.wait(request.caller, run.id, { ms: wait * 1000, signal: life.over, orWaiting: true })
  return later.status === 'settled' ? runWithResult(later, input.relay) : runView(later)
}

/** What the request asks for. The body's memory is free from here on: a start may wait long. */
function readStart (request: FastifyRequest, attached: boolean, spawn = 'spawn'): {
  input: StartInput, idempotency: ReturnType<typeof idempotencyOf>, onDisconnect: 'cancel' | 'continue'
} {
  const body = request.body as StartBody
  const idempotency = idempotencyOf(request)
  const input = startInput(body, request.verbatim ?? { text: () => 'null' }, spawn)
  const onDisconnect = body.onDisconnect ?? (attached && !idempotency && body.id === undefined ? 'cancel' : 'continue')
  request.relay = input.relay
  request.body = undefined
  request.verbatim = undefined
  return { input, idempotency, onDisconnect }
}

async function stream (
  tools: RouteTools, request: FastifyRequest, reply: FastifyReply, run: RunView, life: Life
): Promise<unknown> {
  const relay = request.relay
  const opened = await tools.runs.stream(request.caller, run.id, { tree: false, signal: life.over })
  if (opened.ended) return reply.code(204).send()
  return sendEvents(reply, life, opened.items, (item) => tools.itemText(run.id, item, relay))
}
