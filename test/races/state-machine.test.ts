import { onTestFinished, test } from 'vitest'
import { playSequences } from './state-machine.ts'

test('whatever a host does, in whatever order, each run is what the model of it says, and a settled one never changes',
  async () => {
  await playSequences(onTestFinished, { runs: Number(process.env.RUNS ?? 150),
    seed: Number(process.env.SEED ?? Date.now() % 2 ** 31) })
}, 120_000)
