import type { SessionEvent } from '../../core/events.ts'
import type { RunPatch } from '../../core/run.ts'
import type { ObservedWrite, Publication, Store } from '../../core/store.ts'

type Places = ReadonlyMap<string, { segment: number, firstSeq: number }>

/** What a run hands over at once: the events of a tick, its changed columns, and where it is new its publication. */
export interface RunWrite { id: string, publication?: Publication | undefined, events: readonly SessionEvent[], patch?: RunPatch | undefined }

/**
 * Writes of one chat: what its runs hand over in one tick goes to the store as one transaction with the lines it came of, so that
 * journal, logs and rows never tell different stories. Events keep the order in which they were noted, across the runs.
 */
export class ChatWriter {
  readonly #store: Pick<Store, 'observe'>
  readonly #tenant: string
  readonly #chat: string
  /** Told when a write failed: what it held, its lines too, is in memory alone. */
  onLost: (error: unknown) => void = () => {}
  /** Runs in the order of their events, with how many came in a row. */
  #order: { id: string, count: number }[] = []
  #handed: RunWrite[] = []
  #lines: string[] = []
  /** Number of the next line. */
  #next: number
  #writing: PromiseWithResolvers<Places> | undefined
  #written: Promise<unknown> = Promise.resolve()

  constructor (store: Pick<Store, 'observe'>, chat: { tenant: string, id: string, lines: number }) {
    this.#store = store
    this.#tenant = chat.tenant
    this.#chat = chat.id
    this.#next = chat.lines
  }

  /** How many lines it was given, those of earlier processes included. */
  get lines (): number { return this.#next }

  /** An event of this run comes next. */
  note (id: string): void {
    const last = this.#order.at(-1)
    if (last?.id === id) last.count++
    else this.#order.push({ id, count: 1 })
    void this.#soon()
  }

  /** Takes lines into the journal, after their events were appended. */
  journal (lines: readonly string[]): void {
    if (lines.length === 0) return
    for (const line of lines) this.#lines.push(line)
    this.#next += lines.length
    void this.#soon()
  }

  /** Resolves once it is durable; rejects when the store is lost. */
  hand (write: RunWrite): Promise<Places> {
    this.#handed.push(write)
    return this.#soon()
  }

  /** Resolves once all that was noted and handed over before is durable. */
  written (): Promise<unknown> { return this.#writing?.promise ?? this.#written }

  #soon (): Promise<Places> {
    if (this.#writing) return this.#writing.promise
    const writing = Promise.withResolvers<Places>()
    this.#writing = writing
    writing.promise.catch(() => {})
    this.#written = writing.promise
    // The logs hand over in the microtasks that their appends began: by then they all have.
    setImmediate(() => {
      this.#writing = undefined
      this.#write().then(writing.resolve, (error: unknown) => {
        writing.reject(error)
        this.onLost(error)
      })
    })
    return writing.promise
  }

  async #write (): Promise<Places> { return await this.#store.observe(this.#take()) }

  #take (): Parameters<Store['observe']>[0] {
    const [lines, order, handed] = [this.#lines, this.#order, this.#handed]
    this.#lines = []
    this.#order = []
    this.#handed = []
    const from = this.#next - lines.length
    return { tenant: this.#tenant, chat: this.#chat, writes: inOrder(order, handed), ...(lines.length > 0 ? { frames: { from, lines } } : {}) }
  }
}

/** What is left of a run's events is from `next` on. */
interface Left { events: SessionEvent[], next: number, publication: Publication | undefined, patch: RunPatch | undefined }

/** Cuts what each run handed over into pieces that follow each other as their events came. A run's patch goes with its last piece. */
function inOrder (order: readonly { id: string, count: number }[], handed: readonly RunWrite[]): ObservedWrite[] {
  const left = new Map<string, Left>()
  for (const { id, events, publication, patch } of handed) {
    const known = left.get(id)
    if (!known) left.set(id, { events: [...events], next: 0, publication, patch })
    else {
      for (const event of events) known.events.push(event)
      known.publication ??= publication
      if (patch) known.patch = { ...known.patch, ...patch }
    }
  }
  const writes: ObservedWrite[] = []
  const take = (id: string, count: number): void => {
    const run = left.get(id)
    if (!run) return
    const events = run.events.slice(run.next, run.next + count)
    run.next += events.length
    const isLast = run.next === run.events.length
    if (isLast) left.delete(id)
    if (events.length === 0 && !run.publication && !run.patch) return
    writes.push({ id, events, ...(run.publication ? { publication: run.publication } : {}), ...(isLast && run.patch ? { patch: run.patch } : {}) })
    run.publication = undefined
  }
  for (const { id, count } of order) take(id, count)
  for (const id of left.keys()) take(id, Infinity)
  return writes
}
