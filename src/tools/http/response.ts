import { cutText, utf8Length } from '../../core/cut.ts'

export interface ReadOptions {
  maxBytes: number
  /** Takes secrets out; done before the cut, which could else leave a part of one. */
  redact: (text: string) => string
}

/** Past this many bytes behind the cut nothing more is counted. */
const MAX_COUNTED = 8 * 1024 * 1024
/** Read beyond the cut, so that a secret that stands across it is seen whole. */
const MARGIN = 8192

/** The body of a response as text of at most `maxBytes`, with a mark that says how much is missing; of binary content its type and size. */
export async function readBody (response: Response, { maxBytes, redact }: ReadOptions): Promise<string> {
  const { kept, total, complete } = await readBytes(response, maxBytes + MARGIN)
  const type = response.headers.get('content-type') ?? ''
  if (!isText(type, kept)) return `[${mediaType(type)}, ${complete ? '' : 'at least '}${total} bytes: not a text]`
  const text = redact(decoderOf(type).decode(kept, { stream: kept.length < total }))
  const head = headOf(text, maxBytes)
  if (head === text && kept.length === total && complete) return text.toWellFormed()
  const missing = Math.max(1, total - utf8Length(head))
  return `${head}\n[... ${complete ? `${missing} of ${total}` : `more than ${missing}`} bytes are missing here ...]`.toWellFormed()
}

/** The beginning of a short text for an error. */
export const excerpt = (text: string, maxBytes: number): string => cutText(text.trim(), maxBytes)

async function readBytes (response: Response, maxBytes: number): Promise<{ kept: Uint8Array, total: number, complete: boolean }> {
  if (!response.body) return { kept: new Uint8Array(), total: 0, complete: true }
  const reader: ReadableStreamDefaultReader<Uint8Array> = response.body.getReader()
  const declared = declaredLength(response)
  const chunks: Uint8Array[] = []
  let kept = 0
  let total = 0
  let complete = true
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const part = read.value.subarray(0, maxBytes - kept)
    if (part.length > 0) chunks.push(part)
    kept += part.length
    total += read.value.length
    if (total <= maxBytes || (declared === undefined && total < maxBytes + MAX_COUNTED)) continue
    complete = declared !== undefined
    total = declared ?? total
    await reader.cancel()
    break
  }
  return { kept: Buffer.concat(chunks), total, complete }
}

/** What the server says its body has; of a compressed one that is another size. */
function declaredLength ({ headers }: Response): number | undefined {
  const length = headers.get('content-length')
  return length !== null && /^\d{1,15}$/.test(length) && headers.get('content-encoding') === null ? Number(length) : undefined
}

function headOf (text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes))
  return text.slice(0, read)
}

const mediaType = (type: string): string => type.split(';', 1)[0]?.trim().toLowerCase() || 'content of an unknown type'

const TEXTUAL = /^(text\/.*|application\/(.*\+)?(json|xml|yaml|x-yaml|x-ndjson|javascript|ecmascript|graphql|sql|toml|x-www-form-urlencoded)(-seq)?|image\/svg\+xml)$/

function isText (type: string, bytes: Uint8Array): boolean {
  if (type !== '') return TEXTUAL.test(mediaType(type))
  return !bytes.subarray(0, 4096).includes(0)
}

function decoderOf (type: string): InstanceType<typeof TextDecoder> {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(type) ?? []
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder()
  }
}
