import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'

/** SECURITY.md: secrets are recognised by their place and their look, and nothing else in an answer is touched. */
test('what a tool answers comes through as it is but for secrets: numbers, flags and words stay, whatever headers hold them', async () => {
  const body = '{"count": 40960, "ok": true, "mode": "true story", "kind": "application", "level": "debugging", "limit": "4096", "echo": "KEY"}'
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(body.replace('KEY', `${String(request.headers.authorization)} ${String(request.headers['x-request-cost'])}`))
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => { server.close() })
  const service = await startService(onTestFinished, {
    env: { FLAG: 'true', NUMBER: '4096', WORD: 'application', API_KEY: 'key-of-the-tool' },
    yaml: `outbound: {allow: ["127.0.0.1"]}
tools:
  look:
    description: d
    url: "http://127.0.0.1:${(server.address() as AddressInfo).port}/"
    headers: {authorization: "Bearer \${API_KEY}", x-max-tokens: "4096", x-flag: "\${FLAG}", x-limit: "\${NUMBER}", x-kind: "\${WORD}", x-key: debugging, x-request-cost: plain-text-1}
`
  })
  const run = await service.start({ task: 'x', agentOptions: { model: 'scripted/demo', script: [{ call: { name: 'look', input: {} } }, { say: 'ok' }] } })
  await service.result(run.id)
  const result = (await service.log(run.id)).find((event) => event.type === 'tool/result')
  expect(result?.data).toMatchObject({ content: [{ type: 'text', text: body.replace('KEY', 'Bearer [redacted] plain-text-1') }], isError: false })
})
