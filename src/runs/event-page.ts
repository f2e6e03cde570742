import type { Caller, EventPage } from './api.ts'
import type { RunsContext } from './context.ts'
import { cursorOf, placeOf } from './cursor.ts'
import { findEnd, isEnd, sourceOf, type Read, type Source } from './event-sources.ts'
import { goneEventPage } from './gone.ts'
import { createWakeUp } from './wake-up.ts'

export interface PageOptions { after?: string, tree: boolean, limit: number, waitMs: number, signal: AbortSignal }

/** A page of the log after `after`; waits up to `waitMs` for a first event (http-api.md 6.6). `settled` is the last one (6.3). */
export async function eventPage (
  context: RunsContext, caller: Caller, id: string, options: PageOptions
): Promise<EventPage> {
  const { after, tree, limit, waitMs, signal } = options
  const run = await context.store.getRun(caller.tenant, id)
  if (!run) return goneEventPage(id, tree, after)
  const source = sourceOf(context, run, tree)
  const place = after === undefined ? undefined : placeOf(id, tree, after)
  if (place?.end) return { events: [], after: after ?? null, settled: true }
  const wakeUp = createWakeUp([signal, context.closing], waitMs)
  const stop = waitMs === 0 ? () => {} : source.watch((news) => { if (news === 'log') wakeUp.tell(news) })
  try {
    for (let at = place?.at; ;) {
      wakeUp.take()
      const { page, open, last } = await readPage(context, source, at, limit)
      if (page.events.length > 0 || !open || wakeUp.over || waitMs === 0) return page
      at = last
      await wakeUp.next()
    }
  } finally {
    stop()
    wakeUp.close()
  }
}

/** A page ends sooner where its events are large; the next one goes on. */
const MOST_CHARS = 8_388_608

interface PageRead { page: EventPage, open: boolean, /** The place that was read up to. */ last: number | undefined }

/** What there is after a place. */
async function readPage (context: RunsContext, source: Source, at: number | undefined, limit: number): Promise<PageRead> {
  const { run, tree } = source
  const state = await source.state()
  const { reads, more } = await source.read(at ?? source.first, { limit, chars: MOST_CHARS })
  const last = reads.at(-1)?.at ?? at
  const passed = reads.find((read) => isEnd(read, run))
  const over = (state === 'settled' && !more) || (!tree && passed !== undefined)
  const end = over ? passed ?? (tree ? await findEnd(context, source) : undefined) : undefined
  const events = [...reads.filter((read) => !isEnd(read, run)), ...end ? [end] : []].map(eventOf)
  const place = last ?? (over ? source.first : undefined)
  return {
    page: { events, after: place === undefined ? null : cursorOf(run.id, tree, { at: place, end: over }), settled: over },
    open: state === 'open',
    last
  }
}

const eventOf = ({ runId, event: { seq, time, type, data } }: Read): EventPage['events'][number] =>
  ({ runId, seq, time, type, data })
