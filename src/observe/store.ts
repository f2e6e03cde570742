import type { Store } from '../core/store.ts'
import type { Metrics } from './metrics.ts'

/** The store, with its writes counted and timed. A publication is timed until it is written, as it resolves (core/store.ts). */
export function measuredStore (store: Store, metrics: Pick<Metrics, 'storeWrite'>): Store {
  const timed = <R>(operation: string, written: Promise<R>): Promise<R> => {
    const end = metrics.storeWrite(operation)
    written.then(end, end)
    return written
  }
  return {
    ...store,
    publish: (publication) => timed('publish', store.publish(publication)),
    append: (append) => timed('append', store.append(append)),
    patchRun: (...args) => timed('patch', store.patchRun(...args)),
    createSession: (...args) => timed('session', store.createSession(...args)),
    appendSession: (...args) => timed('session', store.appendSession(...args))
  }
}
