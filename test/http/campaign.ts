import fc from 'fast-check'
import { readDocument, type Document } from './document.ts'
import { KEY, type Population } from './population.ts'
import { REFERENCES, requests, type Reference, type Request } from './requests.ts'
import { exchange, type WireEnd } from './wire.ts'

/** Sends what the document allows and what it does not to a real service, and holds every answer against it. */

/** No answer by then is a stall: the longest wait is a second. */
const BOUND_MS = 10_000
const BATCH = 24
const AT_ONCE = 8

export interface Violation { fault: string, operation: string, status: number | 'closed' | 'silent', request: string,
  answer: string }
export interface Report {
  sent: number
  /** By operation and status. */
  totals: Map<string, Map<string, number>>
  violations: Violation[]
  slowestMs: number
  /** How long /healthz took after each batch. */
  healthMs: number[]
}
export const emptyReport = (): Report => ({ sent: 0, totals: new Map(), violations: [], slowestMs: 0, healthMs: [] })

export interface CampaignOptions { population: Population, count: number, seed: number, onBatch?: (report: Report) => void }

/** Sends `count` requests of this seed, many at once. A violation does not end it; a service that is gone does. */
export async function campaign ({ population, count, seed, onBatch }: CampaignOptions): Promise<Report> {
  const document = readDocument()
  const report = emptyReport()
  const batch = fc.array(requests(document), { minLength: BATCH, maxLength: BATCH })
  const property = fc.asyncProperty(batch, async (list) => {
    await sendAll(population, document, list, report)
    const asked = performance.now()
    const health = await population.call('GET', '/healthz')
    report.healthMs.push(performance.now() - asked)
    if (health.status !== 200) throw new Error(`after a batch /healthz answers ${health.status}`)
    await population.refresh(touchedBy(list))
    onBatch?.(report)
  })
  const numRuns = Math.ceil(count / BATCH)
  const outcome = await fc.check(property, { seed, numRuns, endOnFailure: true, markInterruptAsFailure: true })
  if (outcome.failed) throw new Error(`seed ${seed}: ${String(outcome.errorInstance)}`, { cause: outcome.errorInstance })
  return report
}

/** What requests that may change something named. */
function touchedBy (list: readonly Request[]): Set<Reference> {
  const texts = list.filter(({ method }) => method !== 'GET' && method !== 'HEAD').map(({ target,
    body }) => `${target} ${body?.toString('latin1') ?? ''}`)
  const named = REFERENCES.filter((name) => texts.some((text) => text.includes(`{{${name}}}`)))
  // A root, a session or a label names runs without naming them.
  return new Set(texts.some((text) => /cancel|sessions/.test(text)) ? REFERENCES : named)
}

async function sendAll (population: Population, document: Document, list: readonly Request[], report: Report): Promise<void> {
  const queue = [...list]
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let request = queue.shift(); request; request = queue.shift()) await sendOne(population, document, request, report)
  }))
}

async function sendOne (population: Population, document: Document, request: Request, report: Report): Promise<void> {
  const { pieces, target } = wire(population, request)
  const options = { boundMs: BOUND_MS, noBody: request.method === 'HEAD', ends: request.framing === 'broken' }
  let end = await exchange(population.port, pieces, options)
  // A body that nobody reads may still be on its way when its connection ends: then the answer is lost to this client, now and then.
  for (let tries = 0; 'closed' in end && request.body && tries < 3; tries++) end = await exchange(population.port, pieces,
    options)
  const status = 'status' in end ? end.status : 'closed' in end ? 'closed' : 'silent'
  const operation = document.match(request.method, target)
  const counts = report.totals.get(operation?.id ?? '(none)') ?? new Map<string, number>()
  report.totals.set(operation?.id ?? '(none)', counts)
  counts.set(String(status), (counts.get(String(status)) ?? 0) + 1)
  report.sent++
  if ('took' in end) report.slowestMs = Math.max(report.slowestMs, end.took)
  const fault = faultOf(document, request, target, end)
  if (fault === undefined || report.violations.length >= 200) return
  report.violations.push({
    fault, operation: operation?.id ?? '(none)', status, request: Buffer.concat(pieces).toString('latin1').slice(0, 1500),
    answer: 'status' in end ? `${end.status} ${JSON.stringify([...end.headers])} ${end.body.slice(0, 800)}` : ''
  })
}

function faultOf (document: Document, { method, framing, headers }: Request, target: string, end: WireEnd): string | undefined {
  if ('silent' in end) return `no answer within ${BOUND_MS} ms`
  // Who breaks off in the middle of a request may find the connection closed; an upgrade nobody offers, too.
  if ('closed' in end) return framing === 'broken' || headers.some(([name]) => name === 'upgrade') ? undefined : 'the connection was closed without an answer'
  return document.faultOf(document.match(method, target), method, end)
}

/** The request's bytes, in the pieces in which they go out. */
function wire ({ fill, port }: Population, request: Request): { pieces: Buffer[], target: string } {
  const target = fill(request.target)
  const given = (name: string): boolean => request.headers.some(([other]) => other === name)
  const headers: [string, string][] = [
    ...given('host') ? [] : [['host', `127.0.0.1:${port}`] as [string, string]],
    ...given('authorization') ? [] : [['authorization', `Bearer ${KEY}`] as [string, string]],
    ...given('connection') ? [] : [['connection', 'close'] as [string, string]],
    ...request.headers.map(([name, value]): [string, string] => [name, fill(value)]),
    ...request.brokenWith?.headers ?? []
  ]
  const isText = request.body !== undefined && request.body.includes('{{')
  const body = isText ? Buffer.from(fill(request.body?.toString() ?? '')) : request.body
  if (request.framing === 'chunked') headers.push(['transfer-encoding', 'chunked'])
  else if (body && request.framing === 'length') headers.push(['content-length', String(body.length)])
  const head = Buffer.from(`${request.method} ${target} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`, 'latin1')
  if (request.framing === 'broken') return { target, pieces: [head, Buffer.from(request.brokenWith?.bytes ?? '', 'latin1')] }
  if (request.framing === 'length') return { target, pieces: body ? [Buffer.concat([head, body])] : [head] }
  const half = Math.ceil((body?.length ?? 0) / 2)
  const chunks = [body?.subarray(0, half),
    body?.subarray(half)].filter((chunk) => chunk !== undefined && chunk.length > 0) as Buffer[]
  const framed = chunks.map((chunk) => Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk,
    Buffer.from('\r\n')]))
  return { target, pieces: [head, ...framed, Buffer.from('0\r\n\r\n')] }
}

/** Totals by operation and status, as lines. */
export const totalsOf = ({ totals }: Report): string[] => [...totals].toSorted(([a], [b]) => a < b ? -1 : 1).map(([operation,
  counts]) =>
  `${operation.padEnd(16)} ${[...counts].toSorted(([a], [b]) => a < b ? -1 : 1).map(([status, n]) => `${status}: ${n}`).join('  ')}`)

/** Violations told once each, however often they were found. */
export function distinct (violations: readonly Violation[]): string[] {
  const seen = new Map<string, Violation>()
  for (const violation of violations) seen.set(`${violation.operation} ${violation.status} ${violation.fault.slice(0, 100)}`,
    violation)
  return [...seen.values()].map(({ fault, operation, status, request,
    answer }) => `${operation} → ${status}: ${fault}\n  ${JSON.stringify(request)}\n  ${answer}`)
}
