import { refuse } from '../src/core/errors.ts'

export interface Fault { pointer: string, detail: string }

/** More faults than these help nobody. */
const MOST = 20

/** `INVALID_REQUEST` of the faults found; its text names the first (http-api.md 5.3). */
export function invalid (faults: readonly Fault[]) {
  const errors = faults.slice(0, MOST)
  const [first] = errors
  const detail = first === undefined ? 'the request is malformed' : first.detail.startsWith('query parameter') || first.pointer === '' ? first.detail : `${first.pointer} ${first.detail}`
  return refuse('INVALID_REQUEST', { detail, errors: [...errors] })
}
