import { createHash, randomUUID } from 'node:crypto'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (value: string): boolean => UUID.test(value)

/** A source of UUIDs, version 7 (RFC 9562 §5.7): ordered by time, and within a millisecond by a counter in `rand_a`. */
export function createIds (now: () => number): () => string {
  let last = 0
  let counter = 0
  return () => {
    const time = now()
    if (time > last) { last = time; counter = 0 } else if (++counter > 0xfff) { last++; counter = 0 }
    const stamp = last.toString(16).padStart(12, '0')
    // The rest of a version 4 UUID is random bits behind the same variant.
    return `${stamp.slice(0, 8)}-${stamp.slice(8)}-${(0x7000 | counter).toString(16)}-${randomUUID().slice(19)}`
  }
}

/** The one UUID that follows from these parts, whichever process asks. */
export function derivedId (...parts: readonly string[]): string {
  const hex = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
