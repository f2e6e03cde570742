interface Range { type: string, q: number }

function rangesOf (accept: string): Range[] {
  return accept.split(',').map((item) => {
    const [type = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    const q = weight === undefined ? 1 : Number(weight)
    return { type, q: Number.isFinite(q) ? Math.max(0, Math.min(q, 1)) : 0 }
  }).filter((range) => range.type !== '')
}

/** The weight that an `Accept` gives a media type: of the most specific range that matches (RFC 9110 §12.5.1). */
function weightOf (ranges: readonly Range[], type: string): number {
  const [family] = type.split('/')
  for (const name of [type, `${family}/*`, '*/*']) {
    const found = ranges.filter((range) => range.type === name)
    if (found.length > 0) return Math.max(...found.map((range) => range.q))
  }
  return 0
}

/** Whether `application/json` is acceptable. */
export const takesJson = (accept: string | undefined): boolean =>
  accept === undefined || accept.trim() === '' || weightOf(rangesOf(accept), 'application/json') > 0

/** Whether `text/event-stream` is asked for by name, and JSON is not preferred to it. */
export function asksForEvents (accept: string | undefined): boolean {
  const ranges = rangesOf(accept ?? '')
  const named = ranges.filter((range) => range.type === 'text/event-stream')
  const q = Math.max(0, ...named.map((range) => range.q))
  return q > 0 && q >= Math.max(0, ...ranges.filter((range) => range.type === 'application/json').map((range) => range.q))
}
