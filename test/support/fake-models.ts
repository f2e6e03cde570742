import { says, type FakeReply } from './fake-answers.ts'
import { startFakeModelServer, type FakeRequest } from './fake-model-server.ts'

/** Answers any request of either protocol from the last user text, so that a host can be tried without a key. */
export function echo ({ json }: Pick<FakeRequest, 'json'>): FakeReply {
  const messages = json.messages as { role: string, content: unknown }[]
  const last = messages.findLast((message) => message.role === 'user')?.content
  const blocks = Array.isArray(last) ? last as { text?: string }[] : [{ text: String(last) }]
  return says(`fake answer to: ${blocks.map((block) => block.text ?? '').join('')}`)
}

if (import.meta.main) {
  const server = await startFakeModelServer(undefined, { answer: echo, port: 9090 })
  process.stdout.write(`fake models listen on ${server.url}; in another shell:\n` +
    `OPENAI_BASE_URL=${server.openaiUrl} ANTHROPIC_BASE_URL=${server.anthropicUrl} npm start\n`)
}
