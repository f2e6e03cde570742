import { outcome } from '../../core/errors.ts'
import { idIn, listIn, nameIn, objectIn, partsIn, stringIn, userIn, wordsIn } from './frames.ts'
import { settleChild, takeCall, takeCallResult, taggedChild, takeShell, takeTagged, takeTaskNews, takeTaskStart } from './children.ts'
import { askedInput } from './member-text.ts'
import { childOf, outOf, type Draft, type State } from './state.ts'
import { see, takeAssistant, takeResult as takeCallEnd, takeStream } from './transcript.ts'
import { abandon, begin, drop, endAll, ensureTurn, queue, release, takeResult, takeWords } from './turns.ts'
import { isTypedFork, settleTypedFork, startTypedFork } from './typed-fork.ts'
import type { ChildRef, Emitted, Frame, Input, RequestId } from './vocabulary.ts'

/**
 * The Claude Code CLI's frames in this service's terms (seed 002): `(state, input) → [state, events]`, without clock or I/O, so
 * that a chat's journal gives the same runs again whenever it is read.
 *
 * The seam. Both ways in keep one `State` a chat, from `createState`; lines.ts makes inputs of bytes. For each input they apply
 * the events in order: `journal` to the chat's journal, `log` to the log of its scope, `message/begun` and `delta` to the scope's
 * `DeltaFeed`, `child/started` as a child run (with `subagent/start` in the chat's log) that `child/settled` ends (with
 * `subagent/end`), and commit what came of one input together. `standing(state)` is what the row shows; `turn/ended` with
 * `answers` is the chat's result. A driver also feeds what it writes (`sent` with `priorityOf(state)`, `interrupt`, `stop`),
 * a `tick` when `dueIn(state)` has passed, and `exit`; it answers `approval/asked` and `control/asked`. Ingest feeds `end`.
 */
export function normalize (state: State, input: Input): [State, Emitted[]] {
  const d: Draft = { state: { ...state }, events: [], fed: null }
  switch (input.type) {
    case 'frame': return takeSafely(state, input.frame, input.line)
    case 'unreadable': takeLine(d, input.line); break
    default: if (!state.ended) takeWord(d, input)
  }
  return [d.state, d.events]
}

/** A frame that a fault of ours makes unusable costs itself alone, and stays in the journal: it must not stop the lines after it. */
function takeSafely (state: State, frame: Frame, line: string | undefined): [State, Emitted[]] {
  const d: Draft = { state: { ...state }, events: [], fed: null }
  try {
    takeLine(d, frame, line)
    return [d.state, d.events]
  } catch (error) {
    return [{ ...state, lines: state.lines + 1 }, [{ type: 'journal', line: state.lines, frame, fed: null }, { type: 'fault', line: state.lines, error }]]
  }
}

/** How long until the state waits for a `tick`: a held end, an interrupt. `undefined`: it waits for none. */
export function dueIn (state: State): number | undefined {
  const waits = [
    ...(state.turn?.held && state.mode === 'drive' ? [HELD_MS - state.quietMs] : []),
    ...(state.interrupt ? [STOP_MS - state.interrupt.ms] : [])
  ]
  return state.ended || waits.length === 0 ? undefined : Math.max(0, Math.min(...waits))
}

const HELD_MS = 5000
const STOP_MS = 3000

function takeLine (d: Draft, frame: Frame | string, line?: string): void {
  const entry: Emitted = { type: 'journal', line: d.state.lines++, frame, fed: null }
  d.events.push(entry)
  if (d.state.ended || typeof frame === 'string') return
  d.state.quietMs = 0
  if (d.state.mode === 'ingest' && d.state.turn?.held && !mayBegin(d, frame)) release(d)
  d.fed = null
  nameSession(d, frame)
  takeFrame(d, frame, line)
  entry.fed = d.fed
}

/** Without a clock a held end waits for the next frame; those that tell of lines may tell that it was a steer (C7, D4). */
const mayBegin = (d: Draft, frame: Frame): boolean => frame['type'] === 'command_lifecycle' ||
  (frame['type'] === 'user' && d.state.pending.some(({ uuid }) => uuid !== undefined && uuid === frame['uuid']))

function takeFrame (d: Draft, frame: Frame, line: string | undefined): void {
  const tag = wordsIn(frame, 'parent_tool_use_id')
  switch (frame['type']) {
    case 'system': takeSystem(d, frame); return
    case 'assistant':
    case 'user':
    case 'stream_event': {
      if (tag === undefined) {
        takeUntagged(d, frame)
        return
      }
      const child = taggedChild(d, tag)
      if (child) takeTagged(d, child, frame)
      return
    }
    case 'command_lifecycle': takeLifecycle(d, frame); return
    case 'result': takeResult(d, frame); return
    case 'control_request': takeRequest(d, frame, line); return
    case 'control_response': takeResponse(d, frame); return
    default:
  }
}

function takeSystem (d: Draft, frame: Frame): void {
  switch (frame['subtype']) {
    case 'init': openSession(d, frame); return
    case 'task_started': {
      const task = idIn(frame, 'task_id')
      const tool = idIn(frame, 'tool_use_id')
      if (frame['task_type'] === 'local_bash') takeShell(d, task)
      else if (tool !== undefined) takeTaskStart(d, frame, task, tool)
      else if (wordsIn(frame, 'tool_use_id') !== undefined) return
      else if (!d.state.muted && isTypedFork(d, frame, task)) {
        ensureTurn(d)
        startTypedFork(d, frame, task)
      }
      return
    }
    case 'task_progress':
    case 'task_updated':
      takeTaskNews(d, frame)
      return
    case 'task_notification':
      d.state.woken = true
      takeTaskNews(d, frame)
      return
    default:
  }
}

/** Every frame of the CLI may tell the session, also before `init` does; tagged ones are an agent's. */
function nameSession (d: Draft, frame: Frame): void {
  if (d.state.session !== undefined || wordsIn(frame, 'parent_tool_use_id') !== undefined) return
  const session = idIn(frame, 'session_id')
  if (session === undefined) return
  d.state.session = session
  d.events.push({ type: 'session/named', sessionId: session })
}

/** A3: the first one opens the session. */
function openSession (d: Draft, frame: Frame): void {
  if (d.state.opened) return
  d.state.opened = true
  d.state.model = nameIn(frame, 'model')
  const tools = listIn(frame, 'tools').filter((tool) => typeof tool === 'string')
  d.state.session = idIn(frame, 'session_id') ?? d.state.session
  d.events.push({ type: 'session/opened', sessionId: d.state.session ?? null, model: d.state.model ?? null, tools, cwd: wordsIn(frame, 'cwd') ?? null })
  d.fed = 'chat'
}

/** The chat's own content (A4). */
function takeUntagged (d: Draft, frame: Frame): void {
  if (d.state.muted && frame['type'] !== 'user') return
  const out = outOf(d, 'chat')
  if (frame['type'] === 'stream_event') {
    const event = objectIn(frame, 'event')
    if (!d.state.turn && !OPENERS.has(event['type'])) return
    ensureTurn(d)
    d.state.log = takeStream(d.state.log, out, event)
    return
  }
  if (frame['type'] === 'user') {
    takeUserFrame(d, frame)
    return
  }
  const [log, again] = see(d.state.log, frame)
  if (again) return
  d.state.log = log
  if (!d.state.turn && nameIn(frame, 'error') === undefined && partsIn(objectIn(frame, 'message')).parts.length === 0) return
  ensureTurn(d)
  const [told, calls] = takeAssistant(d.state.log, out, frame)
  d.state.log = told
  for (const call of calls) takeCall(d, call)
  d.fed = 'chat'
}

/** What of a stream may open a turn. */
const OPENERS: ReadonlySet<unknown> = new Set(['message_start', 'content_block_start', 'content_block_delta'])

function takeUserFrame (d: Draft, frame: Frame): void {
  const { content, results } = userIn(objectIn(frame, 'message'))
  for (const result of results) {
    const [log, taken] = takeCallEnd(d.state.log, outOf(d, 'chat'), result)
    d.state.log = log
    if (taken) d.fed = 'chat'
    takeCallResult(d, result, frame)
  }
  if (content.length === 0) return
  const [log, again] = see(d.state.log, frame)
  d.state.log = log
  if (!again) takeWords(d, content, idIn(frame, 'uuid'), frame['isReplay'] === true)
}

function takeLifecycle (d: Draft, frame: Frame): void {
  const uuid = idIn(frame, 'command_uuid')
  if (uuid === undefined) return
  d.state.lifecycle = true
  switch (frame['state']) {
    case 'queued': queue(d, { uuid, content: undefined }); return
    case 'started': begin(d, uuid); return
    case 'cancelled':
    case 'canceled':
    case 'completed': drop(d, uuid); return
    default:
  }
}

/** It is answered with the same value. */
function requestIdIn (frame: Frame): RequestId | undefined {
  const id = frame['request_id']
  return (typeof id === 'string' && id !== '') || (typeof id === 'number' && Number.isFinite(id)) ? id : undefined
}

/** A7: whatever the CLI asks is told, so that it gets its answer. A request without an id can have none. */
function takeRequest (d: Draft, frame: Frame, line: string | undefined): void {
  const requestId = requestIdIn(frame)
  const request = objectIn(frame, 'request')
  if (requestId === undefined) return
  d.fed = 'chat'
  if (request['subtype'] !== 'can_use_tool') {
    d.events.push({ type: 'control/asked', requestId, subtype: stringIn(request, 'subtype') ?? '' })
    return
  }
  d.events.push({
    type: 'approval/asked', requestId, tool: stringIn(request, 'tool_name') ?? '', input: askedInput(frame, line),
    toolCallId: idIn(request, 'tool_use_id') ?? null, agentId: idIn(request, 'agent_id') ?? null
  })
}

/** An answer to a request of ours; one that tells what is still queued answers an interrupt (A6). */
function takeResponse (d: Draft, frame: Frame): void {
  const response = objectIn(frame, 'response')
  const requestId = wordsIn(response, 'request_id')
  const error = nameIn(response, 'error')
  if (requestId !== undefined) {
    d.events.push({ type: 'control/answered', requestId, ok: response['subtype'] === 'success', ...(error === undefined ? {} : { error }) })
    d.fed = 'chat'
  }
  if (!Array.isArray(objectIn(response, 'response')['still_queued'])) return
  d.state.interrupt = d.state.turn && d.state.mode === 'drive' ? { answered: true, ms: 0 } : undefined
  if (d.state.turn) d.state.turn = { ...d.state.turn, interrupted: true }
}

function takeWord (d: Draft, input: Exclude<Input, { type: 'frame' | 'unreadable' }>): void {
  switch (input.type) {
    case 'sent': queue(d, { uuid: input.uuid, content: input.content }); return
    case 'interrupt': d.state.interrupt ??= { answered: false, ms: 0 }; return
    case 'stop': d.state.stopping = true; return
    case 'child/stop': stopChild(d, input.child); return
    case 'tick': takeTime(d, Math.max(0, input.ms)); return
    case 'exit': endAll(d, outcome('INTERRUPTED', `the CLI ended before the turn did (${input.signal ?? `code ${input.code ?? 'unknown'}`})`)); break
    case 'end': endAll(d, input.error ?? outcome('INTERRUPTED', 'the input ended before the turn did')); break
    default: input satisfies never
  }
  d.state.ended = true
}

function stopChild (d: Draft, ref: ChildRef): void {
  const child = childOf(d.state, ref)
  if (!child) return
  if (d.state.fork === ref) settleTypedFork(d, 'aborted')
  else settleChild(d, child, 'aborted')
}

function takeTime (d: Draft, ms: number): void {
  d.state.quietMs += ms
  const { interrupt } = d.state
  if (interrupt) {
    d.state.interrupt = { ...interrupt, ms: interrupt.ms + ms }
    if (interrupt.ms + ms >= STOP_MS) {
      d.state.interrupt = undefined
      if (interrupt.answered) abandon(d)
      else d.events.push({ type: 'interrupt/unanswered' })
    }
  }
  if (d.state.mode === 'drive' && d.state.quietMs >= HELD_MS) release(d)
}
