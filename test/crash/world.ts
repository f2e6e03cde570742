import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as bodyText } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { says, type FakeAnswer } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeRequest } from '../support/fake-model-server.ts'

/** A model's message as a request carries it. */
export interface Message { role: string, content: unknown, tool_calls?: unknown[], tool_call_id?: string }
/** What the model says at its `step`-th message to a task, and at the `attempt`-th request for it. */
export type Script = (turn: { key: string, step: number, attempt: number, messages: readonly Message[] }) => FakeAnswer

/** Everything outside the service: a model that answers by the task it reads, and tools that count what they do. It outlives crashes. */
export interface World {
  /** A child of the task `@<name> <key>` is answered by the script of that name. */
  readonly modelUrl: string
  readonly toolOrigin: string
  /** How often a tool ran for an input. */
  ran (tool: string, key: string): number
  /** The messages of each request for a task, in the order in which they came. */
  asked (key: string): readonly (readonly Message[])[]
  /** Requests that are open now. */
  open (): number
  /** Resolves with true once no request is open; with false where some still are after `ms`. */
  quiet (ms: number): Promise<boolean>
  close (): Promise<void>
}

const TASK = /^@(\S+) (\S+)/
const textOf = (content: unknown): string => typeof content === 'string'
  ? content
  : Array.isArray(content) ? content.map((part: { text?: string }) => part.text ?? '').join('') : ''

export async function startWorld (scripts: Readonly<Record<string, Script>>): Promise<World> {
  const asked = new Map<string, Message[][]>()
  const runs = new Map<string, number>()
  let open = 0
  const answer = ({ json, closed }: FakeRequest): FakeAnswer => {
    open++
    void closed.then(() => { open-- })
    const messages = json.messages as Message[]
    const at = messages.findLastIndex(({ role, content }) => role === 'user' && TASK.test(textOf(content)))
    const [, name = '', key = ''] = TASK.exec(textOf(messages[at]?.content)) ?? []
    const before = asked.get(key) ?? []
    asked.set(key, [...before, messages])
    const step = messages.slice(at + 1).filter(({ role }) => role === 'assistant').length
    const attempt = before.filter((earlier) => earlier.length === messages.length).length
    return scripts[name]?.({ key, step, attempt, messages }) ?? says(`done ${key}`)
  }
  const models = await startFakeModelServer(undefined, { answer })
  const tools = createServer((request, response) => {
    open++
    response.on('close', () => { open-- })
    runTool(runs, request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  await new Promise<void>((resolve) => { tools.listen(0, '127.0.0.1', resolve) })
  return {
    modelUrl: models.openaiUrl,
    toolOrigin: `127.0.0.1:${(tools.address() as AddressInfo).port}`,
    ran: (tool, key) => runs.get(`${tool} ${key}`) ?? 0,
    asked: (key) => asked.get(key) ?? [],
    open: () => open,
    async quiet (ms) {
      for (let waited = 0; open > 0 && waited < ms; waited += 10) await delay(10)
      return open === 0
    },
    async close () {
      await models.close()
      tools.closeAllConnections()
      await new Promise((resolve) => { tools.close(resolve) })
    }
  }
}

/** `POST /<tool>` with `{key, ms?}`: counts, and answers after `ms`. */
async function runTool (runs: Map<string, number>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { key, ms = 15 } = JSON.parse(await bodyText(request)) as { key: string, ms?: number }
  const name = `${(request.url ?? '').slice(1)} ${key}`
  runs.set(name, (runs.get(name) ?? 0) + 1)
  await delay(ms)
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ran: name }))
}
