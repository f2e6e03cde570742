import { playSequences } from '../races/state-machine.ts'

/** `npm run soak -- states [sequences] [seed]`: sequences of a host's commands against the model of the run's states (issue 5.4). */

const ROUND = 100

/** Resolves with the exit code: 0 where every sequence was as the model says. */
export async function soakStates (args: readonly string[]): Promise<number> {
  const count = Number(args[0] ?? 2000)
  const seed = Number(args[1] ?? Date.now() % 2 ** 31)
  const say = (line: string): void => { process.stdout.write(`${line}\n`) }
  say(`states: ${count} sequences, seed ${seed}`)
  for (let done = 0; done < count; done += ROUND) {
    const ends: (() => void | Promise<void>)[] = []
    try {
      await playSequences((end) => { ends.push(end) }, { runs: Math.min(ROUND, count - done), seed: seed + done, size: 60 })
    } catch (error) {
      say(`states: FAILED after ${done} sequences: ${error instanceof Error ? `${error.message}\n${String(error.cause)}` : String(error)}`)
      return 1
    } finally {
      for (const end of ends.toReversed()) await end()
    }
    say(`states: ${Math.min(count, done + ROUND)} sequences played`)
  }
  say('states: ok')
  return 0
}
