import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'

/** How long a client may take to read an answer that is ready, once the service closes; in a hurry, less. */
const READ_MS = 5000
const HURRY_MS = 250

export interface Connections {
  /** From here on an answer ends its connection: the client's next request goes to where new connections go. */
  drain (): void
  /** Ends every connection once the answers under way are out, and those of clients that do not read. Nothing waits any more. */
  end (hurry: AbortSignal): Promise<void>
}

/** Follows an app's connections, so that its close cuts no answer off and waits for no client (http-api.md §3). */
export function followConnections (app: FastifyInstance): Connections {
  const open = new Set<ServerResponse>()
  const empty = Promise.withResolvers<undefined>()
  let draining = false
  let ending = false
  app.server.prependListener('request', (_, response) => {
    open.add(response)
    if (draining) response.shouldKeepAlive = false
    const { socket } = response
    response.once('close', () => {
      open.delete(response)
      if (draining) socket?.destroySoon()
      if (ending && open.size === 0) empty.resolve(undefined)
    })
  })
  function drain (): void {
    draining = true
    for (const response of open) if (!response.headersSent) response.shouldKeepAlive = false
  }
  return {
    drain,
    async end (hurry) {
      drain()
      ending = true
      if (open.size > 0) await atMost(empty.promise, hurry)
      // What is left is read by nobody, or was opened and never asked anything.
      app.server.closeAllConnections()
    }
  }
}

async function atMost (work: Promise<unknown>, hurry: AbortSignal): Promise<void> {
  const over = Promise.withResolvers<undefined>()
  const timers = [setTimeout(() => over.resolve(undefined), READ_MS)]
  const onHurry = (): void => { timers.push(setTimeout(() => over.resolve(undefined), HURRY_MS)) }
  if (hurry.aborted) onHurry()
  else hurry.addEventListener('abort', onHurry)
  await Promise.race([work, over.promise])
  hurry.removeEventListener('abort', onHurry)
  for (const timer of timers) clearTimeout(timer)
}
