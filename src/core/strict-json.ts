import { ANY_NUMBER, Scan, VERBATIM } from './json-scan.ts'
import type { JsonFault, Place } from './json-scan.ts'

export type { JsonFault } from './json-scan.ts'

/** Places are pointers in which a `*` token stands for any one token. Each holds for the value there and all below it. */
export interface JsonPlaces {
  /** Their source text is kept; integers past 2^53 and NUL are theirs to hold. */
  verbatim?: readonly string[]
  /** Numbers here are somebody else's to judge: `-0`, `Infinity` for an overflow, past 2^53. */
  anyNumber?: readonly string[]
}

export interface StrictJson {
  /** `undefined` when there are faults; made when it is first asked for, so that a turn of the event loop may come before. */
  readonly value: unknown
  /** In document order, at most 20; a syntax fault has the pointer ''. */
  faults: JsonFault[]
  /** The source text, without white space around it, of a value at a verbatim place. */
  raw (pointer: string): string | undefined
}

/**
 * A parser of JSON texts as this service takes them (http-api.md, head): what JSON.parse would silently change, drop or merge
 * is refused by place, and the exact source text of the values at `verbatim` places can be had, so that key order, big numbers
 * and escapes survive. The parser throws nothing: what is wrong is in `faults`. A leading byte order mark is passed over.
 */
export function createStrictParser (places: JsonPlaces = {}): (text: string) => StrictJson {
  const root: Place = { flags: 0, children: new Map() }
  for (const pointer of places.verbatim ?? []) mark(root, pointer, VERBATIM)
  for (const pointer of places.anyNumber ?? []) mark(root, pointer, ANY_NUMBER)
  return (source) => {
    const text = source.charCodeAt(0) === 0xfeff ? source.slice(1) : source
    const scan = new Scan(text)
    scan.run(root)
    let kept = 0
    for (const [from, to] of scan.spans.values()) kept += to - from
    let made: { value: unknown } | undefined
    return {
      get value () { return scan.faults.length > 0 ? undefined : (made ??= { value: JSON.parse(text) as unknown }).value },
      faults: scan.faults,
      raw: (pointer) => {
        const span = scan.spans.get(pointer)
        const slice = span && text.slice(span[0], span[1])
        return slice && kept < text.length / 2 ? copy(slice) : slice
      }
    }
  }
}

function mark (root: Place, pointer: string, flag: number): void {
  let place = root
  for (const token of pointer.split('/').slice(1)) {
    const key = token.replaceAll('~1', '/').replaceAll('~0', '~')
    const next = place.children.get(key) ?? { flags: 0, children: new Map<string, Place>() }
    place.children.set(key, next)
    place = next
  }
  place.flags |= flag
}

/** A string of its own: a slice keeps the whole text in memory as long as itself. */
const copy = (slice: string): string => Buffer.from(slice).toString()
