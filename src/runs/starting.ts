import { CancelReason } from '../core/live.ts'
import type { ParentInput } from './api.ts'
import type { StartingRun } from './registry.ts'

export interface Starting extends StartingRun {
  readonly signal: AbortSignal
  /** Somebody other than its own client stopped it. */
  readonly cancelled: boolean
  end (): void
}

/**
 * A start under way. Its client's leaving ends it only before the publication; what that means for the published run is the
 * request's matter (http-api.md §3).
 */
export function createStarting (tenant: string, id: string, parent: ParentInput | undefined, client: AbortSignal): Starting {
  const controller = new AbortController()
  const over = Promise.withResolvers<undefined>()
  let publishing = false
  const onGone = (): void => controller.abort(new CancelReason('disconnect', 'the client went away'))
  const leave = (): void => client.removeEventListener('abort', onGone)
  if (client.aborted) onGone()
  else client.addEventListener('abort', onGone)
  return {
    tenant,
    id,
    parentId: parent && 'runId' in parent ? parent.runId : parent && 'sessionId' in parent ? parent.sessionId : null,
    signal: controller.signal,
    over: over.promise,
    get publishing () { return publishing },
    get cancelled () { return controller.signal.reason instanceof CancelReason && controller.signal.reason.by !== 'disconnect' },
    abort: (reason) => controller.abort(reason),
    onPublish () {
      publishing = true
      leave()
    },
    end () {
      leave()
      over.resolve(undefined)
    }
  }
}
