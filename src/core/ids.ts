import { randomBytes } from 'node:crypto'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (value: string): boolean => UUID.test(value)

/** A source of UUIDs, version 7 (RFC 9562 §5.7): ordered by time, and within a millisecond by a counter in `rand_a`. */
export function createIds (now: () => number): () => string {
  let last = 0
  let counter = 0
  return () => {
    const time = now()
    if (time > last) { last = time; counter = 0 } else if (++counter > 0xfff) { last++; counter = 0 }
    const bytes = randomBytes(16)
    bytes.writeUIntBE(last, 0, 6)
    bytes.writeUInt16BE(0x7000 | counter, 6)
    bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
    const hex = bytes.toString('hex')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }
}
