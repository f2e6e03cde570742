import type { Capabilities, Provider } from '../core/provider.ts'
import type { InProcessDriver } from '../driver/in-process.ts'

/** Exactly what both in-process providers advertise (driver.md §4). */
const CAPABILITIES: Capabilities = { outputSchema: true, depthLimit: true, toolFilter: true, persona: true }

/** A fresh child: no history but its task (seed 003). */
export const createSpawnProvider = (driver: InProcessDriver, name = 'spawn'): Provider => ({
  name,
  capabilities: CAPABILITIES,
  inheritsParentContext: false,
  start: (request) => driver.startInProcessRun(request, { provider: name }),
  followUp: driver.continueInProcessRun
})

/** A child that starts from the parent's completed turns, taken now and never again (seed 000, driver.md §3). */
export const createForkProvider = (driver: InProcessDriver, name = 'fork'): Provider => ({
  name,
  capabilities: CAPABILITIES,
  inheritsParentContext: true,
  start: (request) => {
    const seed = request.parent.completedTurns()
    return driver.startInProcessRun(request, { provider: name, ...(seed && seed.events > 0 ? { seed } : {}) })
  },
  followUp: driver.continueInProcessRun
})
