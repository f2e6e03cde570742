import type { FakeModelServer } from './fake-model-server.ts'

export interface Sent { messages: { role: string, content: unknown, tool_call_id?: string }[], tools?: { function: { name: string } }[], system?: unknown, model: string }

/** What request number `n` of a fake model server carried; from the end where negative. */
export function sent (models: FakeModelServer, n: number): Sent {
  const request = models.requests.at(n)
  if (!request) throw new Error(`the model was asked ${models.requests.length} times`)
  return request.json as unknown as Sent
}
