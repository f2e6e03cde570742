import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'

/** What comes back for bytes on a connection of their own. */
const raw = (url: string, bytes: string): Promise<string> => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname, () => { socket.write(bytes) })
  let answer = ''
  socket.on('data', (chunk) => { answer += chunk.toString() })
  socket.on('close', () => resolve(answer))
  socket.on('error', reject)
})

test.for([
  ['an expectation that cannot be met', 'POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nExpect: foo\r\nContent-Length: 0\r\n\r\n', 417],
  ['HTTP/1.1 without a host', 'GET /v1 HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ['bytes that are no HTTP', 'hello\r\n\r\n', 400]
] as const)('5 %s is answered as a problem with its request id', async ([, bytes, status]) => {
  const service = await startService(onTestFinished)
  const answer = await raw(service.url, bytes)
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(answer.toLowerCase()).toContain('content-type: application/problem+json')
  expect(answer.toLowerCase()).toMatch(/x-request-id: \S+/)
  expect(answer).toContain('"toolResult"')
})

test('4.5 a tool of a transcript whose schema is none is refused at its place', async () => {
  const service = await startService(onTestFinished)
  const transcript = {
    format: 'openai-chat', messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'zz' } } }]
  }
  const refused = await service.call('POST', '/v1/runs', { provider: 'fork', task: 'c', parent: { transcript } })
  expect(refused).toMatchObject({ status: 422, body: { code: 'TRANSCRIPT_INVALID', detail: expect.stringContaining('transcript.tools[0]') } })
})
