import { expect, onTestFinished } from 'vitest'
import type { Store } from '../../src/core/store.ts'
import { describeForks } from './contract-forks.ts'
import { describeLogs } from './contract-logs.ts'
import { describeModel } from './contract-model.ts'
import { describeObservations } from './contract-observations.ts'
import { describePublication } from './contract-publication.ts'
import { describeQueries } from './contract-queries.ts'
import { describeRetention } from './contract-retention.ts'
import { describeSessions } from './contract-sessions.ts'

/** What every store must do: one suite over all of them. */
export interface StoreOptions { now: () => number, retentionMs?: number, onFault?: (error: unknown) => void }
/** Opens an empty store; closing it is the suite's. */
export type OpenStore = (options: StoreOptions) => Promise<Store>
/** Opens an empty store that is closed when the test is over. */
export type NewStore = (options?: Partial<StoreOptions>) => Promise<Store>

export function storeContract (name: string, open: OpenStore): void {
  const newStore: NewStore = async (options = {}) => {
    const store = await open({ now: () => 1_000_000, onFault: (error) => expect.fail(`a fault: ${String(error)}`), ...options })
    onTestFinished(() => store.close())
    return store
  }
  describePublication(name, newStore)
  describeLogs(name, newStore)
  describeForks(name, newStore)
  describeQueries(name, newStore)
  describeSessions(name, newStore)
  describeRetention(name, newStore)
  describeObservations(name, newStore)
  describeModel(name, newStore)
}
