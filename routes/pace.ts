import type { FastifyInstance } from 'fastify'

/** So many requests of a tenant begin in a turn of the event loop while another's are under way; the rest in the turns after. */
const A_TURN = 4

/** Whose requests begin when: one tenant's flood must not fill the turns that another's requests need (http-api.md 8.3). */
export interface Pace {
  /** Resolves when the request may begin; `undefined`: at once. Each is followed by one `leave`. */
  enter (tenant: string): Promise<void> | undefined
  leave (tenant: string): void
}

/** `soon` calls back in the next turn of the event loop. */
export function createPace (soon: (turn: () => void) => unknown = setImmediate): Pace {
  const underWay = new Map<string, number>()
  const begun = new Map<string, number>()
  const lines = new Map<string, (() => void)[]>()
  let scheduled = false

  function schedule (): void {
    if (scheduled) return
    scheduled = true
    soon(turn)
  }

  function turn (): void {
    scheduled = false
    begun.clear()
    for (const [tenant, line] of lines) {
      const now = line.splice(0, A_TURN)
      if (line.length === 0) lines.delete(tenant)
      begun.set(tenant, now.length)
      for (const begin of now) begin()
    }
    if (begun.size > 0) schedule()
  }

  return {
    enter (tenant) {
      underWay.set(tenant, (underWay.get(tenant) ?? 0) + 1)
      if (underWay.size === 1) return undefined
      const already = begun.get(tenant) ?? 0
      schedule()
      if (already < A_TURN && !lines.has(tenant)) {
        begun.set(tenant, already + 1)
        return undefined
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      const line = lines.get(tenant)
      if (line) line.push(resolve)
      else lines.set(tenant, [resolve])
      return promise
    },
    leave (tenant) {
      const left = (underWay.get(tenant) ?? 0) - 1
      if (left > 0) underWay.set(tenant, left)
      else underWay.delete(tenant)
    }
  }
}

/** Every request that is somebody's; after its authentication, before its body. */
export function paceTenants (app: FastifyInstance, pace = createPace()): void {
  app.addHook('onRequest', async ({ caller }, reply) => {
    // Health and metrics are nobody's; what is not there has no caller.
    const tenant = (caller as typeof caller | undefined)?.tenant
    if (tenant === undefined) return
    const begins = pace.enter(tenant)
    // Its client may have gone while its token was looked at: then there is no other end to hear of.
    if (reply.raw.destroyed) pace.leave(tenant)
    else reply.raw.once('close', () => pace.leave(tenant))
    await begins
  })
}
