import { asMaxDepth } from '../core/depth.ts'
import { refuse } from '../core/errors.ts'
import type { Capability, Provider, SubagentRequest, SubagentRun } from '../core/provider.ts'

export interface ProviderRegistry {
  /** Throws an `Error` for a name that is taken. */
  register (provider: Provider): void
  /** Unloading stops new starts and revokes nothing (driver.md 4.3). */
  unregister (name: string): void
  list (): Provider[]
  get (name: string): Provider | undefined
  /** Checks in order: provider known → capabilities → `maxDepth` value → output schema; then the provider's own driver (driver.md §4). */
  start (name: string, request: SubagentRequest): Promise<SubagentRun>
}

/** `checkOutputSchema` throws `UNSUPPORTED_SCHEMA`. */
export function createProviderRegistry (checkOutputSchema: (schema: unknown) => void): ProviderRegistry {
  const providers = new Map<string, Provider>()
  return {
    register (provider) {
      if (providers.has(provider.name)) throw new Error(`a subagent provider named "${provider.name}" is already registered`)
      providers.set(provider.name, provider)
    },
    unregister: (name) => { providers.delete(name) },
    list: () => [...providers.values()],
    get: (name) => providers.get(name),
    async start (name, request) {
      const provider = providers.get(name)
      if (!provider) throw refuse('NO_PROVIDER', { name })
      const missing = asked(request).find((capability) => !provider.capabilities[capability])
      if (missing) throw refuse('UNSUPPORTED_CAPABILITY', { name, capability: missing })
      asMaxDepth(request.maxDepth)
      if (request.outputSchema !== undefined) checkOutputSchema(request.outputSchema)
      return await provider.start(request)
    }
  }
}

/** The capabilities that a request needs, in the order in which they are checked. */
function asked (request: SubagentRequest): Capability[] {
  const needs: Record<Capability, boolean> = {
    outputSchema: request.outputSchema !== undefined,
    depthLimit: request.maxDepth !== undefined,
    toolFilter: request.toolFilter !== undefined,
    persona: request.persona !== undefined
  }
  return (['outputSchema', 'depthLimit', 'toolFilter', 'persona'] as const).filter((capability) => needs[capability])
}
