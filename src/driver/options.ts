import { at } from '../core/fault-point.ts'
import type { LiveRun } from '../core/live.ts'
import type { Store } from '../core/store.ts'
import type { Agent, Slot } from '../loop/agent.ts'
import type { AgentParts } from './agent.ts'

/** A place that executes runs, or one in the queue for it (`free: false`). */
export interface ReservedSlot extends Slot {
  readonly free: boolean
  /** Whether `acquire` would give a place now. */
  readonly ready: boolean
}

export interface DriverOptions extends AgentParts {
  store: Store
  newId: () => string
  /** The deployment's cap on depth, beside the request's. */
  maxDepth?: number
  now: () => number
  random: () => number
  /** How long a settled run is kept. */
  retentionMs: number
  /** A slot for a published run of a tenant; reserved before publication so that a full queue refuses (http-api.md 8.3). */
  reserve: (tenant: string, resumed: boolean) => ReservedSlot
  /** Makes the run visible to this process' callers, and takes it away again. */
  announce: (run: LiveRun) => void
  retire: (run: LiveRun) => void
  /** A fault: a bug or a lost store, with its cause. */
  onFault: (message: string, error: unknown, context: object) => void
  /** Ends the background children of a run whose turn ended, and waits for them (driver.md §11). */
  endChildren?: (run: LiveRun) => Promise<void>
  /** Tells a run that is taken up again what became of its children meanwhile, before it goes on. */
  catchUp?: (run: LiveRun) => Promise<void>
  onModelCall?: Agent['onModelCall']
  onSettled?: (run: LiveRun) => void
}

/** The run exists from here on: what its announcement meets is no failure of it (driver.md 4.2). */
export function announce ({ announce, onFault }: DriverOptions, run: LiveRun): void {
  try {
    announce(run)
    at('run/announced')
  } catch (error) {
    onFault('a run could not be announced', error, { runId: run.id })
  }
}

/** The slot as the loop gives it up and takes it back; `onPlace` is told when it has one again. */
export const watchedSlot = (slot: Slot, onPlace: () => void): Slot => ({
  release: () => slot.release(),
  async acquire (signal) {
    await slot.acquire(signal)
    onPlace()
  }
})
