import { join } from 'node:path'
import fc from 'fast-check'
import { makeFolder, startService, type AtEnd, type Service } from '../support/service.ts'
import { commands, type Real } from './state-commands.ts'
import { createGates } from './schedules.ts'
import { emptyModel, PLACES, type Model } from './state-model.ts'

export interface StateOptions { runs: number, seed: number, size?: number, path?: string }

/** Plays generated sequences of commands against one real service on a file, each with runs of its own. Rejects with the shortest that fails. */
export async function playSequences (atEnd: AtEnd, { runs, seed, size = 24, path }: StateOptions): Promise<void> {
  const gates = createGates()
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(atEnd), 'runs.db')}`, MAX_RUNNING: String(PLACES) }
  let service: Service = await startService(atEnd, { env, tools: [gates.tool] })
  const restart = async (): Promise<void> => {
    await service.stop()
    service = await startService(atEnd, { env, tools: [gates.tool] })
  }
  const property = fc.asyncProperty(commands(size), async (list) => {
    const model: Model = emptyModel()
    const real: Real = { get service () { return service }, gates, restart }
    try {
      await fc.asyncModelRun(() => ({ model, real }), list)
    } finally {
      // Whatever came of them, the next sequence finds none of these.
      await service.call('POST', '/v1/runs/cancel', { ids: ['none', ...service.app.registry.liveRuns().map(({ id }) => id)] })
      for (const { id } of model.runs) await service.call('DELETE', `/v1/runs/${id}`)
    }
  })
  await fc.assert(property, { numRuns: runs, seed, ...(path === undefined ? {} : { path }) })
}
