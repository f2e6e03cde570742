import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { Frame } from '../../src/providers/claude-code/vocabulary.ts'
import { RECORDINGS } from '../providers/claude-code/recordings.ts'
import type { Answer, Service } from '../support/service.ts'

/** A host that runs the CLI itself, and ingests what it writes. */
export type Host = Pick<Service, 'call'> & { url: string }

export const startChat = async (host: Host, more: object = {}): Promise<string> => {
  const { status, body, text } = await host.call('POST', '/v1/runs', { provider: 'claude-code', ingest: true, ...more })
  if (status !== 201) throw new Error(`the start was answered ${status}: ${text}`)
  return body.id as string
}

export const lineOf = (frame: Frame | string): string => typeof frame === 'string' ? frame : JSON.stringify(frame)
export const linesOf = (...frames: (Frame | string)[]): string => frames.map((frame) => `${lineOf(frame)}\n`).join('')

/** The lines of a recording, or of several one after the other in one chat. */
export const recorded = (...names: string[]): string[] => names.flatMap((name) => {
  const recording = RECORDINGS.find((each) => each.name === name)
  if (!recording) throw new Error(`no recording of ${name}`)
  return recording.inputs.flatMap((input) => input.type === 'frame' ? [JSON.stringify(input.frame)] : [])
})
export const NAMES: readonly string[] = RECORDINGS.map(({ name }) => name)

export interface Piece { from?: number, end?: boolean, headers?: Record<string, string> }
const pathOf = (id: string, { from, end }: Piece): string => {
  const query = new URLSearchParams({ ...(from === undefined ? {} : { from: String(from) }), ...(end === undefined ? {} : { end: String(end) }) })
  return `/v1/runs/${id}/frames?${query.toString()}`
}
const NDJSON = { 'content-type': 'application/x-ndjson' }

/** Posts a piece as it stands. */
export async function post (host: Pick<Host, 'url'>, id: string, body: string, piece: Piece = {}): Promise<Answer> {
  const response = await fetch(host.url + pathOf(id, piece), { method: 'POST', body, headers: { ...NDJSON, ...piece.headers } })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: text === '' ? undefined : JSON.parse(text) }
}

/** Ingests a whole output, as one request. Throws unless every line of it was accepted. */
export async function ingest (host: Host, id: string, lines: readonly string[], end = true): Promise<void> {
  const answer = await post(host, id, lines.map((line) => `${line}\n`).join(''), { end })
  if (answer.status !== 200 || answer.body.accepted !== lines.length) throw new Error(`the frames were answered ${answer.status}: ${answer.text}`)
}

export interface OpenPiece {
  /** Resolves once the bytes are on their way. */
  send (bytes: string | Uint8Array): Promise<void>
  /** Ends the body. */
  end (): void
  /** The answer, whenever it comes. Rejects where the connection ends before. */
  readonly answer: Promise<Answer>
  /** Goes away as a crashed host does. */
  drop (): void
}

/** A chunked request on a connection of its own. */
export function openPiece (host: Pick<Host, 'url'>, id: string, piece: Piece = {}): OpenPiece {
  const sent = request(host.url + pathOf(id, piece), { method: 'POST', agent: false, headers: { ...NDJSON, ...piece.headers } })
  sent.flushHeaders()
  const answer = new Promise<Answer>((resolve, reject) => {
    sent.on('response', (response) => {
      // Once the answer is there, what could not be written any more is no matter.
      sent.off('error', reject).on('error', () => {})
      answerOf(response).then(resolve, reject)
    })
    sent.on('error', reject)
  })
  answer.catch(() => {})
  return {
    send: (bytes) => new Promise((resolve, reject) => { sent.write(bytes, (error) => error ? reject(error) : resolve()) }),
    end: () => { sent.end() },
    answer,
    drop: () => { sent.destroy() }
  }
}

async function answerOf (response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  response.on('data', (chunk: Buffer) => { chunks.push(chunk) })
  await once(response, 'end')
  const text = Buffer.concat(chunks).toString()
  return { status: response.statusCode ?? 0, headers: new Headers(response.headers as Record<string, string>), text, body: text === '' ? undefined : JSON.parse(text) }
}

export interface TreeNode { id: string, label: string | null, status: string, externalId: string | null, runningChildren: number, children: TreeNode[], [field: string]: any } // eslint-disable-line typescript/no-explicit-any

export const treeOf = async (host: Host, id: string): Promise<TreeNode> => (await host.call<TreeNode>('GET', `/v1/runs/${id}/tree`)).body
export const runOf = async (host: Host, id: string): Promise<TreeNode> => (await host.call<TreeNode>('GET', `/v1/runs/${id}`)).body

/** Every event of the tree in its order, and every row, without the ids and times that no two runs share. */
export async function storyOf (host: Host, id: string): Promise<string[]> {
  const tree = await treeOf(host, id)
  const names = new Map<string, string>([[tree.id, 'chat']])
  // Of one that goes on with another the tag may be another's: its place in the tree tells them apart.
  for (const [i, child] of tree.children.entries()) names.set(child.id, `child ${i + 1}`)
  const plain = (value: unknown): string => [...names].reduce((said, [runId, name]) => said.replaceAll(runId, name), JSON.stringify(value))
  const events = (await eventsOf(host, id)).map(({ runId, seq, type, data }) => `${names.get(runId)} ${seq} ${type} ${plain(untimed(data))}`)
  const rows = [tree, ...tree.children].map(({ id: runId, continues, label, status, stopReason, error, depth, model, externalId, framesAccepted, runningChildren, usage, sessionId }) =>
    plain({ runId, continues, label, status, stopReason, error, depth, model, externalId, framesAccepted, runningChildren, usage, sessionId }))
  return [...events, ...rows]
}

const untimed = (data: Record<string, unknown>): unknown => 'at' in data ? { ...data, at: null } : data

export interface LoggedEvent { runId: string, seq: number, type: string, data: Record<string, any> } // eslint-disable-line typescript/no-explicit-any

export async function eventsOf (host: Host, id: string, tree = true): Promise<LoggedEvent[]> {
  const found: LoggedEvent[] = []
  for (let after = ''; ;) {
    const { body } = await host.call('GET', `/v1/runs/${id}/events?tree=${tree}&limit=500${after}`)
    if (body.events.length === 0) return found
    found.push(...body.events as LoggedEvent[])
    after = `&after=${encodeURIComponent(body.after as string)}`
  }
}

/** A page of the journal, as it is answered. */
export const linesFrom = async (host: Host, id: string, query: { from: number, limit: number }): Promise<string> =>
  (await fetch(`${host.url}/v1/runs/${id}/frames?from=${query.from}&limit=${query.limit}`)).text()

/** The journal, line by line. */
export async function journalOf (host: Host, id: string, limit = 1000): Promise<string[]> {
  const found: string[] = []
  for (;;) {
    const text = await linesFrom(host, id, { from: found.length, limit })
    if (text === '') return found
    found.push(...text.slice(0, -1).split('\n'))
  }
}

/** Resolves once so many lines are accepted. */
export async function untilAccepted (host: Host, id: string, count: number): Promise<void> {
  while ((await runOf(host, id)).framesAccepted < count) await new Promise((resolve) => { setImmediate(resolve) })
}
