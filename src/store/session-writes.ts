import type { Store } from '../core/store.ts'
import type { CommitQueue } from './commit-queue.ts'
import { isLong, type Draft, type Drafts } from './drafts.ts'
import type { HostSessions } from './host-sessions.ts'

export interface SessionWriteParts { queue: CommitQueue, drafts: Drafts, hostSessions: HostSessions, now: () => number }

/**
 * Writes of hosts' sessions, short ones in one transaction; of long ones the events first, as a draft that the last transaction
 * makes the session's own. PRIVATE: touches no table.
 */
export function createSessionWrites ({ queue, drafts, hostSessions, now }: SessionWriteParts): Pick<Store, 'createSession' | 'appendSession'> {
  async function settle<T> (draft: Draft, run: () => T): Promise<T> {
    try {
      return await queue.write(run)
    } finally {
      drafts.letGo(draft.segment)
    }
  }
  return {
    async createSession (session, key) {
      if (!isLong(session.events)) return await queue.write(hostSessions.create(session, key))
      const { tenant, id } = session.header
      const draft = await drafts.write(session.events, now(), () => hostSessions.checkNew(tenant, id, key))
      return await settle(draft, hostSessions.create({ ...session, events: [] }, key, draft.segment))
    },
    async appendSession (tenant, id, after, growth, key) {
      if (!isLong(growth.events)) return await queue.write(hostSessions.grow(tenant, id, after, growth, key))
      const draft = await drafts.write(growth.events, now(), () => hostSessions.seedOf(tenant, id, after, key))
      return await settle(draft, hostSessions.grow(tenant, id, after, { ...growth, events: [] }, key, draft))
    }
  }
}
