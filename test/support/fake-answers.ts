/** What a fake model server answers, in no protocol's terms. */

/** `arguments`: the text as it is, broken or not; else that of `input`. */
export interface FakeCall { id?: string, name: string, input?: unknown, arguments?: string }
export interface FakeUsage { input?: number, cached?: number, cacheWrite?: number, output?: number, reasoning?: number }
export interface FakeReply {
  kind: 'reply'
  reasoning?: string
  text?: string
  calls?: FakeCall[]
  stop?: 'end' | 'max-tokens' | 'refusal'
  usage?: FakeUsage
  /** Pieces the text is streamed in. */
  pieces?: number
  /** Answer as one JSON body, whatever `stream` says. */
  whole?: boolean
  /** Waited before the answer begins. */
  delayMs?: number
}
/** Every way in which a model server fails (quality.md). */
export const FAULTS = [
  'status400', 'status429', 'status500', 'status502', 'status503', 'status504', 'status529', 'auth', 'context-too-long',
  'redirect', 'reset-before', 'reset-during', 'stall', 'bad-json', 'wrong-content-type', 'broken-arguments', 'empty', 'huge',
  'ends-early', 'error-event', 'ignores-stream'
] as const
export type FaultName = (typeof FAULTS)[number]

export interface FakeFault {
  kind: 'fault'
  fault: FaultName
  /** More headers, such as `retry-after`. */
  headers?: Record<string, string>
  /** The message of an error body. */
  message?: string
  /** Bytes that `huge` sends at most. */
  bytes?: number
}
/** Streams `after`, then nothing more; without it not even headers come. */
export interface FakeHang { kind: 'hang', after?: string }
/** Writes these bytes as the body of a `200`. */
export interface FakeRaw { kind: 'raw', body: string, contentType?: string }
export type FakeAnswer = FakeReply | FakeFault | FakeHang | FakeRaw

type More = Omit<FakeReply, 'kind' | 'text' | 'calls'>
export const says = (text: string, more: More = {}): FakeReply => ({ kind: 'reply', text, ...more })
export const calls = (name: string, input: unknown, more: More & { id?: string, text?: string } = {}): FakeReply => {
  const { id, ...rest } = more
  return { kind: 'reply', calls: [{ name, input, ...(id === undefined ? {} : { id }) }], ...rest }
}
export const callsAll = (all: FakeCall[], more: More & { text?: string } = {}): FakeReply =>
  ({ kind: 'reply', calls: all, ...more })
export const hangs = (after?: string): FakeHang => ({ kind: 'hang', ...(after === undefined ? {} : { after }) })
export const fails = (fault: FaultName, more: Omit<FakeFault, 'kind' | 'fault'> = {}): FakeFault =>
  ({ kind: 'fault', fault, ...more })
export const raw = (body: string, contentType?: string): FakeRaw =>
  ({ kind: 'raw', body, ...(contentType === undefined ? {} : { contentType }) })

export const argumentsOf = (call: FakeCall): string => call.arguments ?? JSON.stringify(call.input ?? {})

/** `text` in `pieces` pieces of about the same length. */
export function cut (text: string, pieces: number): string[] {
  const size = Math.max(1, Math.ceil(text.length / pieces))
  return Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size))
}

/** How one protocol writes answers down. */
export interface FakeProtocol {
  readonly contextError: { status: number, code?: string, message: string }
  /** The server-sent frames of a reply. */
  frames (reply: FakeReply, model: string, n: number): string[]
  whole (reply: FakeReply, model: string, n: number): object
  /** The frames of a stream that has begun, up to a first delta of `text`. */
  opening (text: string, model: string, n: number): string[]
  delta (text: string): string
  /** All that a stream without any content holds. */
  empty (): string[]
  errorFrame (message: string): string
  errorBody (type: string, message: string, code?: string): object
}
