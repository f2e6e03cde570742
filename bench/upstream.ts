import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/**
 * A model server for the overhead figure: chat completions, streamed. It sends as many deltas as the request's
 * `max_tokens` says, as fast as the connection takes them. Started by the bench with PORT.
 */
const chunk = (fields: Record<string, unknown>): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'bench', ...fields })}\n\n`
const delta = chunk({ choices: [{ index: 0, delta: { content: 'word ' }, finish_reason: null }] })
const end = chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) +
  chunk({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }) + 'data: [DONE]\n\n'

async function answer (request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'GET') {
    response.end('ok')
    return
  }
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  const body = JSON.parse(Buffer.concat(parts).toString()) as { max_tokens?: number, max_completion_tokens?: number }
  const count = body.max_tokens ?? body.max_completion_tokens ?? 200
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let i = 0; i < count; i++) response.write(delta)
  response.end(end)
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : new Error(String(error))))
})
server.listen(Number(process.env.PORT), '127.0.0.1')
process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
})
