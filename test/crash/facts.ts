import { setTimeout as delay } from 'node:timers/promises'
import type { Host, Seen } from './host.ts'
import { readEvents } from '../support/sse.ts'

interface View {
  id: string, status: string, stopReason: string | null, error: unknown, label: string | null, createdAt: string, continues: string | null
  parent: { runId: string | null }, rootId: string, metadata: { key?: string }, seed: { events: number }
  cancel: { reason: string | null } | null, runningChildren: number, result?: ResultView
}
interface ResultView { stopReason: string, output: { text?: string }[], structured: unknown, error: unknown, usage: unknown }
interface ToolResult { text: string, isError: boolean }

/** A run as every reader is told of it in the end. */
export interface RunFacts extends View {
  result: ResultView
  /** The text of its output. */
  text: string
  structured: unknown
  /** Its own events, by pages; by a stream from its beginning. */
  events: Seen[]
  streamed: Seen[]
  toolResult (toolCallId: string): ToolResult | undefined
  /** How many messages of users in its log hold a text. */
  told (part: string): number
}

export interface Facts {
  runs: RunFacts[]
  byId (id: string): RunFacts | undefined
  byKey (key: string): RunFacts[]
  /** Children of the run of a key. */
  childrenOf (key: string): RunFacts[]
  one (key: string, check: (run: RunFacts) => string[]): string[]
  /** Violations unless the run of the key has so many children, each told of once as started and as ended. */
  children (key: string, count: number): string[]
}

/** Reads all that the service has, once nothing more is to come. */
export async function gatherFacts (host: Host): Promise<Facts> {
  const views = await listRuns(host)
  const runs = await Promise.all(views.map((view) => gatherRun(host, view)))
  const byKey = (key: string): RunFacts[] => runs.filter(({ metadata }) => metadata.key === key)
  const one: Facts['one'] = (key, check) => {
    const [run, ...more] = byKey(key)
    return run && more.length === 0 ? check(run) : [`the key ${key} has ${more.length + (run ? 1 : 0)} runs`]
  }
  const childrenOf = (key: string): RunFacts[] => runs.filter(({ parent, metadata }) => metadata.key === undefined && parent.runId !== null && parent.runId === byKey(key)[0]?.id)
  return {
    runs,
    byId: (id) => runs.find((run) => run.id === id),
    byKey,
    childrenOf,
    one,
    children: (key, count) => one(key, (run) => {
      const children = childrenOf(key)
      const noted = (type: string, id: string): number => run.events.filter((event) => event.type === type && (event.data as { runId: string }).runId === id).length
      return [
        ...children.length === count ? [] : [`${key} has ${children.length} children, not ${count}`],
        // A run that is cancelled takes no more notes: neither of a child's end, nor, after a crash between the two, of its start.
        ...children.flatMap(({ id, label }) => (run.stopReason === 'aborted' ? ['0,0', '1,0', '1,1'] : ['1,1']).includes(`${noted('subagent/start', id)},${noted('subagent/end', id)}`)
          ? []
          : [`the child "${label}" of ${key} is told ${noted('subagent/start', id)} times as started, ${noted('subagent/end', id)} as ended`])
      ]
    })
  }
}

async function listRuns (host: Host): Promise<View[]> {
  const views: View[] = []
  for (let cursor = ''; ;) {
    const { body } = await host.call('GET', `/v1/runs?limit=50&include=result${cursor}`)
    const page = body as { runs: View[], nextCursor: string | null }
    views.push(...page.runs)
    if (page.nextCursor === null) return views
    cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`
  }
}

async function gatherRun (host: Host, listed: View): Promise<RunFacts> {
  const { id } = listed
  const { status, body, text } = await host.call('GET', `/v1/runs/${id}/result?wait=10`)
  if (status !== 200) throw new Error(`the run ${listed.metadata.key ?? listed.label} (${id}) does not settle: ${status} ${text}`)
  const result = body as ResultView
  const view = (await host.call('GET', `/v1/runs/${id}`)).body as View
  const events = await pages(host, id)
  const data = (event: Seen): { toolCallId?: string, content?: { text?: string }[], isError?: boolean } => event.data as object
  return {
    ...listed, ...view, ...listed.result === undefined ? {} : { listed: listed.result }, result,
    text: textOf(result.output), structured: result.structured, events, streamed: await stream(host, id),
    toolResult (toolCallId) {
      const found = events.find((event) => event.type === 'tool/result' && data(event).toolCallId === toolCallId)
      return found && { text: textOf(data(found).content ?? []), isError: data(found).isError === true }
    },
    told: (part) => events.filter((event) => event.type === 'user/message' && textOf(data(event).content ?? []).includes(part)).length
  }
}

const textOf = (blocks: readonly { text?: string }[]): string => blocks.map(({ text = '' }) => text).join('')
const named = (event: Seen): Seen => ({ runId: event.runId, seq: event.seq, type: event.type === 'settled' ? 'run/settled' : event.type, data: event.data })

async function pages (host: Host, id: string): Promise<Seen[]> {
  const events: Seen[] = []
  for (let after = ''; ;) {
    const { body } = await host.call('GET', `/v1/runs/${id}/events?limit=20${after}`)
    const page = body as { events: Seen[], after: string | null, settled: boolean }
    events.push(...page.events.map(named))
    if (page.settled || page.events.length === 0 || page.after === null) return events
    after = `&after=${encodeURIComponent(page.after)}`
  }
}

/** By a stream from its beginning; anew where a crash comes between. */
async function stream (host: Host, id: string): Promise<Seen[]> {
  const { life, url } = await host.town.now()
  try {
    const reader = await readEvents({ url }, id)
    const events = (await reader.all()).filter((event) => event.id !== undefined).map(({ event, data }) => named({ ...data as Seen, type: event }))
    if (events.at(-1)?.type === 'run/settled') return events
  } catch (error) {
    if (await Promise.race([life.ended.then(() => false), delay(5000, true, { ref: false })])) throw error
  }
  return await stream(host, id)
}
