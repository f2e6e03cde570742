import { join } from 'node:path'
import type { NewEvent, SessionEvent } from '../../src/core/events.ts'
import type { RunPatch } from '../../src/core/run.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { makeFolder, startService, type AtEnd, type Service, type ServiceOptions } from './service.ts'

export interface Lives {
  /** The service's next life on the same file; the one before has stopped. */
  start (options?: ServiceOptions): Promise<Service>
  /** Between two lives: adds events to a run's log, as if the stopped one had come so far. */
  add (id: string, events: NewEvent[], patch?: RunPatch): Promise<void>
}

/** A service that is stopped and started again on one file, as often as the test wants. */
export function createLives (atEnd: AtEnd): Lives {
  const path = join(makeFolder(atEnd), 'runs.db')
  let last: Service | undefined
  return {
    async start (options = {}) {
      await last?.stop()
      last = await startService(atEnd, { ...options, env: { DATABASE_URL: `sqlite:${path}`, ...options.env } })
      return last
    },
    async add (id, events, patch) {
      await last?.stop()
      const store = await openSqliteStore({ path, now: Date.now })
      const run = await store.getRun('default', id)
      if (!run) throw new Error('no run')
      const from = (await store.readEvents(run.segment, 0)).length
      await store.append({
        segment: run.segment, events: events.map((event, i) => ({ ...event, seq: from + i, time: Date.now() }) as SessionEvent),
        ...(patch ? { run: { tenant: 'default', id, patch } } : {})
      })
      await store.close()
    }
  }
}

/** Resolves once the live run has logged an event of this type, durably; at once where it is not live. */
export async function reached (service: Service, id: string, type: string): Promise<void> {
  const live = service.app.registry.live('default', id)
  const there = (): boolean => live?.log.own.some((event) => event.type === type) ?? true
  while (!there()) await new Promise((resolve) => { setImmediate(resolve) })
  await live?.log.durable()
}
