import type { ModelFailure, ModelReply, ModelRequest, ModelStreamEvent, Model } from '../../src/core/model.ts'
import type { ModelMessage } from '../../src/core/fold.ts'
import { createModels, type ModelsOptions } from '../../src/models/models.ts'
import { startFakeModelServer, type FakeModelServer } from '../support/fake-model-server.ts'
import type { FakeAnswer } from '../support/fake-answers.ts'

export type Finish = (close: () => Promise<void>) => void
export type Kind = 'openai-chat' | 'anthropic'
export const KINDS: readonly Kind[] = ['openai-chat', 'anthropic']
export const KEY = 'sk-test-0123456789abcdefghij'

export const user = (text: string): ModelMessage => ({ role: 'user', content: [{ type: 'text', text }] })
export const request = (more: Partial<ModelRequest> = {}): ModelRequest =>
  ({ system: [], messages: [user('do it')], tools: [], call: 0, ...more })

export interface Played { deltas: Extract<ModelStreamEvent, { type: 'delta' }>[], reply?: ModelReply, failure?: ModelFailure,
  last: ModelStreamEvent }

/** Plays a call to its end, and insists on the port's shape: deltas, then exactly one reply or failure. */
export async function play (model: Model, of = request(), signal = new AbortController().signal): Promise<Played> {
  const events: ModelStreamEvent[] = []
  for await (const event of model.stream(of, signal)) events.push(event)
  const last = events.at(-1)
  const deltas = events.filter((event) => event.type === 'delta')
  if (!last || last.type === 'delta' || deltas.length !== events.length - 1) {
    throw new Error(`not deltas and one end: ${JSON.stringify(events)}`)
  }
  return { deltas, last, ...(last.type === 'reply' ? { reply: last.reply } : { failure: last.failure }) }
}

/** A model of this kind on a fake server that gives these answers. */
export async function startModel (onTestFinished: Finish, kind: Kind, answers: FakeAnswer[], options: Partial<ModelsOptions> & {
  apiKey?: string | null, headers?: Record<string, string>
} = {}): Promise<{ model: Model, server: FakeModelServer }> {
  const { apiKey = KEY, headers, ...rest } = options
  const server = await startFakeModelServer(onTestFinished, { answers })
  const models = createModels({
    endpoints: [{
      name: 'up',
      kind,
      baseUrl: kind === 'anthropic' ? server.anthropicUrl : server.openaiUrl,
      ...(apiKey === null ? {} : { apiKey }),
      ...(headers === undefined ? {} : { headers })
    }],
    ...rest
  })
  onTestFinished(() => models.close())
  return { model: models.resolve('up/m'), server }
}
