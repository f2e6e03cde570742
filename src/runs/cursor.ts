import { refuse } from '../core/errors.ts'
import { fingerprint } from './context.ts'

/** A place in a run's stream: `at` is the last event read (`seq`, or the tree's order); `end`: the stream is over there. */
export interface Place { at: number, end: boolean }

/** The opaque cursor of a place, bound to its stream (http-api.md 6.1). */
export const cursorOf = (runId: string, tree: boolean, place: Place): string => createCursors(runId, tree)(place)

/** The cursors of one stream. */
export function createCursors (runId: string, tree: boolean): (place: Place) => string {
  const stream = `${tree ? 't' : 'o'}${fingerprint(`${tree ? 'tree' : 'own'} ${runId}`)}`
  return ({ at, end }) => `${stream}.${at.toString(36)}${end ? '.' : ''}`
}

/** Reads a cursor. Throws `INVALID_REQUEST` for one of another stream, or for none at all. */
export function placeOf (runId: string, tree: boolean, cursor: string): Place {
  const place = readCursor(runId, tree, cursor)
  if (place) return place
  const detail = CURSOR.test(cursor) ? 'after is a cursor of another stream' : 'after is not a cursor of this service'
  throw refuse('INVALID_REQUEST', { detail, errors: [{ pointer: '/after', detail }] })
}

/** As `placeOf`; `undefined` where it throws. */
export function readCursor (runId: string, tree: boolean, cursor: string): Place | undefined {
  const [, stream, at, end] = CURSOR.exec(cursor) ?? []
  const own = cursorOf(runId, tree, { at: 0, end: false }).slice(0, 9)
  return at === undefined || stream !== own ? undefined : { at: parseInt(at, 36), end: end === '.' }
}

const CURSOR = /^([ot][A-Za-z0-9_-]{8})\.([0-9a-z]{1,11})(\.?)$/
