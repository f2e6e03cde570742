import { messageOf } from '../../src/core/errors.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { at, publish, said, settle } from './support.ts'

/**
 * A process of its own for sqlite.test.ts: `hold PATH` keeps the store open, `write PATH` writes runs and prints what was
 * acknowledged, a line each, until it is killed; `open PATH` tells how opening goes.
 */
const [, , mode, path] = process.argv
const say = (line: object): void => { process.stdout.write(`${JSON.stringify(line)}\n`) }

const opened = openSqliteStore({ path: path ?? '', now: Date.now })
if (mode === 'open') {
  try {
    await (await opened).close()
    say({ opened: true })
  } catch (error) {
    say({ error: messageOf(error) })
  }
} else {
  const store = await opened
  say({ opened: true })
  const writeRuns = async (): Promise<never> => {
    for (;;) {
      const run = await publish(store)
      say({ id: run.id, events: 0 })
      for (let seq = 0; seq < 20; seq += 2) {
        await store.append({ segment: run.segment, events: at(seq, [said('a'), said('b')]) })
        say({ id: run.id, events: seq + 2 })
      }
      await settle(store, run, 20)
      say({ id: run.id, events: 21, settled: true })
    }
  }
  if (mode === 'write') await Promise.all(Array.from({ length: 8 }, writeRuns))
  else setInterval(() => {}, 60_000)
}
