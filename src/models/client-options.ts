import type { Endpoint } from './link.ts'

/** The vendors' clients wait no time of their own: the link's timeouts hold. The longest delay a timer takes. */
export const NEVER_MS = 2 ** 31 - 1

/** Makes the client at the first call, once; a failure to load it is not kept. */
export function createClientOnce<C> (create: () => Promise<C>): () => Promise<C> {
  let client: Promise<C> | undefined
  return () => {
    client ??= create().catch((error: unknown) => {
      client = undefined
      throw error
    })
    return client
  }
}

/** What must never show in a message. */
export const secretsOf = ({ apiKey, headers }: Endpoint): string[] =>
  [...(apiKey === undefined ? [] : [apiKey]), ...Object.values(headers ?? {})]
