import { serviceTool, type ServiceTool } from '../support/service-tool.ts'
import type { Service } from '../support/service.ts'

const schema = { type: 'object' }
export const TOOLS = ['read_file', 'run_tests'].map((name) => ({ name, description: name, inputSchema: schema }))

/** Three steps: a thought and one host call, two host calls in one message, the answer. */
export const SCRIPT = [
  { reasoning: 'let me look', say: 'I read the file. ', call: { name: 'read_file', input: { path: 'a' } } },
  { calls: [{ name: 'read_file', input: { path: 'b' } }, { name: 'run_tests', input: {} }] },
  { say: 'all is well' }
]
export const busy = (more: object = {}): object => ({ task: 'look after it', tools: TOOLS, agentOptions: { script: SCRIPT }, ...more })

/** Answers the calls that a run waits with, until it waits for nothing more: as a host does. `each` is done before each answer. */
export async function playHost (service: Service, id: string, each: () => Promise<unknown> = async () => {}): Promise<void> {
  for (;;) {
    const { status, body } = await service.call('GET', `/v1/runs/${id}/result?wait=10`)
    if (status === 200) return
    await each()
    const [call] = body.pendingToolCalls as { toolCallId: string, name: string }[]
    if (!call) continue
    const results = [{ toolCallId: call.toolCallId, content: `answer to ${call.toolCallId}` }]
    await service.call('POST', `/v1/runs/${id}/tool-results`, { results })
  }
}

export interface Gate { tool: ServiceTool, /** The script's step that comes to the gate. */ step: object, open (): void }
/** A tool of the deployment that a run stays in, `running`, until the gate is opened. */
export function createGate (name = 'gate'): Gate {
  const opened = Promise.withResolvers<string>()
  return { tool: serviceTool(name, () => opened.promise), step: { call: { name } }, open: () => opened.resolve('opened') }
}
