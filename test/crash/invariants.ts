import type { Facts, RunFacts } from './facts.ts'
import type { Host, Reader, Seen } from './host.ts'
import type { World } from './world.ts'

/** What must hold of every run after any crash (quality.md, "Never loses, never lies"); each violation in words. */
export function violationsOf (facts: Facts, host: Host, world: World): string[] {
  return [
    ...facts.runs.flatMap((run) => [...oneEnd(run), ...everyEventOnce(run), ...balanced(run), ...append(run, world)]),
    ...host.readers.flatMap((reader) => readOnce(reader, facts, host)),
    ...acknowledged(facts, host)
  ]
}

const nameOf = ({ metadata: { key }, label, id }: RunFacts): string => `${key ?? `"${label}"`} (${id})`
const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

/** One terminal state, the same for whoever asks: status, result, list, page and stream. */
function oneEnd (run: RunFacts): string[] {
  const ends = run.events.filter((event) => event.type === 'run/settled' && event.runId === run.id)
  const told = run.events.at(-1)?.data as { stopReason?: unknown, output?: unknown } | undefined
  const listed = (run as { listed?: { stopReason: unknown, output: unknown } }).listed
  const facts = ({ stopReason, output }: { stopReason?: unknown, output?: unknown }): unknown => ({ stopReason, output })
  return [
    ...run.status === 'settled' ? [] : [`${nameOf(run)} is ${run.status} in the end`],
    ...ends.length === 1 && run.events.at(-1) === ends[0] ? [] : [`the log of ${nameOf(run)} settles ${ends.length} times`],
    ...run.stopReason === run.result.stopReason ? [] : [`${nameOf(run)} ended ${run.stopReason}, and ${run.result.stopReason} by its result`],
    ...told && isSame(facts(told), facts(run.result)) ? [] : [`the log of ${nameOf(run)} has another end than its result`],
    ...!listed || isSame(facts(listed), facts(run.result)) ? [] : [`the list has another end of ${nameOf(run)} than its result`],
    ...run.runningChildren === 0 ? [] : [`${nameOf(run)} has ${run.runningChildren} running children in the end`]
  ]
}

function everyEventOnce (run: RunFacts): string[] {
  const seqs = run.events.map(({ seq }) => seq)
  const first = run.continues === null ? run.seed.events : seqs[0] ?? 0
  const hole = seqs.findIndex((seq, i) => seq !== first + i)
  return [
    ...hole === -1 ? [] : [`the log of ${nameOf(run)} has event ${seqs[hole]} where ${first + hole} follows`],
    ...isSame(run.streamed, run.events) ? [] : [`the stream of ${nameOf(run)} has other events than its pages`]
  ]
}

/** Turns, steps and calls open and close in pairs; each call is started and answered once. */
function balanced (run: RunFacts): string[] {
  const open: string[] = []
  const wrong: string[] = []
  const answered = new Map<string, number>()
  const started = new Map<string, number>()
  const count = (of: Map<string, number>, event: Seen): void => {
    const { toolCallId } = event.data as { toolCallId: string }
    of.set(toolCallId, (of.get(toolCallId) ?? 0) + 1)
  }
  for (const event of run.events) {
    const [what = '', how] = event.type.split('/')
    if (what === 'turn' || what === 'step') {
      if (how === 'start') open.push(what)
      else if (open.pop() !== what) wrong.push(`${event.type} at ${event.seq}`)
    }
    if (event.type === 'tool/result') count(answered, event)
    if (event.type === 'tool/call') count(started, event)
  }
  for (const [id, times] of answered) if (times !== 1) wrong.push(`${times} results of ${id}`)
  for (const [id, times] of started) if (times !== 1 || !answered.has(id)) wrong.push(`${times} starts of ${id}, ${answered.get(id) ?? 0} results`)
  return wrong.length === 0 && open.length === 0 ? [] : [`the log of ${nameOf(run)} is not balanced: ${[...wrong, ...open].join(', ')}`]
}

/** The requests after the last crash only ever append to each other (driver.md 2.6): the last one holds each that has its history. */
function append (run: RunFacts, world: World): string[] {
  const key = run.metadata.key
  const asked = key === undefined ? [] : world.asked(key)
  const last = asked.at(-1)
  const lost = run.events.some((event) => event.type === 'run/resumed')
  if (!last || lost) return []
  return asked.every((messages) => isSame(messages, last.slice(0, messages.length))) ? [] : [`a request of ${nameOf(run)} changes what an earlier one said`]
}

/** A reader that came again after each crash has every event once, in order. */
function readOnce ({ id, tree, events }: Reader, facts: Facts, { told }: Host): string[] {
  const run = facts.byId(id)
  if (!run) return told.deleted.has(id) ? [] : [`the run ${id} that somebody read is gone`]
  const wanted = tree ? facts.runs.filter((each) => each.id === id || isBelow(each, id, facts)) : [run]
  return wanted.flatMap((each) => {
    const seen = events.filter(({ runId }) => runId === each.id).map(({ seq, type }) => `${seq} ${type}`)
    const logged = each.events.map(({ seq, type }) => `${seq} ${type}`)
    return isSame(seen, logged) ? [] : [`a ${tree ? 'tree ' : ''}reader of ${nameOf(run)} got of ${nameOf(each)} [${seen.join(', ')}], logged are [${logged.join(', ')}]`]
  })
}

function isBelow (run: RunFacts, id: string, facts: Facts): boolean {
  for (let at: RunFacts | undefined = run; at?.parent.runId; at = facts.byId(at.parent.runId)) if (at.parent.runId === id) return true
  return false
}

function acknowledged (facts: Facts, { told }: Host): string[] {
  const dead = [...told.runs].filter((id) => !told.deleted.has(id) && !facts.byId(id))
  const back = [...told.deleted].filter((id) => facts.byId(id))
  return [
    ...dead.map((id) => `the acknowledged run ${id} is gone`),
    ...back.map((id) => `the deleted run ${id} is back`),
    ...told.results.flatMap(({ id, body }) => {
      const now = facts.byId(id)?.result
      return !now || isSame(now, body) ? [] : [`the result of ${id} was another one before a crash`]
    }),
    ...[...told.cancels].flatMap((id) => facts.byId(id)?.cancel ? [] : [`the acknowledged cancellation of ${id} is lost`]),
    ...told.answers.flatMap(({ id, toolCallId, content }) => facts.byId(id)?.toolResult(toolCallId)?.text === content ? [] : [`the acknowledged answer to ${toolCallId} of ${id} is lost`]),
    ...told.messages.flatMap(({ id, messageId }) => {
      const logged = facts.byId(id)?.events.filter((event) => event.type === 'user/message' && (event.data as { messageId?: string }).messageId === messageId)
      return logged?.length === 1 ? [] : [`the acknowledged message to ${id} is in its log ${logged?.length ?? 0} times`]
    })
  ]
}
