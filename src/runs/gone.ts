import { refuse } from '../core/errors.ts'
import type { EventPage, StreamItem } from './api.ts'
import { cursorOf, readCursor, type Place } from './cursor.ts'

/**
 * What a reader gets of a run that is no more (http-api.md 6.5). Its cursor is the proof that the run was: only its stream gave
 * it, and nothing else is remembered of it. Without one the run is unknown.
 */

/** Throws `CURSOR_EXPIRED`, or `RUN_NOT_FOUND`; a page for a cursor that nothing can follow. */
export function goneEventPage (id: string, tree: boolean, after: string | undefined): EventPage {
  if (!placeIn(id, tree, after).end) throw refuse('CURSOR_EXPIRED')
  return { events: [], after: after ?? null, settled: true }
}

/** A `gap`, whose cursor is the stream's end: who comes again with it is told that nothing follows. Throws `RUN_NOT_FOUND`. */
export function goneStream (
  id: string, tree: boolean, after: string | undefined
): { ended: true } | { ended: false, items: AsyncIterable<StreamItem[]> } {
  const { at, end } = placeIn(id, tree, after)
  return end ? { ended: true } : { ended: false, items: gap(cursorOf(id, tree, { at, end: true })) }
}

async function * gap (oldest: string): AsyncGenerator<StreamItem[]> { yield [{ type: 'gap', oldest }] }

function placeIn (id: string, tree: boolean, after: string | undefined): Place {
  const place = after === undefined ? undefined : readCursor(id, tree, after)
  if (!place) throw refuse('RUN_NOT_FOUND', { id })
  return place
}
