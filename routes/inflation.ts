import { Transform, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { invalid } from './invalid.ts'

/** An endless body may be so many times its encoded size, once it is more than so much; text that somebody wrote is 5 to 20 times. */
const MOST_TIMES = 200
const FREE_BYTES = 1_048_576

/**
 * What a gzip body holds. `endless`: nothing else bounds it, so that it fails with `INVALID_REQUEST` where it swells past what its
 * sender paid for. Fails with a `Z_…` error where it is no gzip. From its end on, however it came, the rest of `source` flows away unread.
 */
export function inflate (source: Readable, { endless }: { endless: boolean }): Readable {
  const gunzip = createGunzip()
  let decoded = 0
  const checked = new Transform({
    transform (piece: Buffer, _, done) {
      decoded += piece.length
      const swells = endless && decoded > FREE_BYTES && decoded > MOST_TIMES * gunzip.bytesWritten
      done(swells ? invalid([{ pointer: '', detail: `the gzip body swells to more than ${MOST_TIMES} times its size; send it as it is` }]) : null, piece)
    },
    destroy (error, done) {
      source.unpipe(gunzip)
      source.resume()
      gunzip.destroy()
      done(error)
    }
  })
  gunzip.once('error', (error) => checked.destroy(error))
  source.pipe(gunzip).pipe(checked)
  return checked
}
