import { refuse } from '../src/core/errors.ts'

export interface Fault { pointer: string, detail: string }

/** More faults than these help nobody. */
const MOST = 20

/** `INVALID_REQUEST` of the faults found; its text names the first (http-api.md 5.3). `status`: another one than 400. */
export function invalid (faults: readonly Fault[], status?: number) {
  const errors = faults.slice(0, MOST)
  const [first] = errors
  const detail = first === undefined ? 'the request is malformed' : textOf(first)
  return refuse('INVALID_REQUEST', { detail, errors: [...errors], ...status !== undefined && { status } })
}

/** A fault of a query parameter or of the whole names itself. */
const textOf = ({ pointer, detail }: Fault): string =>
  pointer === '' || detail.startsWith('query parameter') ? detail : `${pointer} ${detail}`
