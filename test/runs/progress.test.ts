import { expect, onTestFinished, test } from 'vitest'
import { EVERYTHING } from '../tools/mcp/mcp-room.ts'
import { startService } from '../support/service.ts'
import { readEvents } from '../support/sse.ts'

const yaml = `
mcp:
  every:
    command: ${process.execPath}
    args: [${EVERYTHING}]
`
const LONG = 'every__trigger-long-running-operation'
const input = { duration: 0.2, steps: 4 }
const code = `return await tools[${JSON.stringify(LONG)}](${JSON.stringify(input)})`

test('6.2 the progress of MCP tools reaches the run\'s readers, live and later, and a fork of the log', async () => {
  const service = await startService(onTestFinished, { yaml })
  const script = [{ call: { id: 'c1', name: LONG, input } }, { call: { id: 'c2', name: 'run_code', input: { code } } }, { say: 'done' }]
  const run = await service.start({ task: 'go', codeMode: 'both', agentOptions: { script } })
  const live = (await (await readEvents(service, run.id)).all()).map(({ event, data }) => ({ ...data, type: event }))
  const { body: { events } } = await service.call('GET', `/v1/runs/${run.id}/events?limit=1000`)
  for (const told of [live, events]) {
    const of = (id: string) => told.filter((event: { data?: { toolCallId?: string } }) => event.data?.toolCallId === id)
    for (const id of ['c1', 'c2:code:1']) {
      const [call, ...rest] = of(id)
      const result = rest.pop()
      expect([call.type, result.type, result.data.isError]).toEqual(['tool/call', 'tool/result', false])
      expect(new Set(rest.map(({ type }: { type: string }) => type))).toEqual(new Set(['tool/progress']))
      expect(rest[0].data).toEqual({ toolCallId: id, progress: 1, total: 4 })
      expect(rest.at(-1).data).toEqual({ toolCallId: id, progress: 4, total: 4 })
    }
  }
  const transcript = { format: 'events', messages: events }
  const fork = await service.start({ task: 'and?', provider: 'fork', parent: { transcript }, agentOptions: { script: [{ say: 'yes' }] } })
  expect(await service.result(fork.id)).toMatchObject({ stopReason: 'completed', output: [{ text: 'yes' }] })
})
