/** What the runs of a service are, as far as a host can tell: the model that the real service is held against (issue 5.4). */

/**
 * `say` answers at once, `fail` fails at once, `gate` stays in a tool of the service until its gate is opened, `ask` waits for a tool
 * of the host, `hang` never ends by itself.
 */
export type Kind = 'say' | 'fail' | 'gate' | 'ask' | 'hang'
/** Runs that execute at once. */
export const PLACES = 2

export interface ModelRun {
  id: string
  kind: Kind
  session: string
  parent: ModelRun | undefined
  depth: number
  state: 'queued' | 'running' | 'waiting' | 'settled' | 'deleted'
  stopReason: 'completed' | 'aborted' | 'error' | undefined
  /** A cancellation stands in its row. */
  cancelled: boolean
  /** Of the host's tool. */
  call: 'none' | 'pending' | 'answered' | 'cancelled'
  key: string | undefined
  /** Its row when it settled: it never changes. */
  last: string | undefined
}

export interface Model {
  /** In the order of their starts. */
  runs: ModelRun[]
  /** Who waits for a place, in order. */
  queue: ModelRun[]
  restarts: number
}
export const emptyModel = (): Model => ({ runs: [], queue: [], restarts: 0 })

export const isOpen = ({ state }: ModelRun): boolean => state === 'queued' || state === 'running' || state === 'waiting'
export const pick = (model: Model, index: number): ModelRun | undefined => model.runs[index % Math.max(1, model.runs.length)]
const taken = (model: Model): number => model.runs.filter(({ state }) => state === 'running').length

export function started (model: Model, of: Pick<ModelRun, 'id' | 'kind' | 'parent' | 'key'> & { session?: string }): void {
  const run: ModelRun = {
    ...of, session: of.session ?? of.id, depth: (of.parent?.depth ?? 0) + 1, state: 'queued', stopReason: undefined,
      cancelled: false,
    call: 'none', last: undefined
  }
  model.runs.push(run)
  enter(model, run)
}

function enter (model: Model, run: ModelRun): void {
  run.state = 'queued'
  model.queue.push(run)
  serve(model)
}

function serve (model: Model): void {
  while (taken(model) < PLACES) {
    const run = model.queue.shift()
    if (!run) return
    goOn(run)
  }
}

/** What a run does with a place. */
function goOn (run: ModelRun): void {
  if (run.kind === 'say' || run.call === 'answered') settle(run, 'completed')
  else if (run.kind === 'fail') settle(run, 'error')
  else if (run.kind === 'ask') Object.assign(run, { state: 'waiting', call: 'pending' })
  else run.state = 'running'
}

function settle (run: ModelRun, stopReason: ModelRun['stopReason']): void {
  run.state = 'settled'
  run.stopReason = stopReason
}

export function opened (model: Model, run: ModelRun): void {
  settle(run, 'completed')
  serve(model)
}

export function answered (model: Model, run: ModelRun): void {
  run.call = 'answered'
  enter(model, run)
}

/** The run and everything below it, children first. */
export function treeOf (model: Model, run: ModelRun): ModelRun[] {
  const below = model.runs.filter(({ parent, state }) => parent === run && state !== 'deleted')
  return [...below.flatMap((child) => treeOf(model, child)), run]
}

/** All at once: no place is free in between. */
export function cancelled (model: Model, ...runs: ModelRun[]): void {
  for (const each of runs.flatMap((run) => treeOf(model, run))) {
    if (!isOpen(each)) continue
    if (each.call === 'pending') each.call = 'cancelled'
    each.cancelled = true
    model.queue = model.queue.filter((other) => other !== each)
    settle(each, 'aborted')
  }
  serve(model)
}

export function deleted (model: Model, run: ModelRun): void {
  cancelled(model, run)
  for (const each of treeOf(model, run)) each.state = 'deleted'
}

/** The service starts again: those that execute come anew for a place, the deepest first, then by age. */
export function restarted (model: Model): void {
  model.restarts++
  const again = model.runs.filter(({ state }) => state === 'running' || state === 'queued').toSorted((a, b) => b.depth - a.depth)
  model.queue = again
  for (const run of again) run.state = 'queued'
  serve(model)
}

/** What a host's answer to call `c1` of the run is answered with. */
export function answerTo (run: ModelRun, content: string): { status: number, reason?: string } {
  if (run.state === 'deleted') return { status: 404 }
  switch (run.call) {
    case 'none': return { status: 409, reason: 'unknown' }
    case 'pending': return { status: 200 }
    case 'answered': return content === 'right' ? { status: 200 } : { status: 409, reason: 'answered' }
    case 'cancelled': return { status: 409, reason: 'cancelled' }
    default: return run.call satisfies never
  }
}

/** What a follow-up to the run is answered with. */
export function followUpTo (model: Model, run: ModelRun): number {
  if (run.state === 'deleted') return 404
  if (isOpen(run) || model.runs.some((other) => other.session === run.session && isOpen(other))) return 409
  return run.parent?.cancelled ? 409 : 201
}
